#include "preset_micro_batches.hpp"

#include <utility>

#include "evenkeel/plan/reference_micro_batches.hpp"

namespace evenkeel {
namespace {

std::vector<std::int64_t> lengths_of(const LengthTable& table, std::span<const std::int64_t> entries) {
  std::vector<std::int64_t> lengths;
  lengths.reserve(entries.size());
  for (const std::int64_t entry : entries) lengths.push_back(table[entry].shape.length());
  return lengths;
}

/// Calls `use` with the preset's batching.
template <typename Use>
auto with_batching(const PlanSettings& settings, Use use) {
  const MicroBatchSettings& m = settings.micro_batch;
  switch (settings.balance.preset) {
    case Preset::mindspeed_rl:
      return use(MindSpeedBatching{m.max_tokens, m.max_samples});
    case Preset::roll:
      return use(RollPacking{m.max_tokens, m.min_count, settings.count_multiple(), settings.alignment()});
    case Preset::verl:
    case Preset::none:
      break;
  }
  return use(VerlBatching{m.max_tokens, m.min_count, settings.count_multiple(),
                          m.order == MicroBatchOrder::pipeline});
}

}  // namespace

GroupCount count_for_preset(const LengthTable& table, std::span<const std::int64_t> entries,
                            const PlanSettings& settings) {
  const std::vector<std::int64_t> lengths = lengths_of(table, entries);
  const std::int64_t needed =
      with_batching(settings, [&](const auto& batching) { return reference_count(lengths, batching); });
  return {count_micro_batches(table, entries, settings).lower_bound, needed};
}

std::vector<MicroBatchPlan> preset_micro_batches(const LengthTable& table,
                                                 std::span<const std::int64_t> entries, std::int64_t count,
                                                 const PlanSettings& settings) {
  const std::vector<std::int64_t> lengths = lengths_of(table, entries);
  const Partition groups = with_batching(
      settings, [&](const auto& batching) { return reference_micro_batches(lengths, count, batching); });
  std::vector<MicroBatchPlan> micro_batches;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    std::vector<std::int64_t> of_group;
    for (const Item item : groups[g]) of_group.push_back(entries[static_cast<std::size_t>(item)]);
    micro_batches.push_back(micro_batch_of(table, std::move(of_group), settings));
  }
  return micro_batches;
}

}  // namespace evenkeel
