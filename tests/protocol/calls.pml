/* What trainers call, as the collective calls of one rank in their order. `mesh` is SERVICE or AHEAD: whose communicators.
 * docs/exchange.md says where each part is in the code. */

/* CallKey. */
#define MAKES_EVEN_STEP 1
#define MAKES_ODD_STEP 2
#define PASSES_OVER 4
#define COLLECTS 8
#ifdef MUTANT_ROOT_IS_NOT_TOLD
#define COLLECTS_ON_0 8
#define COLLECTS_ON_1 8
#else
#define COLLECTS_ON_0 16
#define COLLECTS_ON_1 32
#endif

/* gather_lengths. */
inline gather_lengths(mesh, key) {
#ifdef MUTANT_THROWS_ALONE
  if
  :: goes_on && error -> v = ERROR_OF(me)
  :: else
  fi;
#endif
  bring_fields();
  announce(EVERYONE(mesh), (key) | told_fields);
  agree_on_fields(EVERYONE(mesh));
  told_fields = 0;
  meet(EVERYONE(mesh), LISTS, false, 0)
}

/* gather_row_counts: how many rows samples have in fields that count them. */
inline gather_row_counts(mesh) {
  look_up(COUNTS_ROWS);
  if
  :: goes_on && so -> work(); agree(EVERYONE(mesh)); meet(EVERYONE(mesh), LISTS, false, 0)
  :: else
  fi
}

/* gather_result_counts: the same of results, which their owners learn from who computed them. */
inline gather_result_counts(mesh) {
  look_up(COUNTS_ROWS);
  if
  :: goes_on && so -> work(); gather_lists(EVERYONE(mesh)); work()
  :: else
  fi
}

/* StepMaker::use_measured_cost. */
inline gather_times(mesh) {
  look_up(MEASURES);
  if
  :: goes_on && so ->
     begin_work_of_its_own();
     work();
     gather_lists(EVERYONE(mesh));
     work();
     agree(EVERYONE(mesh));
     end_work_of_its_own()
  :: else
  fi
}

/* exchange_messages. Bytes move to everybody, or to one rank, whose number ranks must know alike. */
inline exchange_messages(mesh, moves) {
  work();
  agree(EVERYONE(mesh));
  meet(EVERYONE(mesh), moves, false, 0);
  look_up(SHARES_MEMORY);
  if
  :: goes_on && so -> work(); agree(EVERYONE(mesh))
  :: else
  fi
}

/* gather_prefix_trees. */
inline gather_trees(mesh) {
  look_up(GATHERS_TREES);
  if
  :: goes_on && so ->
     begin_work_of_its_own();
     work();
     exchange_messages(mesh, MOVE);
     work();
     gather_lists(EVERYONE(mesh));
     work();
     agree(EVERYONE(mesh));
     end_work_of_its_own()
  :: else
  fi
}

/* StepMaker::plan. Along data parallelism ranks agree on counts; whose work has failed says so there, and the others leave
 * out what follows up to the next agreement of all. */
inline plan(mesh) {
  work();
  look_up(ONE_TELLS);
  if
  :: goes_on && so -> meet(NODE(mesh), BROADCAST, false, 0)
  :: else
  fi;
  work();
  look_up(DP_RANKS_COUNT);
  if
#ifdef MUTANT_COUNTS_ALONE
  :: goes_on && so && !failed ->
#else
  :: goes_on && so ->
#endif
     meet(DP_LINE(mesh), ALL_REDUCE, failed, 0);
     if
     :: first != NOBODY -> left_out = true
     :: else
     fi
  :: else
  fi;
  work()
}

/* StepMaker::choose_shapes. Other passes over the step are planned to see what they need: one of them here. */
inline choose_shapes(mesh) {
  look_up(ADDS_SHAPES);
  if
  :: goes_on && so ->
     work();
     agree(EVERYONE(mesh));
     plan(mesh);
     gather_lists(EVERYONE(mesh))
  :: else
  fi;
  work()
}

/* carried: how fields travel. */
inline agree_on_ranges(mesh) {
  look_up(NARROWS);
  if
  :: goes_on && so -> meet(EVERYONE(mesh), ALL_REDUCE, false, 0)
  :: else
  fi;
  work()
}

