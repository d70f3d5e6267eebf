#include "evenkeel/plan/step_plan.hpp"

#include <algorithm>

namespace evenkeel {
namespace {

template <typename Member>
std::int64_t sum_over(const std::vector<MicroBatchPlan>& micro_batches, Member member) {
  std::int64_t sum = 0;
  for (const MicroBatchPlan& m : micro_batches) sum += m.*member;
  return sum;
}

// FNV-1a over the bytes of 64-bit numbers, least significant byte first.
class Fnv1a {
 public:
  void add(std::int64_t number) noexcept {
    auto bits = static_cast<std::uint64_t>(number);
    for (int byte = 0; byte < 8; ++byte, bits >>= 8) hash_ = (hash_ ^ (bits & 0xff)) * 0x100000001b3;
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace

std::int64_t DpRankPlan::tokens() const noexcept {
  return sum_over(micro_batches, &MicroBatchPlan::tokens);
}
std::int64_t DpRankPlan::aligned_tokens() const noexcept {
  return sum_over(micro_batches, &MicroBatchPlan::aligned_tokens);
}
Cost DpRankPlan::cost() const noexcept {
  return sum_over(micro_batches, &MicroBatchPlan::cost);
}

StepPlan plan_step(const LengthTable& table, const PlanSettings& settings) {
  settings.validate();
  require_samples_fit(table, settings);
  const Partition assignment = assign_to_dp_ranks(table, settings);
  StepPlan plan;
  std::int64_t largest = 0;
  for (std::int64_t r = 0; r < assignment.size(); ++r) {
    const GroupCount count = count_micro_batches(table, assignment[r], settings);
    plan.ranks.push_back({count.lower_bound, count.needed, {}});
    largest = std::max(largest, count.needed);
  }
  plan.num_micro_batches = agreed_count(largest, settings);
  for (std::int64_t r = 0; r < assignment.size(); ++r) {
    plan.ranks[static_cast<std::size_t>(r)].micro_batches =
        plan_micro_batches(table, assignment[r], plan.num_micro_batches, settings);
  }
  return plan;
}

std::uint64_t plan_hash(const Partition& assignment, std::int64_t num_micro_batches) noexcept {
  Fnv1a hash;
  hash.add(num_micro_batches);
  for (std::int64_t g = 0; g < assignment.size(); ++g) {
    hash.add(static_cast<std::int64_t>(assignment[g].size()));
    for (const Item item : assignment[g]) hash.add(item);
  }
  return hash.value();
}

}  // namespace evenkeel
