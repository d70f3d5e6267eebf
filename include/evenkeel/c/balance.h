/* Partitions of items into groups of nearly equal sums, bins with limits, and the costs of samples. All
 * functions are local. */
#ifndef EVENKEEL_C_BALANCE_H
#define EVENKEEL_C_BALANCE_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- partitions ---- */

/* Functions that partition `count` items into k groups fill in two arrays. `items`, with room for `count`
 * entries, gets the items 0 .. count - 1, group after group. `offsets`, with room for k + 1 entries, gets the
 * position in `items` at which each group begins, followed by `count`. The order of groups and of items in a
 * group is part of the result. Costs must not be negative, and must sum to less than 2^62; otherwise, these
 * functions return INPUT. */

/* Algorithms for partitioning costs. */
enum {
  EVENKEEL_KARMARKAR_KARP = 0,         /* largest differencing, identical to verl, slime and MindSpeed-RL */
  EVENKEEL_LONGEST_PROCESSING_TIME = 1 /* each to the lightest group, like MindSpeed-RL's heapq_partition */
};
/* Partitions costs into k groups. If `equal_count` is not 0, the groups' numbers of items differ by at most
 * one. Returns INPUT for invalid costs or an invalid k. */
EVENKEEL_API evenkeel_status evenkeel_partition(int32_t algorithm, const int64_t* costs, int64_t count,
                                                int64_t k, int32_t equal_count, int64_t* items,
                                                int64_t* offsets);
/* Sorts the items of each group in ascending order, in place. Returns INPUT unless `offsets` run from 0 to
 * `count` without decreasing. */
EVENKEEL_API evenkeel_status evenkeel_sort_groups(int64_t* items, int64_t count, const int64_t* offsets,
                                                  int64_t k);
/* Computes a lower bound on the sum of the largest group in any partition into k groups. Returns INPUT for
 * invalid costs or an invalid k. */
EVENKEEL_API evenkeel_status evenkeel_max_sum_lower_bound(const int64_t* costs, int64_t count, int64_t k,
                                                          int32_t equal_count, int64_t* bound);
/* Computes the maximum over the mean of `count` ranks' work. With `speeds`, one per rank, computes the same
 * ratio for times, which are work divided by speed. If `speeds` is NULL, all ranks are equally fast. Returns
 * INPUT for a speed below 1. */
EVENKEEL_API evenkeel_status evenkeel_max_over_mean(const int64_t* work, const int64_t* speeds, int64_t count,
                                                    double* result);

/* ---- bins ---- */

/* Algorithms for packing bins. */
enum {
  EVENKEEL_FIRST_FIT_DECREASING = 0,
  EVENKEEL_BEST_FIT_DECREASING = 1,
  EVENKEEL_MODIFIED_FIRST_FIT_DECREASING = 2,
  EVENKEEL_BALANCED_BINS = 3 /* MindSpeed-RL's balanced_bin_packing; only sizes are limited */
};
/* Packs `count` items into a small number of bins, none of which exceeds `max_size` or `max_items`. `counts`
 * has the number of items that each item counts for; if it is NULL, each counts for 1. Fills in `items` and
 * `offsets` as above; `offsets` has room for count + 1 entries. Returns LIMIT for an item that does not fit
 * in any bin, and INPUT for a negative size, or for a count or a limit below 1. */
EVENKEEL_API evenkeel_status evenkeel_pack_bins(int32_t algorithm, const int64_t* sizes,
                                                const int64_t* counts, int64_t count, int64_t max_size,
                                                int64_t max_items, int64_t* items, int64_t* offsets,
                                                int64_t* num_bins);
/* Computes a lower bound on the number of bins of any packing. Returns the same errors as
 * evenkeel_pack_bins. */
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

/* The properties of a transformer that determine its work. */
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

/* Sets `model` to the model that verl and ROLL use for 7B models: 24576 s + s^2. */
EVENKEEL_API evenkeel_status evenkeel_cost_model_flops_7b(evenkeel_cost_model* model);
/* Derives a cost model from a transformer's shape, by counting FLOPs. Returns INPUT for a size that is
 * missing or negative. */
EVENKEEL_API evenkeel_status evenkeel_cost_model_of_shape(const evenkeel_model_shape* shape,
                                                          evenkeel_cost_model* model);
/* Computes the costs of `count` samples. Returns INPUT for a negative length or coefficient, and LIMIT for a
 * cost of 2^62 or more. */
EVENKEEL_API evenkeel_status evenkeel_costs(const evenkeel_cost_model* model, const int64_t* tokens,
                                            int64_t count, int64_t* costs);
/* Computes the cost of `count` samples that share a prefix, which counts once. Returns the same errors as
 * evenkeel_costs. */
EVENKEEL_API evenkeel_status evenkeel_cost_of_group(const evenkeel_cost_model* model, int64_t prefix,
                                                    const int64_t* suffixes, int64_t count, int64_t* cost);

#ifdef __cplusplus
}
#endif

#endif