/* StepMaker::check_shared_rows. */
inline check_shared_rows(mesh) {
  look_up(HAS_SHARED_ROWS);
  if
  :: goes_on && so ->
     agree(EVERYONE(mesh));
     work();
     gather_lists(EVERYONE(mesh));
     work();
     agree(EVERYONE(mesh))
  :: else
  fi
}

/* In exchange_samples, ranks of one place: what all of them throw is told to everybody at the next agreement. */
inline agree_among_peers(mesh) {
  look_up(HAS_PEERS);
  if
#ifdef MUTANT_LEAVES_OUT_ITS_PEERS
  :: goes_on && so && !failed ->
#else
  :: goes_on && so ->
#endif
     work();
     agree(PEERS(mesh));
     if
     :: goes_on
     :: else -> v = OK; error = true
     fi
  :: else
  fi
}

/* exchange_samples */
inline exchange_samples(mesh) {
  work();
  agree_among_peers(mesh);
  work();
  agree(EVERYONE(mesh));
  meet(EVERYONE(mesh), MOVE, false, 0);
  look_up(SHARES_MEMORY);
  if
  :: goes_on && so -> work()
  :: else
  fi;
  look_up(COPIES_TO_PEERS);
  if
  :: goes_on && so -> meet(PEERS(mesh), MOVE, false, 0)
  :: else
  fi;
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

/* StepMaker::make_first_pass. */
inline first_pass(mesh, key) {
  work();
  gather_lengths(mesh, key);
  gather_row_counts(mesh);
  work();
  gather_times(mesh);
  gather_trees(mesh);
  agree_on_ranges(mesh);
  plan(mesh);
  choose_shapes(mesh);
  check_shared_rows(mesh);
  exchange_samples(mesh)
}

/* StepMaker::make_later_pass. Samples stay where they are, or go elsewhere; fields are added, or none. */
inline later_pass(mesh) {
  work();
  bring_fields();
  announce(EVERYONE(mesh), PASSES_OVER | told_fields);
  agree_on_fields(EVERYONE(mesh));
  work();
  gather_times(mesh);
  plan(mesh);
  work();
  agree(EVERYONE(mesh));
  look_up(COMPARES_WAYS);
  if
  :: goes_on && so -> meet(EVERYONE(mesh), ALL_REDUCE, false, 0)
  :: else
  fi;
  look_up(SENDS_ANEW);
  if
  :: goes_on && so -> work(); check_shared_rows(mesh); exchange_samples(mesh)
  :: else -> work()
  fi;
  if
  :: goes_on && any_fields ->
     agree_on_ranges(mesh); check_shared_rows(mesh); gather_row_counts(mesh); exchange_samples(mesh)
  :: goes_on && !any_fields -> work(); agree(EVERYONE(mesh))
  :: else
  fi
}

/* StepMaker::collect. */
inline collect(mesh, key) {
  work();
  bring_fields();
  announce(EVERYONE(mesh), (key) | told_fields);
  agree_on_fields(EVERYONE(mesh));
  told_fields = 0;
  gather_result_counts(mesh);
  exchange_messages(mesh, MOVE)
}

/* StepMaker::collect_on: everybody's results come home, and from there to one rank. */
inline collect_on(mesh, key, moves) {
  collect(mesh, key);
  if
  :: goes_on ->
     work();
     gather_lengths(mesh, COLLECTS);
     gather_row_counts(mesh);
     exchange_messages(mesh, moves)
  :: else
  fi
}

/* MpiRanks::split. */
inline split(mesh) {
  meet(EVERYONE(mesh), SPLIT, false, 0)
}

/* Parts::make, StepMaker's constructor and Mesh's: configurations are compared, then communicators made. */
inline construct(mesh) {
  work();
  agree(EVERYONE(mesh));
  meet(EVERYONE(mesh), ALL_REDUCE, false, 0);
  work();
  agree(EVERYONE(mesh));
  split(mesh);
#ifdef MUTANT_MEMORY_BETWEEN_SPLITS
  work();
  if
  :: goes_on && error
  :: else -> split(mesh); split(mesh)
  fi;
#else
  split(mesh); split(mesh);
#endif
  if  /* caught, and agreed on in any case */
  :: goes_on
  :: else -> v = OK; error = true
  fi;
  work();
  agree(EVERYONE(mesh));
  meet(EVERYONE(mesh), BROADCAST, false, 0);
  work();
  agree(EVERYONE(mesh))
}
