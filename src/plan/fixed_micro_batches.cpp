#include "evenkeel/plan/fixed_micro_batches.hpp"

#include <algorithm>
#include <utility>

namespace evenkeel {

std::vector<MicroBatchPlan> fixed_micro_batches(const LengthTable& table,
                                                std::span<const std::int64_t> entries,
                                                const PlanSettings& settings) {
  const std::int64_t alignment = settings.alignment();
  const BinLimits limits = settings.micro_batch.limits();
  const std::int64_t most = std::min(settings.micro_batch.size, limits.max_items);
  std::vector<MicroBatchPlan> micro_batches;
  std::vector<std::int64_t> open;
  std::int64_t rows = 0;
  const auto close = [&] {
    if (!open.empty()) micro_batches.push_back(micro_batch_of(table, std::exchange(open, {}), settings));
    rows = 0;
  };
  for (const std::int64_t entry : entries) {
    const std::int64_t aligned = align_up(table[entry].shape.length(), alignment);
    if (std::ssize(open) == most || rows + aligned > limits.max_size) close();
    open.push_back(entry);
    rows += aligned;
  }
  close();
  return micro_batches;
}

}  // namespace evenkeel
