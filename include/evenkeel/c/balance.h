/* Numbers in groups of nearly equal sums, bins under a cap, and what samples cost. All functions are local.
 */
#ifndef EVENKEEL_C_BALANCE_H
#define EVENKEEL_C_BALANCE_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- partitions ---- */

/* Functions that partition `count` items into k groups fill in `items`, which has room for `count`, with the
 * items 0 .. count - 1, group after group; and `offsets`, which has room for k + 1, with where each group
 * begins in `items`, and `count`. The order of groups and of items in them is part of the result. Costs must
 * not be negative, and must sum to less than 2^62: otherwise INPUT. */

/* How costs are partitioned. */
enum {
  EVENKEEL_KARMARKAR_KARP = 0,         /* largest differencing, as verl, slime and MindSpeed-RL have it */
  EVENKEEL_LONGEST_PROCESSING_TIME = 1 /* each to the lightest group, as MindSpeed-RL's heapq_partition */
};
/* Partitions costs into k groups. With `equal_count` not 0, numbers of items differ by one at most. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_partition(int32_t algorithm, const int64_t* costs, int64_t count,
                                                int64_t k, int32_t equal_count, int64_t* items,
                                                int64_t* offsets);
/* Puts each group's items in ascending order, in place. INPUT for offsets that do not run from 0 to `count`.
 */
EVENKEEL_API evenkeel_status evenkeel_sort_groups(int64_t* items, int64_t count, const int64_t* offsets,
                                                  int64_t k);
/* A sum that the largest group of every partition into k groups reaches. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_max_sum_lower_bound(const int64_t* costs, int64_t count, int64_t k,
                                                          int32_t equal_count, int64_t* bound);
/* The largest work over the mean of `count` ranks' work; with `speeds`, one per rank, of times. NULL: all
 * ranks are equally fast. INPUT for a speed below 1. */
EVENKEEL_API evenkeel_status evenkeel_max_over_mean(const int64_t* work, const int64_t* speeds, int64_t count,
                                                    double* result);

/* ---- bins ---- */

/* How bins are packed. */
enum {
  EVENKEEL_FIRST_FIT_DECREASING = 0,
  EVENKEEL_BEST_FIT_DECREASING = 1,
  EVENKEEL_MODIFIED_FIRST_FIT_DECREASING = 2,
  EVENKEEL_BALANCED_BINS = 3 /* MindSpeed-RL's balanced_bin_packing; limits only sizes */
};
/* Packs `count` items into few bins, none above `max_size` or `max_items`. `counts` says how many each item
 * counts for; NULL: 1 each. Fills in `items` and `offsets` as above; `offsets` has room for count + 1. LIMIT
 * for an item that fits no bin, INPUT for a negative size or a limit below 1. */
EVENKEEL_API evenkeel_status evenkeel_pack_bins(int32_t algorithm, const int64_t* sizes,
                                                const int64_t* counts, int64_t count, int64_t max_size,
                                                int64_t max_items, int64_t* items, int64_t* offsets,
                                                int64_t* num_bins);
/* The fewest bins that any packing needs. Errors as above. */
EVENKEEL_API evenkeel_status evenkeel_min_bins_lower_bound(const int64_t* sizes, const int64_t* counts,
                                                           int64_t count, int64_t max_size, int64_t max_items,
                                                           int64_t* bound);

/* ---- costs ---- */

/* The work of a sample of s tokens: linear * s + quadratic * s^2. With a sliding window of w > 0 tokens, the
 * square of a longer sample becomes w^2 + 2 * w * (s - w). */
typedef struct evenkeel_cost_model {
  int64_t linear;
  int64_t quadratic;
  int64_t window;
} evenkeel_cost_model;

/* A transformer's shape, as far as its work depends on it. */
typedef struct evenkeel_model_shape {
  int64_t hidden_size;
  int64_t layers;
  int64_t heads;
  int64_t kv_heads; /* 0: as many as heads */
  int64_t head_dim; /* 0: hidden_size / heads */
  int64_t ffn_size;
  int64_t vocab_size;
  int64_t active_experts; /* 1 for a dense model */
  int64_t shared_experts;
  int64_t shared_ffn_size; /* 0: ffn_size */
  int64_t sliding_window;  /* 0: none */
  int32_t backward;        /* not 0: count the backward pass, too */
} evenkeel_model_shape;

/* verl's and ROLL's constant for a 7B model: 24576 s + s^2. */
EVENKEEL_API evenkeel_status evenkeel_cost_model_flops_7b(evenkeel_cost_model* model);
/* From a transformer's shape, by counting FLOPs. INPUT for a size that is missing or negative. */
EVENKEEL_API evenkeel_status evenkeel_cost_model_of_shape(const evenkeel_model_shape* shape,
                                                          evenkeel_cost_model* model);
/* The costs of `count` samples. INPUT for a negative length or coefficient, LIMIT for a cost of 2^62 or more.
 */
EVENKEEL_API evenkeel_status evenkeel_costs(const evenkeel_cost_model* model, const int64_t* tokens,
                                            int64_t count, int64_t* costs);
/* The cost of `count` samples that share a prefix, with the prefix once. Errors as above. */
EVENKEEL_API evenkeel_status evenkeel_cost_of_group(const evenkeel_cost_model* model, int64_t prefix,
                                                    const int64_t* suffixes, int64_t count, int64_t* cost);

#ifdef __cplusplus
}
#endif

#endif
