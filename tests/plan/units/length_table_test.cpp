#include "evenkeel/plan/length_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/loss.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/loss_weights.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;
using Lengths = std::vector<std::int64_t>;

TEST(LengthTable, of_lengths_numbers_samples_in_order_and_counts_all_tokens_as_response) {
  const LengthTable table = LengthTable::from_lengths(Lengths{7, 0, 2});
  EXPECT_EQ(table.size(), 3);
  EXPECT_EQ(table.num_tokens(), 9);
  EXPECT_THAT(table.sample_lengths(), ElementsAre(7, 0, 2));
  for (std::int64_t i = 0; i < 3; ++i) {
    const LengthEntry& entry = table.entries()[static_cast<std::size_t>(i)];
    EXPECT_EQ(entry.shape.id, SampleId{i});
    EXPECT_EQ(entry.shape.prompt, 0);
    EXPECT_EQ(entry.owner, WorldRank{0});
    EXPECT_EQ(entry.owner_index, i);
  }
}

TEST(LengthTable, of_prompts_and_responses_counts_the_loss_tokens_of_responses) {
  const LengthTable table = LengthTable::from_lengths(Lengths{3, 0}, Lengths{4, 2});
  EXPECT_THAT(table.sample_lengths(), ElementsAre(7, 2));
  EXPECT_EQ(loss_tokens_of(table.entries()[0]), 4);
  EXPECT_EQ(loss_tokens_of(table.entries()[1]), 1) << "nothing predicts a token that starts its sequence";
}

TEST(LengthTable, of_lengths_shares_no_prompts) {
  const LengthTable table = LengthTable::from_lengths(Lengths{3, 3, 3}, Lengths{1, 1, 1});
  PlanSettings settings;
  settings.sharing = PrefixSharing::prompts;
  settings.micro_batch.max_tokens = 12;
  EXPECT_EQ(plan_step({table, settings}).ranks.at(0).tokens(), 12);
}

TEST(LengthTable, of_no_samples_is_empty) {
  EXPECT_EQ(LengthTable::from_lengths(Lengths{}), LengthTable{});
}

TEST(LengthTable, of_negative_lengths_or_lists_of_different_sizes_is_an_error) {
  EXPECT_THAT(message_of([] {
                (void)LengthTable::from_lengths(Lengths{5, -1});
              }),
              AllOf(HasSubstr("sample 1"), HasSubstr("-1 tokens")));
  EXPECT_THAT(message_of([] { (void)LengthTable::from_lengths(Lengths{-3}, Lengths{5}); }),
              HasSubstr("a prompt of -3"));
  EXPECT_THAT(message_of([] {
                (void)LengthTable::from_lengths(Lengths{1}, Lengths{5, 6});
              }),
              HasSubstr("1 prompt but 2 responses"));
}

}  // namespace
}  // namespace evenkeel
