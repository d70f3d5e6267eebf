/* Functions that give the same results as functions of verl, ROLL and MindSpeed-RL. All functions are
 * local. */
#ifndef EVENKEEL_C_DROP_IN_H
#define EVENKEEL_C_DROP_IN_H

#include "evenkeel/c/balance.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- assignments: filled in like those of evenkeel_partition ---- */

/* MindSpeed-RL's heapq_partition_with_max: if the next item would raise the lightest group above `cap`, that
 * group is closed, and the item starts a new group. `offsets` has room for k + count + 1 entries. Returns
 * INPUT for invalid costs or an invalid k. */
EVENKEEL_API evenkeel_status evenkeel_partition_with_cap(const int64_t* costs, int64_t count, int64_t k,
                                                         int64_t cap, int64_t* items, int64_t* offsets,
                                                         int64_t* num_groups);
/* Partitions samples into k parts, balanced by the work of a 7B model. Samples with equal keys stay together.
 * The parts' numbers of keys differ by at most one. Returns INPUT if there are fewer keys than parts, for a
 * negative length, and, if `equal_groups` is not 0, unless k divides the number of keys. */
EVENKEEL_API evenkeel_status evenkeel_partition_whole_groups(const int64_t* lengths, const int64_t* keys,
                                                             int64_t count, int64_t k, int32_t equal_groups,
                                                             int64_t* items, int64_t* offsets);
/* ROLL's batch_balance: group r has the samples of DP rank r. Assigns `mini_batch` samples over all ranks at
 * a time; INT64_MAX means all samples at once. Returns CONFIG for a setting below 1, and INPUT for a negative
 * length. */
EVENKEEL_API evenkeel_status evenkeel_roll_batch_balance(const int64_t* lengths, int64_t count, int32_t dp,
                                                         int64_t mini_batch, int64_t* items,
                                                         int64_t* offsets);
/* Computes the inverse of an order: inverse[order[i]] = i. Returns INPUT unless the order has each of 0 ..
 * count - 1 exactly once. */
EVENKEEL_API evenkeel_status evenkeel_inverse_order(const int64_t* order, int64_t count, int64_t* inverse);

/* ---- micro-batches ---- */

/* The systems whose micro-batches can be made. */
enum { EVENKEEL_MINDSPEED_RL = 0, EVENKEEL_VERL = 1, EVENKEEL_ROLL = 2 };
/* Settings of one of these systems. Members that the system does not have are ignored. */
typedef struct evenkeel_batching {
  int32_t system;
  int32_t pipeline_order; /* verl; if not 0, cheap micro-batches are at both ends */
  int64_t max_tokens;     /* nominal maximum number of tokens of a micro-batch */
  int64_t max_samples;    /* MindSpeed-RL: maximum number of samples of a micro-batch; INT64_MAX: unlimited */
  int64_t min_count;      /* verl and ROLL: minimum number of micro-batches */
  int64_t multiple_of;    /* verl and ROLL: the number of micro-batches is a multiple of this */
  int64_t alignment;      /* ROLL: each length is rounded up to a multiple of this */
} evenkeel_batching;

/* The functions of this section return CONFIG for a setting below 1 and INPUT for a negative length.
 *
 * Computes the number of micro-batches that one rank requests. Returns LIMIT for a sample above max_tokens,
 * except with MindSpeed-RL. */
EVENKEEL_API evenkeel_status evenkeel_batching_count(const evenkeel_batching* batching,
                                                     const int64_t* lengths, int64_t count,
                                                     int64_t* num_micro_batches);
/* Computes the number of micro-batches on which ranks agree, given the largest number that a rank
 * requests. */
EVENKEEL_API evenkeel_status evenkeel_batching_agreed_count(const evenkeel_batching* batching,
                                                            int64_t largest, int64_t* num_micro_batches);
/* Computes the smallest agreed number of micro-batches, starting from `at_least`, with which every
 * micro-batch is within its limits. Returns LIMIT for a sample that exceeds them by itself. */
EVENKEEL_API evenkeel_status evenkeel_batching_count_under_cap(const evenkeel_batching* batching,
                                                               const int64_t* lengths, int64_t count,
                                                               int64_t at_least, int64_t* num_micro_batches);
