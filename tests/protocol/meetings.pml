/* Ranks, communicators and what ranks do on them: collective calls, agreements, one rank's own work.
 *
 * A collective call is a meeting: whoever arrives waits until all ranks have. MPI lets some calls go sooner (the root of a
 * broadcast); a protocol that is right when all calls wait is right then too. What a rank does between two meetings is
 * its own, so that a process runs from one meeting to the next in one atomic piece: nobody could see it in between. */

#define RANKS 3
#define NOBODY RANKS

/* The verdict of a call on a rank: OK, 1 + the rank whose error all throw, or one that all find in what was gathered. */
#define OK 0
#define ERROR_OF(rank) (1 + (rank))
#define DIFFERENT_CALLS 4
#define DIFFERENT_FIELDS 5

/* Communicators: four for the service that the trainer calls, four for the one that makes steps ahead.
 * one's four are a Mesh. All ranks are on one node. Along data parallelism and among the ranks of one place
 * there is either everybody or the rank alone, as dp = 3 or tp = 3 would have it. */
#define SERVICE 0
#ifdef MUTANT_PREFETCHER_SHARES_THE_COMMUNICATOR
#define AHEAD 0
#else
#define AHEAD 4
#endif
#define COMMUNICATORS 8
#define EVERYONE(mesh) (mesh)
#define NODE(mesh) ((mesh) + 1)
#define DP_LINE(mesh) ((mesh) + 2)
#define PEERS(mesh) ((mesh) + 3)

/* Collective calls: ranks that arrive with different ones have broken MPI's rule, and the model's assertion. */
#define ALL_REDUCE 1
#define AGREEMENT 2
#define ANNOUNCEMENT 3
#define COUNTS 4
#define LISTS 5
#define BROADCAST 6
#define SPLIT 7
#define MOVE 8
#define MOVE_TO_0 9
#define MOVE_TO_1 10
#define REPORT_OF(rank) (11 + (rank))

typedef Meeting {
  byte call;   /* what those that are here have called */
  byte here;   /* how many have come */
  byte left;   /* how many of them have gone again; the last one makes room for the next meeting */
  byte fail;   /* those that bring an error, one bit a rank */
  short words; /* what they bring, one bit a word */
}
Meeting at[COMMUNICATORS];

/* What all ranks know alike, from settings or from what was gathered: whether a part of a call is there. Either is looked
 * at, at every such place: the first rank there decides, and the last one makes room for the next place. */
#define MEASURES 0           /* balance.cost: measured, and times are gathered in this step */
#define GATHERS_TREES 1      /* prefix.share: tree */
#define ONE_TELLS 2          /* samples enough that one rank assigns them for its node */
#define DP_RANKS_COUNT 3     /* dp is not 1 */
#define HAS_SHARED_ROWS 4    /* samples with shared prefixes bring rows that must be equal */
#define HAS_PEERS 5          /* model-parallel ranks on the node get copies */
#define COPIES_TO_PEERS 6
#define SHARES_MEMORY 7      /* exchange.path */
#define COMPARES_WAYS 8      /* a later pass with shared prefixes */
#define SENDS_ANEW 9         /* a later pass under a profile that assigns samples elsewhere */
#define NARROWS 10           /* integers of some field travel narrow */
#define COUNTS_ROWS 11       /* some field has rows of its own */
#define ADDS_SHAPES 12       /* micro_batch.shapes, and this step may add some */
typedef Known { bool so; byte ranks };
Known known[13];

/* A process of a rank has these. `error`: it brings a report to the next agreement. `left_out`: it knows that another
 * rank's work has failed. `raised`: a part of its own failed in this call; only looked at by the model. */
#define RANK_STATE                                                                   \
  byte v = OK; byte first; short words; short told_fields;                           \
  bool error; bool left_out; bool kept_error; bool raised; bool so

#define goes_on (v == OK)
#define failed (error || left_out)

inline forget_call() {
  v = OK; first = 0; words = 0; told_fields = 0; error = false; left_out = false; kept_error = false; raised = false
}

/* `so` becomes what all ranks know alike. */
inline look_up(what) {
  so = false;
  if
  :: goes_on ->
     if
     :: known[what].ranks == 0 -> known[what].so = true
     :: known[what].ranks == 0 -> known[what].so = false
     :: else
     fi;
     so = known[what].so;
     known[what].ranks++;
     if
     :: known[what].ranks == RANKS -> known[what].ranks = 0; known[what].so = false
     :: else
     fi
  :: else
  fi
}

/* GuardedWork: a part that may fail on this rank alone, and is left out when one before it has. */
inline work() {
  if
  :: true
  :: goes_on && !failed -> error = true; raised = true
  fi
}

