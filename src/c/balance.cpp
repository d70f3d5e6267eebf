#include "evenkeel/c/balance.h"

#include <string>

#include "balance/partition/lpt.hpp"
#include "balance/quality.hpp"
#include "c/arrays.hpp"
#include "c/failures.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/plan/plan_quality.hpp"

namespace evenkeel::c {
namespace {

GroupSize group_size_of(std::int32_t equal_count) {
  return equal_count != 0 ? GroupSize::equal : GroupSize::free;
}

Partition partition_costs(std::int32_t algorithm, std::span<const Cost> costs, std::int64_t k,
                          GroupSize size) {
  if (algorithm == EVENKEEL_KARMARKAR_KARP) return karmarkar_karp(costs, k, size);
  if (algorithm == EVENKEEL_LONGEST_PROCESSING_TIME) return longest_processing_time(costs, k, size);
  throw WrongArgument("argument algorithm",
                      "is " + std::to_string(algorithm) +
                          "; it must be EVENKEEL_KARMARKAR_KARP or EVENKEEL_LONGEST_PROCESSING_TIME");
}

struct Bins {
  BinItems items;
  BinLimits limits;
};

Bins bins_of(const std::int64_t* sizes, const std::int64_t* counts, std::int64_t count, std::int64_t max_size,
             std::int64_t max_items) {
  const auto require_one = [](std::int64_t limit, const char* name) {
    if (limit < 1) throw InputError(name, "is " + std::to_string(limit) + "; it must be at least 1");
  };
  require_one(max_size, "max_size");
  require_one(max_items, "max_items");
  const std::span<const std::int64_t> of_items =
      counts == nullptr ? std::span<const std::int64_t>() : array_of(counts, count, "counts");
  return {{array_of(sizes, count, "sizes"), of_items}, {max_size, max_items}};
}

Partition pack_with_algorithm(std::int32_t algorithm, const Bins& bins) {
  switch (algorithm) {
    case EVENKEEL_FIRST_FIT_DECREASING:
      return pack_bins(bins.items, bins.limits, BinPacking::first_fit_decreasing);
    case EVENKEEL_BEST_FIT_DECREASING:
      return pack_bins(bins.items, bins.limits, BinPacking::best_fit_decreasing);
    case EVENKEEL_MODIFIED_FIRST_FIT_DECREASING:
      return pack_bins(bins.items, bins.limits, BinPacking::modified_first_fit_decreasing);
    case EVENKEEL_BALANCED_BINS:
      return balanced_bin_packing(bins.items.sizes, bins.limits.max_size);
    default:
      throw WrongArgument("argument algorithm",
                          "is " + std::to_string(algorithm) +
                              "; it must be EVENKEEL_FIRST_FIT_DECREASING, EVENKEEL_BEST_FIT_DECREASING, "
                              "EVENKEEL_MODIFIED_FIRST_FIT_DECREASING or EVENKEEL_BALANCED_BINS");
  }
}

std::int64_t require_not_negative(std::int64_t value, const std::string& name) {
  if (value < 0) throw InputError(name, "is " + std::to_string(value) + "; it must be at least 0");
  return value;
}

CostModel model_of(const evenkeel_cost_model* model) {
  require(model, "model");
  return {require_not_negative(model->linear, "linear"), require_not_negative(model->quadratic, "quadratic"),
          require_not_negative(model->window, "window")};
}

std::span<const std::int64_t> checked_lengths(const std::int64_t* lengths, std::int64_t count,
                                              const char* name) {
  const std::span<const std::int64_t> values = array_of(lengths, count, name);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0) require_not_negative(values[i], name + ("[" + std::to_string(i) + "]"));
  return values;
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_partition(int32_t algorithm, const int64_t* costs, int64_t count, int64_t k,
                                   int32_t equal_count, int64_t* items, int64_t* offsets) {
  return run_guarded([&] {
    const std::span<const Cost> values = array_of(costs, count, "costs");
    require_list(items, count, "items");
    require(offsets, "offsets");
    write_partition(partition_costs(algorithm, values, k, group_size_of(equal_count)), items, offsets);
  });
}

evenkeel_status evenkeel_sort_groups(int64_t* items, int64_t count, const int64_t* offsets, int64_t k) {
  return run_guarded([&] {
    const Partition sorted = partition_of(items, count, offsets, k).with_sorted_items();
    std::ranges::copy(sorted.items(), items);
  });
}

evenkeel_status evenkeel_max_sum_lower_bound(const int64_t* costs, int64_t count, int64_t k,
                                             int32_t equal_count, int64_t* bound) {
  return run_guarded([&] {
    require(bound, "bound");
    const std::span<const Cost> values = array_of(costs, count, "costs");
    if (k < 1) throw InputError("k", "is " + std::to_string(k) + "; it must be at least 1");
    *bound = max_sum_lower_bound(values, k, group_size_of(equal_count));
  });
}

evenkeel_status evenkeel_max_over_mean(const int64_t* work, const int64_t* speeds, int64_t count,
                                       double* result) {
  return run_guarded([&] {
    require(result, "result");
    const std::span<const Cost> values = array_of(work, count, "work");
    const std::span<const std::int64_t> of_ranks =
        speeds == nullptr ? std::span<const std::int64_t>() : array_of(speeds, count, "speeds");
    for (std::size_t i = 0; i < of_ranks.size(); ++i)
      if (of_ranks[i] < 1)
        throw InputError("speeds[" + std::to_string(i) + "]",
                         "is " + std::to_string(of_ranks[i]) + "; it must be at least 1");
    *result = max_over_mean(values, of_ranks);
  });
}

evenkeel_status evenkeel_pack_bins(int32_t algorithm, const int64_t* sizes, const int64_t* counts,
                                   int64_t count, int64_t max_size, int64_t max_items, int64_t* items,
                                   int64_t* offsets, int64_t* num_bins) {
  return run_guarded([&] {
    require_list(items, count, "items");
    require(offsets, "offsets");
    require(num_bins, "num_bins");
    const Partition bins = pack_with_algorithm(algorithm, bins_of(sizes, counts, count, max_size, max_items));
    write_partition(bins, items, offsets);
    *num_bins = bins.size();
  });
}

evenkeel_status evenkeel_min_bins_lower_bound(const int64_t* sizes, const int64_t* counts, int64_t count,
                                              int64_t max_size, int64_t max_items, int64_t* bound) {
  return run_guarded([&] {
    require(bound, "bound");
    const Bins bins = bins_of(sizes, counts, count, max_size, max_items);
    *bound = min_bins_lower_bound(bins.items, bins.limits);
  });
}

evenkeel_status evenkeel_cost_model_flops_7b(evenkeel_cost_model* model) {
  return run_guarded([&] {
    require(model, "model");
    const CostModel made = CostModel::flops_7b();
    *model = {made.linear, made.quadratic, made.window};
  });
}

evenkeel_status evenkeel_cost_model_of_shape(const evenkeel_model_shape* shape, evenkeel_cost_model* model) {
  return run_guarded([&] {
    require(shape, "shape");
    require(model, "model");
    const CostModel made = CostModel::from_model({.hidden_size = shape->hidden_size,
                                                  .layers = shape->layers,
                                                  .heads = shape->heads,
                                                  .kv_heads = shape->kv_heads,
                                                  .head_dim = shape->head_dim,
                                                  .ffn_size = shape->ffn_size,
                                                  .vocab_size = shape->vocab_size,
                                                  .active_experts = shape->active_experts,
                                                  .shared_experts = shape->shared_experts,
                                                  .shared_ffn_size = shape->shared_ffn_size,
                                                  .sliding_window = shape->sliding_window,
                                                  .backward = shape->backward != 0});
    *model = {made.linear, made.quadratic, made.window};
  });
}

evenkeel_status evenkeel_costs(const evenkeel_cost_model* model, const int64_t* tokens, int64_t count,
                               int64_t* costs) {
  return run_guarded([&] {
    const CostModel of = model_of(model);
    const std::span<const std::int64_t> lengths = checked_lengths(tokens, count, "tokens");
    require_list(costs, count, "costs");
    std::ranges::transform(lengths, costs, of);
  });
}

evenkeel_status evenkeel_cost_of_group(const evenkeel_cost_model* model, int64_t prefix,
                                       const int64_t* suffixes, int64_t count, int64_t* cost) {
  return run_guarded([&] {
    require(cost, "cost");
    *cost = cost_of_group(model_of(model), require_not_negative(prefix, "prefix"),
                          checked_lengths(suffixes, count, "suffixes"));
  });
}