/* Makes the micro-batches, and fills in `items` and `offsets` like evenkeel_partition. */
EVENKEEL_API evenkeel_status evenkeel_batching_micro_batches(const evenkeel_batching* batching,
                                                             const int64_t* lengths, int64_t count,
                                                             int64_t num_micro_batches, int64_t* items,
                                                             int64_t* offsets);

/* ROLL's dynamic batching. Returns int64 arrays: items and offsets, which are the shards of the dp ranks;
 * begin, end and padded_length of each micro-batch, which are the same on all ranks: its positions in each
 * shard, and its width; and padded_tokens, the number of tokens of all micro-batches, including padding.
 * Returns CONFIG for a setting below 1, LIMIT for a sample above max_tokens, and INPUT for a negative
 * length. */
EVENKEEL_API evenkeel_status evenkeel_padded_batches(const int64_t* lengths, int64_t count, int32_t dp,
                                                     int64_t max_tokens, int64_t length_round,
                                                     int64_t count_multiple, evenkeel_arrays** arrays);

/* ---- MindSpeed-RL's context parallelism ---- */

/* MindSpeed-RL's context_parallel_algo: megatron_cp_algo, ulysses_cp_algo, hybrid_cp_algo. */
enum { EVENKEEL_CP_RING = 0, EVENKEEL_CP_ULYSSES = 1, EVENKEEL_CP_HYBRID = 2 };
typedef struct evenkeel_mindspeed_cp {
  int32_t size; /* context_parallel_size */
  int32_t algorithm;
  int32_t ulysses_degree;    /* hybrid: ulysses_degree_in_cp */
  int32_t cut_each_sequence; /* ring; if not 0, each packed sequence is cut separately */
} evenkeel_mindspeed_cp;

/* Computes the number of ranks of one ring. Returns INPUT for sizes that do not fit. */
EVENKEEL_API evenkeel_status evenkeel_mindspeed_ring_degree(const evenkeel_mindspeed_cp* cp, int32_t* degree);
/* Computes which columns of a batch with `columns` columns a rank gets, in the rank's order. `indices` has
 * room for `columns` numbers. `ends` has the ends of the `count` sequences on one rank. Returns INPUT if the
 * columns cannot be cut evenly. */
EVENKEEL_API evenkeel_status evenkeel_mindspeed_columns(const evenkeel_mindspeed_cp* cp, int64_t columns,
                                                        const int64_t* ends, int64_t count, int32_t cp_rank,
                                                        int64_t* indices, int64_t* num_indices);

/* ---- figures and rows ---- */

/* Computes verl's and ROLL's figures of an assignment to k DP ranks, in this order: min, max and minmax_diff
 * of contiguous runs, balanced_min, balanced_max, mean. `figures` has room for 6 numbers. Returns INPUT for
 * items without a length. */
EVENKEEL_API evenkeel_status evenkeel_seqlen_balance_figures(const int64_t* lengths, int64_t count,
                                                             const int64_t* items, int64_t num_items,
                                                             const int64_t* offsets, int64_t k,
                                                             double* figures);
/* Computes ROLL's figures of dynamic batching, in this order: valid_tokens, actual_tokens_origin,
 * actual_tokens, removed_padding_tokens, removed_padding_ratio. `figures` has room for 5 numbers. */
EVENKEEL_API evenkeel_status evenkeel_dynamic_batching_figures(const int64_t* lengths, int64_t count,
                                                               int64_t actual_tokens, int64_t max_length,
                                                               double* figures);
/* Copies rows of `row_bytes` bytes from `source`, which has `num_rows` rows: for each item i of group g,
 * copies row i to targets[g], one row after another. Uses up to `threads` threads. Returns INPUT for a row
 * that does not exist. */
EVENKEEL_API evenkeel_status evenkeel_take_rows(const void* source, int64_t num_rows, int64_t row_bytes,
                                                const int64_t* items, int64_t num_items,
                                                const int64_t* offsets, int64_t k, void* const* targets,
                                                int64_t threads);

#ifdef __cplusplus
}
#endif

#endif