/* Work with a GuardedWork of its own, which knows nothing of what has failed before. It ends with an agreement. */
inline begin_work_of_its_own() {
  kept_error = error; error = false
}
inline end_work_of_its_own() {
  error = error || kept_error; kept_error = false
}

#define lowest_of(ranks) ((ranks) & 1 -> 0 : ((ranks) & 2 -> 1 : ((ranks) & 4 -> 2 : NOBODY)))

/* All ranks call the same on communicator c, or the model has found a mismatch. Nothing where this rank has thrown.
 * `first` becomes the lowest rank that brought an error, `words` all that was brought. */
inline meet(c, called, fails, brings) {
  if
  :: !goes_on
  :: else ->
     d_step {
       at[c].here < RANKS;  /* those of the meeting before have gone */
       assert(at[c].here == 0 || at[c].call == (called));  /* ranks are in different collective calls */
       at[c].call = called;
       at[c].words = at[c].words | (brings);
       at[c].fail = at[c].fail | ((fails) << me);
       at[c].here++;
       first = 0; words = 0; so = false  /* what nobody looks at any more must not tell states apart */
     };
     d_step {
       at[c].here == RANKS;
       first = lowest_of(at[c].fail); words = at[c].words;
       at[c].left++;
       if
       :: at[c].left == RANKS -> at[c].here = 0; at[c].left = 0; at[c].call = 0; at[c].fail = 0; at[c].words = 0
       :: else
       fi
     }
  fi
}

/* fail_with_report_of: the rank `first` tells its error, and all throw it. Ranks must have found the same one. */
inline throw_report_of_first(c) {
  if
  :: goes_on && first != NOBODY ->
     told_fields = first;  /* meet() forgets it */
     meet(c, REPORT_OF(first), false, 0);
     v = ERROR_OF(told_fields);
     told_fields = 0
  :: else
  fi
}

/* fail_together. */
inline agree(c) {
  meet(c, AGREEMENT, error, 0);
  throw_report_of_first(c)
}

/* all_gather_lists: counts, where -1 stands for an error; memory for the lists; the lists. */
inline gather_lists(c) {
  meet(c, COUNTS, error, 0);
  throw_report_of_first(c);
  work();
  agree(c);
  meet(c, LISTS, false, 0)
}

/* What a rank announces, one bit each: the call that it has in mind (CallKey) and its fields (FieldDigest). */
#define KEYS 63
#define FIELDS_A 64
#define FIELDS_B 128
#define NO_FIELDS 256
#define is_one_bit(x) (((x) & ((x) - 1)) == 0)
#define any_fields (told_fields & (FIELDS_A | FIELDS_B))
#define fields_differ ((told_fields & FIELDS_A) && (told_fields & FIELDS_B))

/* Any fields: those of its samples or results, others than those of another rank, none. */
inline bring_fields() {
  if
  :: told_fields = FIELDS_A
  :: told_fields = FIELDS_B
  :: told_fields = NO_FIELDS
  fi
}

/* announce: every rank tells the call that it has in mind, or an error instead. */
inline announce(c, brings) {
  meet(c, ANNOUNCEMENT, error, brings);
  if
  :: first == NOBODY -> told_fields = words & ~KEYS
  :: else
  fi;
  throw_report_of_first(c);
  if
  :: goes_on && !is_one_bit(words & KEYS) ->
     gather_lists(c);  /* the texts of all, for people */
     if
     :: goes_on -> meet(c, REPORT_OF(0), false, 0); v = DIFFERENT_CALLS
     :: else
     fi
  :: else
  fi
}

/* OwnFields::agree: ranks that hold samples must bring the same fields; those without learn them. */
inline agree_on_fields(c) {
  if
  :: goes_on && fields_differ ->
     work();
     gather_lists(c);  /* their names */
     if
     :: goes_on -> meet(c, REPORT_OF(0), false, 0); v = DIFFERENT_FIELDS
     :: else
     fi
  :: goes_on && !fields_differ && any_fields && (told_fields & NO_FIELDS) ->
     work();
     meet(c, BROADCAST, false, 0);
     work();
     agree(c)
  :: else
  fi
}

/* Only the model knows this: what a call came to, on the ranks that have left it. No rank leaves a call before all have come
 * to its last meeting, so that one place for each group is enough. */
typedef Verdict { byte what; byte ranks };

/* At the end of every call: what the protocol promises. */
inline conclude(of_call) {
  assert(!raised || !goes_on);  /* a rank whose own work failed does not go on as if nothing was */
  assert(of_call.ranks == 0 || of_call.what == v);  /* all throw the same error, or none does */
  of_call.what = v;
  of_call.ranks++;
  if
  :: of_call.ranks == RANKS -> of_call.ranks = 0; of_call.what = 0
  :: else
  fi
}
