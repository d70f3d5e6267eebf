#include "balance/bins/joint_limit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace evenkeel {
namespace {

using Amounts = std::vector<std::int64_t>;

Amounts amounts_up_to(std::int64_t most, std::int64_t n) {
  return *rc::gen::container<Amounts>(static_cast<std::size_t>(n),
                                      rc::gen::inRange<std::int64_t>(0, most + 1));
}

/// Returns the total of a set of items, in which bit i says whether item i is included.
std::int64_t sum_of(const Amounts& amounts, unsigned set) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < amounts.size(); ++i)
    if ((set >> i & 1U) != 0) sum += amounts[i];
  return sum;
}

std::int64_t count_of(const JointLimit& joint, unsigned set) {
  return sum_of(joint.counts.empty() ? Amounts(16, 1) : joint.counts, set);
}

RC_GTEST_PROP(JointLimit, of_a_single_limit_is_equivalent_to_it, ()) {
  const auto n = *rc::gen::inRange<std::int64_t>(1, 9);
  const std::int64_t most = *rc::gen::elementOf(Amounts{1, 2, 7, 16384, std::int64_t{1} << 31});
  const Amounts amounts = amounts_up_to(most, n);
  const std::vector<LimitedAmount> limits{{amounts, most}};
  const JointLimit joint = join_limits(limits, n);
  for (unsigned set = 0; set < 1U << n; ++set)
    RC_ASSERT((count_of(joint, set) <= joint.most) == (sum_of(amounts, set) <= most));
}

RC_GTEST_PROP(JointLimit, implies_every_limit_and_admits_single_items, ()) {
  const auto n = *rc::gen::inRange<std::int64_t>(1, 9);
  std::vector<Amounts> amounts;
  std::vector<LimitedAmount> limits;
  // With the largest, sums are so large that counts are rounded up.
  for (const std::int64_t most : {std::int64_t{3}, std::int64_t{100}, std::int64_t{1} << 58})
    amounts.push_back(amounts_up_to(*rc::gen::elementOf(Amounts{most, 2}), n));
  for (std::size_t i = 0; i < amounts.size(); ++i)
    limits.push_back({amounts[i], std::max<std::int64_t>(1, std::ranges::max(amounts[i]))});
  const JointLimit joint = join_limits(limits, n);
  for (unsigned set = 0; set < 1U << n; ++set) {
    if (count_of(joint, set) > joint.most) continue;
    for (const LimitedAmount& limit : limits)
      RC_ASSERT(sum_of({limit.of_items.begin(), limit.of_items.end()}, set) <= limit.most);
  }
  for (unsigned i = 0; i < n; ++i) RC_ASSERT(count_of(joint, 1U << i) <= joint.most);
}

TEST(JointLimit, omits_limits_that_all_items_together_satisfy) {
  const Amounts rows{3, 0, 2};
  const Amounts ones{1, 1, 1};
  const std::vector<LimitedAmount> loose{{rows, 5}, {ones, 3}};
  EXPECT_EQ(join_limits(loose, 3), JointLimit{});
  const std::vector<LimitedAmount> both{{rows, 4}, {ones, 3}};
  const std::vector<LimitedAmount> one{{rows, 4}};
  EXPECT_EQ(join_limits(both, 3), join_limits(one, 3));
}

}  // namespace
}  // namespace evenkeel
