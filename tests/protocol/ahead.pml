/* Steps of a service on three ranks: on each a thread that makes steps, and a trainer that takes them, calls a service of its own
 * with some, and destroys the steps after any. What is inside a call is in service.pml; here a call is its
 * announcement and its last agreement. Any part of a rank's work may fail, on any ranks. docs/exchange.md says where each
 * part is in the code.
 *
 * WITHOUT_THREADS: steps are made in next() and progress(). STOPS_APART: trainers destroy their steps after
 * different steps, which contracts forbid: nobody may wait for good all the same. */

#include "meetings.pml"

#ifndef STEPS
#define STEPS 3
#endif
#ifndef DEPTH
#define DEPTH 1
#endif

/* StepsAhead: what is ready for a rank's trainer, by its verdicts, and how its thread is told to begin and to stop. */
chan ready[RANKS] = [DEPTH] of { byte };
bool has_begun[RANKS];
bool told_to_stop[RANKS];
bool has_ended[RANKS];  /* no more are made, since a rank was told to stop */
bool joined[RANKS];     /* the thread has returned */

/* What programs do with a step, all the same. Whoever gets there first decides. */
#define NOT_KNOWN 0
#define TRAINS 1
#define CALLS_THE_SERVICE 2
#define MAKES_ONE_AHEAD 3
#define STOPS 4
byte use_of[STEPS];
byte know_of[STEPS];  /* ranks */

Verdict of_service;
Verdict of_step;
Verdict handed_out[STEPS];  /* by next(), by step */

/* CallKey: a thread's are those of its steps. */
#define PASSES_OVER 4

/* A collective call, as service.pml has it in full. */
inline call_together(mesh, key) {
  work();
  announce(EVERYONE(mesh), key);
  told_fields = 0;
  work();
#ifdef MUTANT_NO_LAST_AGREEMENT
  if
  :: goes_on && error -> v = ERROR_OF(me)
  :: else
  fi
#else
  agree(EVERYONE(mesh))
#endif
}

/* StepsAhead::make_next, and the step is put where the trainer takes it. */
inline make_next() {
  call_together(AHEAD, 1 << (made & 1));
  assert(v != DIFFERENT_CALLS);  /* threads are at the same step */
  made++;
  conclude(of_step);
  ready[me] ! v;
  forget_call()
}

/* StepsAhead::make_all on rank `me`. */
proctype Thread(byte me) {
  RANK_STATE;
  byte made = 0;
  (has_begun[me] || told_to_stop[me]);
  if
  :: has_begun[me]
  :: else -> goto returned
  fi;
  do
  :: made < STEPS && !has_ended[me] ->
     (len(ready[me]) < DEPTH || told_to_stop[me]);  /* wait_for_room */
#ifdef MUTANT_STOPS_ALONE
     if
     :: told_to_stop[me] -> has_ended[me] = true; break
     :: else
     fi;
#endif
     atomic {
       meet(EVERYONE(AHEAD), ALL_REDUCE, told_to_stop[me], 0);  /* agree_to_continue */
       if
       :: first != NOBODY -> has_ended[me] = true; forget_call()
       :: else -> make_next()
       fi
     }
  :: else -> break
  od;
returned:
  joined[me] = true
}

/* The user's program on rank `me`. After an error it goes on with the next step, as contracts allow. */
proctype Trainer(byte me) {
  RANK_STATE;
  byte taken = 0;
  byte made = 0;  /* without threads */
  byte does;
  atomic {  /* start_thread: which a rank may not be given */
    work();
    agree(EVERYONE(AHEAD));
    conclude(of_service)
  };
  if
  :: goes_on -> has_begun[me] = true
  :: else -> v = OK; goto stop
  fi;
  do
  :: taken < STEPS ->
     atomic {
#ifdef STOPS_APART
       if
       :: does = TRAINS
       :: does = STOPS
       fi;
#else
       if
       :: use_of[taken] == NOT_KNOWN -> select(does : TRAINS .. STOPS); use_of[taken] = does
       :: else -> does = use_of[taken]
       fi;
       know_of[taken]++;
       if
       :: know_of[taken] == RANKS -> use_of[taken] = NOT_KNOWN
       :: else
       fi;
#endif
       if
       :: does == STOPS -> break
       :: else
       fi
     };
#ifdef WITHOUT_THREADS
     atomic {
       if
       :: does == MAKES_ONE_AHEAD && made < STEPS && len(ready[me]) < DEPTH -> make_next()  /* progress() */
       :: else
       fi;
       if
       :: empty(ready[me]) -> make_next()
       :: nempty(ready[me])
       fi
     };
#endif
     (nempty(ready[me]) || has_ended[me]);  /* take */
     atomic {
#ifdef STOPS_APART
       if
       :: empty(ready[me]) -> break  /* "a rank stopped taking steps before it": the job should end */
       :: nempty(ready[me])
       fi;
#endif
       assert(nempty(ready[me]));
       ready[me] ? v;
#ifdef MUTANT_FAILS_AFTER_THE_HANDOVER
       if
       :: goes_on -> v = ERROR_OF(me)
       :: true
       fi;
#endif
       conclude(handed_out[taken]);  /* no rank has a step that another was refused */
       taken++;
       if
       :: goes_on && does == CALLS_THE_SERVICE -> call_together(SERVICE, PASSES_OVER); conclude(of_service)
       :: else
       fi;
       forget_call(); does = 0
     }
  :: else -> break
  od;
stop:
  atomic {
    does = 0;
    told_to_stop[me] = true;
#ifndef MUTANT_THREAD_IS_NOT_JOINED
    joined[me];
#endif
    do
    :: nempty(ready[me]) -> ready[me] ? _
    :: empty(ready[me]) -> break
    od
  };
  /* The steps have gone, and what its thread used with it. */
  assert(joined[me] && empty(ready[me]))
}

init {
  byte rank;
  atomic {
    for (rank : 0 .. RANKS - 1) {
#ifdef WITHOUT_THREADS
      joined[rank] = true;
#else
      run Thread(rank);
#endif
      run Trainer(rank)
    }
  };
  (_nr_pr == 1);  /* all have ended: nothing is left behind */
  for (rank : 0 .. RANKS - 1) { assert(joined[rank] && empty(ready[rank])) };
  for (rank : 0 .. COMMUNICATORS - 1) { assert(at[rank].here == 0) }
}
