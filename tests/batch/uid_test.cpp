#include "evenkeel/batch/ragged_batch.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <set>

namespace evenkeel {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

TEST(Uid, nonnegative_numbers_are_the_group) {
  EXPECT_EQ(group_of_uid(std::int64_t{0}), 0U);
  EXPECT_EQ(group_of_uid(std::numeric_limits<std::int64_t>::max()), first_own_group - 1);
  EXPECT_EQ(group_of_uid(std::uint64_t{7}), 7U);
}

TEST(Uid, different_uids_give_different_groups) {
  const std::set<std::uint64_t> groups{group_of(Uid(std::int64_t{7}), 1),
                                       group_of(Uid("7"), 1),
                                       group_of(Uid(std::int64_t{-1}), 1),
                                       group_of(Uid(std::uint64_t{largest}), 1),
                                       group_of(Uid(""), 1),
                                       group_of(Uid(), 1),
                                       group_of(Uid(), 0),
                                       group_of(Uid(std::int64_t{0}), 1)};
  EXPECT_EQ(groups.size(), 8U);
}

RC_GTEST_PROP(Uid, of_any_kind_never_equals_a_samples_own_group, (std::int64_t number, std::string text)) {
  for (const Uid& uid : {Uid(number), Uid(static_cast<std::uint64_t>(number)), Uid(text)})
    RC_ASSERT(!is_single_sample_group(group_of(uid, 3)));
  const std::int64_t sample = *rc::gen::nonNegative<std::int64_t>();
  RC_ASSERT(is_single_sample_group(group_of(Uid(), sample)));
  RC_ASSERT(uid_of_group(group_of(Uid(), sample)) == Uid());
  RC_ASSERT(uid_of_group(group_of(Uid(sample), 3)) == Uid(sample));
}

}  // namespace
}  // namespace evenkeel
