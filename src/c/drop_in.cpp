#include "evenkeel/c/drop_in.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <future>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "balance/groups/group_balance.hpp"
#include "balance/partition/item_order.hpp"
#include "balance/partition/lpt.hpp"
#include "base/text_layout.hpp"
#include "c/arrays.hpp"
#include "c/failures.hpp"
#include "c/layouts.hpp"
#include "c/named_arrays.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "pack/mindspeed_cp.hpp"
#include "plan/micro_batches/padded_batching.hpp"
#include "plan/reference/micro_batches.hpp"

namespace evenkeel::c {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers work_of(std::span<const std::int64_t> lengths) {
  Numbers work(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0)
      throw InputError("lengths[" + std::to_string(i) + "]",
                       "is " + std::to_string(lengths[i]) + "; it must be at least 0");
    work[i] = CostModel::flops_7b()(lengths[i]);
  }
  return work;
}

/// Throws InputError if there are fewer than k distinct keys or, with `equal`, if their number is not
/// divisible by k.
void require_enough_keys(std::span<const std::uint64_t> keys, std::int64_t k, bool equal) {
  const auto distinct = static_cast<std::int64_t>(std::set<std::uint64_t>(keys.begin(), keys.end()).size());
  if (distinct < k)
    throw InputError("k", "is " + std::to_string(k) + ", but there " + (distinct == 1 ? "is" : "are") +
                              " only " + format_plain_count(distinct, "distinct key") +
                              ", so some groups would be empty");
  if (equal && k >= 1 && distinct % k != 0)
    throw InputError("equal_groups", format_plain_count(distinct, "distinct key") +
                                         " cannot be divided into " + format_plain_count(k, "group") +
                                         " of equal size");
}

/// Limits of a micro-batch, and the size with which each sample counts toward them.
struct BatchLimits {
  Numbers sizes;
  BinLimits limits;
};

BatchLimits batch_limits(std::span<const std::int64_t> lengths, const MindSpeedBatching& batching) {
  constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  return {{lengths.begin(), lengths.end()}, {batching.max_tokens, batching.max_samples.value_or(unlimited)}};
}

BatchLimits batch_limits(std::span<const std::int64_t> lengths, const VerlBatching& batching) {
  return {{lengths.begin(), lengths.end()}, {batching.max_tokens}};
}

BatchLimits batch_limits(std::span<const std::int64_t> lengths, const RollPacking& batching) {
  BatchLimits promise{{lengths.begin(), lengths.end()}, {batching.max_tokens}};
  for (std::int64_t& size : promise.sizes) size = align_up(size, batching.alignment);
  return promise;
}

void require_each_fits(const BatchLimits& promise) {
  for (std::size_t i = 0; i < promise.sizes.size(); ++i) {
    if (promise.sizes[i] <= promise.limits.max_size) continue;
    throw LimitError("sample " + std::to_string(i),
                     "takes " + format_plain_count(promise.sizes[i], "token") +
                         "; a micro-batch holds at most " + std::to_string(promise.limits.max_size),
                     "Raise the maximum number of tokens per micro-batch, or shorten the sample");
  }
}

bool are_limits_kept(const BatchLimits& promise, const Partition& micro_batches) {
  for (const std::int64_t size : group_sums(micro_batches, promise.sizes)) {
    if (size > promise.limits.max_size) return false;
  }
  for (std::int64_t m = 0; m < micro_batches.size(); ++m) {
    if (std::ssize(micro_batches[m]) > promise.limits.max_items) return false;
  }
  return true;
}

/// Calls use(settings) with the settings of the system whose batching is requested.
template <typename Use>
auto with_settings(const evenkeel_batching* batching, Use use) {
  require(batching, "batching");
  const evenkeel_batching& b = *batching;
  switch (b.system) {
    case EVENKEEL_MINDSPEED_RL:
      return use(MindSpeedBatching{b.max_tokens,
                                   b.max_samples == INT64_MAX ? std::nullopt : std::optional(b.max_samples)});
    case EVENKEEL_VERL:
      return use(VerlBatching{b.max_tokens, b.min_count, b.multiple_of, b.pipeline_order != 0});
    case EVENKEEL_ROLL:
      return use(RollPacking{b.max_tokens, b.min_count, b.multiple_of, b.alignment});
    default:
      throw WrongArgument("batching->system",
                          "is " + std::to_string(b.system) +
                              "; it must be EVENKEEL_MINDSPEED_RL, EVENKEEL_VERL or EVENKEEL_ROLL");
  }
}

