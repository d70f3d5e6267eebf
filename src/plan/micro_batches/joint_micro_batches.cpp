#include "plan/micro_batches/joint_micro_batches.hpp"

#include <cstddef>
#include <utility>

namespace evenkeel {

void JointMicroBatches::reserve(std::size_t micro_batches, std::size_t units) {
  figures_.reserve(micro_batches);
  offsets_.reserve(micro_batches + 1);
  units_.reserve(units);
}

std::int64_t JointMicroBatches::add(std::span<const UnitId> units, const MicroBatchFigures& figures) {
  units_.insert(units_.end(), units.begin(), units.end());
  offsets_.push_back(std::ssize(units_));
  figures_.push_back(figures);
  return size() - 1;
}

void JointMicroBatches::reorder_ranks(std::span<const std::int64_t> rank_of) {
  std::vector<std::vector<std::int64_t>> reordered;
  reordered.reserve(of_ranks_.size());
  for (const std::int64_t rank : rank_of)
    reordered.push_back(std::move(of_ranks_[static_cast<std::size_t>(rank)]));
  of_ranks_ = std::move(reordered);
}

std::span<const UnitId> JointMicroBatches::units_of(std::int64_t micro_batch) const noexcept {
  const auto at = static_cast<std::size_t>(micro_batch);
  return std::span(units_).subspan(static_cast<std::size_t>(offsets_[at]),
                                   static_cast<std::size_t>(offsets_[at + 1] - offsets_[at]));
}

}  // namespace evenkeel
