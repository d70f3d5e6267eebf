#include "plan/reference/micro_batches.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using Lengths = std::vector<std::int64_t>;
using Groups = std::vector<std::vector<Item>>;

TEST(RollBatchBalance, gives_equal_counts_with_cheap_samples_at_both_ends) {
  const Partition ranks = roll_batch_balance(Lengths{4, 4, 4, 4, 4, 4, 4, 4}, 2);
  EXPECT_EQ(ranks.to_vectors(), (Groups{{0, 4, 7, 2}, {1, 5, 6, 3}}));
}

TEST(RollBatchBalance, puts_the_costliest_samples_in_the_middle_of_a_rank) {
  EXPECT_EQ(roll_batch_balance(Lengths{5, 1, 4, 2, 3}, 1).to_vectors(), (Groups{{1, 4, 0, 2, 3}}));
}

// golden/README row 19: the reference drops sample 2.
TEST(RollBatchBalance, drops_no_sample_after_the_last_whole_mini_batch) {
  EXPECT_TRUE(holds_every_item_once(roll_batch_balance(Lengths{3, 2, 1}, 1, 2), 3));
  EXPECT_TRUE(holds_every_item_once(roll_batch_balance(Lengths{3, 2, 1, 4, 2}, 2, 4), 5));
}

TEST(RollBatchBalance, accepts_a_mini_batch_larger_than_the_batch) {
  EXPECT_EQ(roll_batch_balance(Lengths{1, 2}, 2, 4), roll_batch_balance(Lengths{1, 2}, 2));
}

TEST(RollBatchBalance, gives_no_samples_to_all_ranks_of_an_empty_batch) {
  EXPECT_EQ(roll_batch_balance(Lengths{}, 2, 4).to_vectors(), (Groups{{}, {}}));
}

TEST(RollBatchBalance, refuses_settings_below_one_and_lengths_below_zero) {
  EXPECT_THROW((void)roll_batch_balance(Lengths{1}, 0), ConfigError);
  EXPECT_THROW((void)roll_batch_balance(Lengths{1}, 1, 0), ConfigError);
  EXPECT_THROW((void)roll_batch_balance(Lengths{-1}, 1), InputError);
}

RC_GTEST_PROP(RollBatchBalance, deals_every_sample_once_and_each_mini_batch_evenly, ()) {
  const auto lengths = *rc::gen::container<Lengths>(rc::gen::inRange<std::int64_t>(0, 5000));
  const int dp = *rc::gen::inRange(1, 9);
  const auto mini_batch = *rc::gen::inRange<std::int64_t>(1, 40);
  const Partition ranks = roll_batch_balance(lengths, dp, mini_batch);
  RC_ASSERT(ranks.size() == dp);
  RC_ASSERT(holds_every_item_once(ranks, lengths.size()));
  for (std::int64_t first = 0; first < ranks.num_items(); first += mini_batch) {
    Groups shares;
    for (const std::vector<Item>& rank : ranks.to_vectors()) {
      std::erase_if(shares.emplace_back(rank),
                    [&](Item item) { return item < first || item >= first + mini_batch; });
    }
    RC_ASSERT(count_spread(Partition(shares)) <= 1);
  }
}

}  // namespace
}  // namespace evenkeel