/// Returns the smallest number of micro-batches with which every micro-batch is within its limits. Considers
/// only the numbers that agreed_count() returns for `count` or a larger number. One micro-batch per sample is
/// always sufficient.
template <typename Batching>
std::int64_t find_count_within_limits(std::span<const std::int64_t> lengths, std::int64_t count,
                                      const Batching& batching) {
  const BatchLimits promise = batch_limits(lengths, batching);
  require_each_fits(promise);
  const auto keeps = [&](std::int64_t n) {
    return are_limits_kept(promise, reference_micro_batches(lengths, n, batching));
  };
  count = agreed_count(count, batching);
  if (keeps(count)) return count;
  count = agreed_count(std::max(count + 1, min_bins_lower_bound(promise.sizes, promise.limits)), batching);
  while (count < std::ssize(lengths) && !keeps(count)) count = agreed_count(count + 1, batching);
  return count;
}

MindSpeedCp mindspeed_cp_of(const evenkeel_mindspeed_cp* cp) {
  require(cp, "cp");
  if (cp->algorithm < EVENKEEL_CP_RING || cp->algorithm > EVENKEEL_CP_HYBRID)
    throw WrongArgument("cp->algorithm",
                        "is " + std::to_string(cp->algorithm) +
                            "; it must be EVENKEEL_CP_RING, EVENKEEL_CP_ULYSSES or EVENKEEL_CP_HYBRID");
  constexpr std::array algorithms{MindSpeedCpAlgorithm::ring, MindSpeedCpAlgorithm::ulysses,
                                  MindSpeedCpAlgorithm::hybrid};
  return {cp->size, algorithms[static_cast<std::size_t>(cp->algorithm)], cp->ulysses_degree,
          cp->cut_each_sequence != 0};
}

void write_figures(const NamedMetrics& metrics, double* figures) {
  std::ranges::transform(metrics, figures, [](const auto& metric) { return metric.second; });
}

/// Rows in the caller's memory.
struct RowsToCopy {
  const std::byte* first = nullptr;
  std::int64_t count = 0;
  std::size_t bytes = 0;  ///< bytes per row
};

void copy_group(const RowsToCopy& rows, std::span<const Item> group, std::byte* target) {
  for (const Item row : group) {
    std::memcpy(target, rows.first + static_cast<std::size_t>(row) * rows.bytes, rows.bytes);
    target += rows.bytes;
  }
}

/// Copies the rows of each group g to targets[g], using `threads` threads. Each group is copied by the first
/// thread that is free.
void copy_groups(const RowsToCopy& rows, const Partition& groups, const std::vector<std::byte*>& targets,
                 std::int64_t threads) {
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    for (std::int64_t g = next++; g < groups.size(); g = next++)
      copy_group(rows, groups[g], targets[static_cast<std::size_t>(g)]);
  };
  std::vector<std::future<void>> others;
  for (std::int64_t t = 1; t < threads; ++t) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_partition_with_cap(const int64_t* costs, int64_t count, int64_t k, int64_t cap,
                                            int64_t* items, int64_t* offsets, int64_t* num_groups) {
  return run_guarded([&] {
    require_list(items, count, "items");
    require(offsets, "offsets");
    require(num_groups, "num_groups");
    const Partition groups = longest_processing_time_with_cap(array_of(costs, count, "costs"), k, cap);
    write_partition(groups, items, offsets);
    *num_groups = groups.size();
  });
}

