/* A DataService on three ranks: it is made, then called CALLS times, each time to make a step, to pass over one again, or to
 * take results home. Any part of a rank's work may fail, on any ranks; once, a rank's program may call something else than
 * the others' do. All settings and all orders are looked at. docs/exchange.md says where each part is in the code. */

#include "meetings.pml"
#include "calls.pml"

#ifndef CALLS
#define CALLS 2
#endif

/* What programs call, all the same. Whoever gets there first decides, and the last one makes room for the next call. */
#define NOT_KNOWN 0
#define MAKES_A_STEP 1
#define MAKES_ANOTHER_PASS 2
#define COLLECTS_RESULTS 3
#define COLLECTS_ON_A_RANK 4
#define COLLECTS_ON_ANOTHER_RANK 5
#ifdef ONLY_STEPS  /* enough for some mutants */
#define LAST_CALL MAKES_A_STEP
#define LAST_WRONG_CALL MAKES_A_STEP
#else
#define LAST_CALL COLLECTS_ON_A_RANK
#define LAST_WRONG_CALL COLLECTS_ON_ANOTHER_RANK
#endif
byte call;
byte ranks_that_know;
bool somebody_errs;

Verdict of_call;

proctype Trainer(byte me) {
  RANK_STATE;
  byte made = 0;
  byte does;
  atomic { construct(SERVICE); conclude(of_call) };
  do
  :: goes_on && made < CALLS ->
     atomic {
       if
       :: call == NOT_KNOWN -> select(does : MAKES_A_STEP .. LAST_CALL); call = does
       :: else -> does = call
       fi;
       if  /* a program that is wrong on this rank */
       :: !somebody_errs -> select(does : MAKES_A_STEP .. LAST_WRONG_CALL); somebody_errs = (does != call)
       :: true
       fi;
       ranks_that_know++;
       if
       :: ranks_that_know == RANKS -> ranks_that_know = 0; call = NOT_KNOWN
       :: else
       fi;
       made++;
       forget_call();
       if
       :: does == MAKES_A_STEP -> does = 0; first_pass(SERVICE, MAKES_EVEN_STEP)
#ifndef ONLY_STEPS
       :: does == MAKES_ANOTHER_PASS -> does = 0; later_pass(SERVICE)
       :: does == COLLECTS_RESULTS -> does = 0; collect(SERVICE, COLLECTS)
       :: does == COLLECTS_ON_A_RANK -> does = 0; collect_on(SERVICE, COLLECTS_ON_0, MOVE_TO_0)
       :: does == COLLECTS_ON_ANOTHER_RANK -> does = 0; collect_on(SERVICE, COLLECTS_ON_1, MOVE_TO_1)
#endif
       fi;
       conclude(of_call);
       forget_call()  /* after an error the service can be used again */
     }
  :: else -> break
  od
}

init {
  byte rank;
  atomic {
    for (rank : 0 .. RANKS - 1) { run Trainer(rank) }
  };
  (_nr_pr == 1);  /* all have ended: nothing is left behind */
  for (rank : 0 .. COMMUNICATORS - 1) { assert(at[rank].here == 0) }
}
