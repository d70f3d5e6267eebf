/* What verl, ROLL and MindSpeed-RL compute, with the same results. All functions are local. */
#ifndef EVENKEEL_C_DROP_IN_H
#define EVENKEEL_C_DROP_IN_H

#include "evenkeel/c/balance.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- assignments: filled in like those of evenkeel_partition ---- */

/* MindSpeed-RL's heapq_partition_with_max: a group that the next item would lift above `cap` is closed, and a
 * new one starts. `offsets` has room for k + count + 1. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_partition_with_cap(const int64_t* costs, int64_t count, int64_t k,
                                                         int64_t cap, int64_t* items, int64_t* offsets,
                                                         int64_t* num_groups);
/* Samples of equal keys stay together; parts are balanced by the work of a 7B model. With `equal_groups` not
 * 0, each part has as many keys as others. INPUT for fewer keys than parts, and if the keys cannot be divided
 * equally. */
EVENKEEL_API evenkeel_status evenkeel_partition_whole_groups(const int64_t* lengths, const int64_t* keys,
                                                             int64_t count, int64_t k, int32_t equal_groups,
                                                             int64_t* items, int64_t* offsets);
/* ROLL's batch_balance: group r has the samples of DP rank r. `mini_batch` samples over all ranks are
 * assigned at a time; INT64_MAX: all of them. CONFIG for a setting below 1, INPUT for a negative length. */
EVENKEEL_API evenkeel_status evenkeel_roll_batch_balance(const int64_t* lengths, int64_t count, int32_t dp,
                                                         int64_t mini_batch, int64_t* items,
                                                         int64_t* offsets);
/* Where each item is in an order: inverse[order[i]] = i. INPUT unless the order has each of 0 .. count - 1
 * once. */
EVENKEEL_API evenkeel_status evenkeel_inverse_order(const int64_t* order, int64_t count, int64_t* inverse);

/* ---- micro-batches ---- */

/* Whose micro-batches are made. */
enum { EVENKEEL_MINDSPEED_RL = 0, EVENKEEL_VERL = 1, EVENKEEL_ROLL = 2 };
/* The settings of one of these. Members that it does not have are ignored. */
typedef struct evenkeel_batching {
  int32_t system;
  int32_t pipeline_order; /* of verl: not 0: cheap micro-batches at both ends */
  int64_t max_tokens;     /* what a micro-batch should hold */
  int64_t max_samples;    /* of MindSpeed-RL; INT64_MAX: any number */
  int64_t min_count;      /* of verl and ROLL */
  int64_t multiple_of;    /* of verl and ROLL: what the number of micro-batches is a multiple of */
  int64_t alignment;      /* of ROLL: what each length is rounded up to a multiple of */
} evenkeel_batching;

/* All of these return CONFIG for a setting below 1 and INPUT for a negative length. How many micro-batches
 * one rank asks for. LIMIT for a sample above max_tokens, except with MindSpeed-RL. */
EVENKEEL_API evenkeel_status evenkeel_batching_count(const evenkeel_batching* batching,
                                                     const int64_t* lengths, int64_t count,
                                                     int64_t* num_micro_batches);
/* What ranks agree on, from the largest count among them. */
EVENKEEL_API evenkeel_status evenkeel_batching_agreed_count(const evenkeel_batching* batching,
                                                            int64_t largest, int64_t* num_micro_batches);
/* The smallest agreed count from `at_least` on with which every micro-batch keeps its cap. LIMIT for a sample
 * above it. */
EVENKEEL_API evenkeel_status evenkeel_batching_count_under_cap(const evenkeel_batching* batching,
                                                               const int64_t* lengths, int64_t count,
                                                               int64_t at_least, int64_t* num_micro_batches);
/* The micro-batches, which are filled in like the groups of evenkeel_partition. */
EVENKEEL_API evenkeel_status evenkeel_batching_micro_batches(const evenkeel_batching* batching,
                                                             const int64_t* lengths, int64_t count,
                                                             int64_t num_micro_batches, int64_t* items,
                                                             int64_t* offsets);

/* ROLL's dynamic batching. Returns items and offsets, the shards of the dp ranks; begin, end and
 * padded_length of each micro-batch, which all ranks have: places in their shards, and its width; and
 * padded_tokens, what they hold with padding (int64). CONFIG, LIMIT, INPUT. */
EVENKEEL_API evenkeel_status evenkeel_padded_batches(const int64_t* lengths, int64_t count, int32_t dp,
                                                     int64_t max_tokens, int64_t length_round,
                                                     int64_t count_multiple, evenkeel_arrays** arrays);

/* ---- MindSpeed-RL's context parallelism ---- */

/* Its context_parallel_algo: megatron_cp_algo, ulysses_cp_algo, hybrid_cp_algo. */
enum { EVENKEEL_CP_RING = 0, EVENKEEL_CP_ULYSSES = 1, EVENKEEL_CP_HYBRID = 2 };
typedef struct evenkeel_mindspeed_cp {
  int32_t size; /* context_parallel_size */
  int32_t algorithm;
  int32_t ulysses_degree;    /* of hybrid: ulysses_degree_in_cp */
  int32_t cut_each_sequence; /* of ring, not 0: each packed sequence is cut on its own */
} evenkeel_mindspeed_cp;

/* Ranks of one ring. INPUT for sizes that do not fit. */
EVENKEEL_API evenkeel_status evenkeel_mindspeed_ring_degree(const evenkeel_mindspeed_cp* cp, int32_t* degree);
/* The columns of a batch of so many that a rank gets, in its order. `indices` has room for all `columns`.
 * `ends` are the sequences' ends on one rank, of which there are `count`. INPUT for a cut that does not come
 * out even. */
EVENKEEL_API evenkeel_status evenkeel_mindspeed_columns(const evenkeel_mindspeed_cp* cp, int64_t columns,
                                                        const int64_t* ends, int64_t count, int32_t cp_rank,
                                                        int64_t* indices, int64_t* num_indices);

/* ---- figures and rows ---- */

/* verl's and ROLL's figures of an assignment to k DP ranks, in this order: min, max and minmax_diff of
 * contiguous runs, balanced_min, balanced_max, mean. `figures` has room for 6. INPUT for items without a
 * length. */
EVENKEEL_API evenkeel_status evenkeel_seqlen_balance_figures(const int64_t* lengths, int64_t count,
                                                             const int64_t* items, int64_t num_items,
                                                             const int64_t* offsets, int64_t k,
                                                             double* figures);
/* ROLL's figures of dynamic batching, in this order: valid_tokens, actual_tokens_origin, actual_tokens,
 * removed_padding_tokens, removed_padding_ratio. `figures` has room for 5. */
EVENKEEL_API evenkeel_status evenkeel_dynamic_batching_figures(const int64_t* lengths, int64_t count,
                                                               int64_t actual_tokens, int64_t max_length,
                                                               double* figures);
/* Copies rows of `row_bytes` bytes: row items[i] of `source`, which has `num_rows`, for each item of group g
 * to targets[g], one after another. Uses up to `threads` threads. INPUT for a row that does not exist. */
EVENKEEL_API evenkeel_status evenkeel_take_rows(const void* source, int64_t num_rows, int64_t row_bytes,
                                                const int64_t* items, int64_t num_items,
                                                const int64_t* offsets, int64_t k, void* const* targets,
                                                int64_t threads);

#ifdef __cplusplus
}
#endif

#endif