evenkeel_status evenkeel_partition_whole_groups(const int64_t* lengths, const int64_t* keys, int64_t count,
                                                int64_t k, int32_t equal_groups, int64_t* items,
                                                int64_t* offsets) {
  return run_guarded([&] {
    const std::span<const std::int64_t> values = array_of(lengths, count, "lengths");
    const std::span<const std::int64_t> numbers = array_of(keys, count, "keys");
    require_list(items, count, "items");
    require(offsets, "offsets");
    const std::vector<std::uint64_t> groups(numbers.begin(), numbers.end());
    require_enough_keys(groups, k, equal_groups != 0);
    write_partition(balance_whole_groups(work_of(values), groups, k, GroupSize::equal), items, offsets);
  });
}

evenkeel_status evenkeel_roll_batch_balance(const int64_t* lengths, int64_t count, int32_t dp,
                                            int64_t mini_batch, int64_t* items, int64_t* offsets) {
  return run_guarded([&] {
    require_list(items, count, "items");
    require(offsets, "offsets");
    const std::optional<std::int64_t> at_a_time =
        mini_batch == INT64_MAX ? std::nullopt : std::optional(mini_batch);
    write_partition(roll_batch_balance(array_of(lengths, count, "lengths"), dp, at_a_time), items, offsets);
  });
}

evenkeel_status evenkeel_inverse_order(const int64_t* order, int64_t count, int64_t* inverse) {
  return run_guarded([&] {
    require_list(inverse, count, "inverse");
    std::ranges::copy(inverse_order(array_of(order, count, "order")), inverse);
  });
}

evenkeel_status evenkeel_batching_count(const evenkeel_batching* batching, const int64_t* lengths,
                                        int64_t count, int64_t* num_micro_batches) {
  return run_guarded([&] {
    require(num_micro_batches, "num_micro_batches");
    *num_micro_batches = with_settings(
        batching, [&](const auto& of) { return reference_count(array_of(lengths, count, "lengths"), of); });
  });
}

evenkeel_status evenkeel_batching_agreed_count(const evenkeel_batching* batching, int64_t largest,
                                               int64_t* num_micro_batches) {
  return run_guarded([&] {
    require(num_micro_batches, "num_micro_batches");
    *num_micro_batches = with_settings(batching, [&](const auto& of) { return agreed_count(largest, of); });
  });
}

evenkeel_status evenkeel_batching_count_under_cap(const evenkeel_batching* batching, const int64_t* lengths,
                                                  int64_t count, int64_t at_least,
                                                  int64_t* num_micro_batches) {
  return run_guarded([&] {
    require(num_micro_batches, "num_micro_batches");
    *num_micro_batches = with_settings(batching, [&](const auto& of) {
      return find_count_within_limits(array_of(lengths, count, "lengths"), at_least, of);
    });
  });
}

evenkeel_status evenkeel_batching_micro_batches(const evenkeel_batching* batching, const int64_t* lengths,
                                                int64_t count, int64_t num_micro_batches, int64_t* items,
                                                int64_t* offsets) {
  return run_guarded([&] {
    require_list(items, count, "items");
    require(offsets, "offsets");
    write_partition(with_settings(batching,
                                  [&](const auto& of) {
                                    return reference_micro_batches(array_of(lengths, count, "lengths"),
                                                                   num_micro_batches, of);
                                  }),
                    items, offsets);
  });
}

evenkeel_status evenkeel_padded_batches(const int64_t* lengths, int64_t count, int32_t dp, int64_t max_tokens,
                                        int64_t length_round, int64_t count_multiple,
                                        evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    PaddedBatchingSettings settings;
    settings.dp = dp;
    settings.max_tokens = max_tokens;
    settings.length_round = length_round;
    settings.count_multiple = count_multiple;
    settings.widen_empty_samples = false;
    const PaddedBatches batches = plan_padded_batches(array_of(lengths, count, "lengths"), settings);
    Numbers items(static_cast<std::size_t>(count));
    Numbers offsets(static_cast<std::size_t>(dp) + 1);
    write_partition(batches.shards, items.data(), offsets.data());
    made.add("items", std::move(items));
    made.add("offsets", std::move(offsets));
    made.add_mapped("begin", batches.micro_batches,
                    [](const PaddedMicroBatch& m) { return m.positions.begin; });
    made.add_mapped("end", batches.micro_batches, [](const PaddedMicroBatch& m) { return m.positions.end; });
    made.add_mapped("padded_length", batches.micro_batches, &PaddedMicroBatch::padded_length);
    made.add("padded_tokens", batches.padded_tokens());
  });
}

evenkeel_status evenkeel_mindspeed_ring_degree(const evenkeel_mindspeed_cp* cp, int32_t* degree) {
  return run_guarded([&] {
    require(degree, "degree");
    *degree = ring_degree(mindspeed_cp_of(cp));
  });
}

evenkeel_status evenkeel_mindspeed_columns(const evenkeel_mindspeed_cp* cp, int64_t columns,
                                           const int64_t* ends, int64_t count, int32_t cp_rank,
                                           int64_t* indices, int64_t* num_indices) {
  return run_guarded([&] {
    require(num_indices, "num_indices");
    const MindSpeedCp of = mindspeed_cp_of(cp);
    static_cast<void>(ring_degree(of));  // throws if the sizes are invalid, before the rank is checked
    const std::vector<std::int64_t> found = mindspeed_columns(of, columns, array_of(ends, count, "ends"),
                                                              checked_cp_rank(CpGroup{of.size}, cp_rank));
    std::ranges::copy(found, array_of(indices, std::ssize(found), "indices").begin());
    *num_indices = std::ssize(found);
  });
}

evenkeel_status evenkeel_seqlen_balance_figures(const int64_t* lengths, int64_t count, const int64_t* items,
                                                int64_t num_items, const int64_t* offsets, int64_t k,
                                                double* figures) {
  return run_guarded([&] {
    require(figures, "figures");
    const std::span<const std::int64_t> values = array_of(lengths, count, "lengths");
    const Partition partition = c::partition_of(items, num_items, offsets, k);
    if (partition.size() == 0) throw InputError("partitions", "are empty");
    for (const Item item : partition.items())
      if (item < 0 || item >= count)
        throw InputError("partitions", "contain index " + std::to_string(item) +
                                           ", but the number of lengths is " + std::to_string(count));
    write_figures(seqlen_balance_metrics(values, partition), figures);
  });
}

evenkeel_status evenkeel_dynamic_batching_figures(const int64_t* lengths, int64_t count,
                                                  int64_t actual_tokens, int64_t max_length,
                                                  double* figures) {
  return run_guarded([&] {
    require(figures, "figures");
    write_figures(dynamic_batching_metrics(array_of(lengths, count, "lengths"), actual_tokens, max_length),
                  figures);
  });
}

evenkeel_status evenkeel_take_rows(const void* source, int64_t num_rows, int64_t row_bytes,
                                   const int64_t* items, int64_t num_items, const int64_t* offsets, int64_t k,
                                   void* const* targets, int64_t threads) {
  return run_guarded([&] {
    const Partition groups = c::partition_of(items, num_items, offsets, k);
    for (const Item row : groups.items())
      if (row < 0 || row >= num_rows)
        throw InputError("partitions", "name row " + std::to_string(row) + ", but the number of rows is " +
                                           std::to_string(num_rows));
    require_list(targets, k, "targets");
    if (checked_row_bytes(row_bytes) == 0 || num_items == 0) return;  // rows of zero bytes need not be copied
    require(source, "source");
    std::vector<std::byte*> memory;
    for (std::int64_t g = 0; g < k; ++g) {
      if (!groups[g].empty()) require(targets[g], "targets");
      memory.push_back(static_cast<std::byte*>(targets[g]));
    }
    constexpr std::size_t worth_a_thread = std::size_t{1} << 22;
    const auto bytes = static_cast<std::size_t>(row_bytes);
    const auto useful =
        static_cast<std::int64_t>(static_cast<std::size_t>(num_items) * bytes / worth_a_thread) + 1;
    copy_groups({static_cast<const std::byte*>(source), num_rows, bytes}, groups, memory,
                std::min(threads, useful));
  });
}
