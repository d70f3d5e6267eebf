#include "evenkeel/pack/prefix_predictions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/pack_rows.hpp"
#include "pack/arbitrary.hpp"
#include "pack/arbitrary_groups.hpp"
#include "pack/arbitrary_tree.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;

constexpr CpGroup zigzag2{2, CpLayout::zigzag};

// Rank 0 holds rows 0 and 3 of each segment of 4, rank 1 rows 1 and 2.
TEST(Predictions, of_a_group_repeat_the_last_prefix_row_for_every_suffix) {
  const PackedPrefixLayout layout(two_groups(), std::vector<SampleId>(3), 4, zigzag2);
  const PredictionMap map = predictions(layout);
  EXPECT_THAT(map.offsets, ElementsAre(0, 2, 3, 7));
  EXPECT_THAT(map.rank,
              ElementsAre(CpRank{1}, CpRank{0}, CpRank{1}, CpRank{1}, CpRank{0}, CpRank{1}, CpRank{1}));
  EXPECT_THAT(map.row, ElementsAre(1, 2, 1, 6, 8, 8, 9));
  EXPECT_THAT(predictions_on(map, CpRank{0}).rows, ElementsAre(2, 8));
  EXPECT_THAT(predictions_on(map, CpRank{0}).entries, ElementsAre(1, 4));
  EXPECT_THAT(predictions_on(map, CpRank{1}).rows, ElementsAre(1, 1, 6, 8, 9));
}

TEST(Predictions, of_a_tree_repeat_the_row_in_front_of_a_branch) {
  const PackedTreeLayout layout(tree_of(branching_samples()), 1, {});
  const std::vector<std::int64_t> prompts{2, 1, 0};
  const PredictionMap map = predictions(layout, prompts);
  EXPECT_THAT(map.offsets, ElementsAre(0, 2, 6, 9));
  EXPECT_THAT(map.row, ElementsAre(1, 2, 0, 1, 2, 4, -1, 0, 1));
  EXPECT_EQ(map.rank[6], CpRank{-1}) << "nothing predicts the first token of a sample without a prompt";
}

TEST(Predictions, need_a_prompt_length_for_every_sample_and_none_longer_than_it) {
  const PackedTreeLayout layout(tree_of(branching_samples()), 1, {});
  EXPECT_THROW((void)predictions(layout, std::vector<std::int64_t>{1, 1}), InputError);
  EXPECT_THROW((void)predictions(layout, std::vector<std::int64_t>{5, 1, 1}), InputError);
  EXPECT_THROW((void)predictions(layout, std::vector<std::int64_t>{-1, 1, 1}), InputError);
}

TEST(Predictions, add_all_gradients_of_a_row_that_is_repeated) {
  const LocalPredictions local{{1, 1, 0}, {0, 2, 1}};
  const std::vector<double> responses{1, 10, 2, 20, 4, 40};
  std::vector<double> rows(4, 0);
  add_prediction_gradients(local, 2, responses, rows);
  EXPECT_THAT(rows, ElementsAre(2, 20, 5, 50));
  std::vector<float> narrow_rows(2, 1);
  add_prediction_gradients(local, 1, std::vector<float>{1, 2, 4}, narrow_rows);
  EXPECT_THAT(narrow_rows, ElementsAre(3, 6));
}

TEST(Predictions, are_not_taken_from_or_given_to_rows_that_are_not_there) {
  const LocalPredictions local{{1, 1, 0}, {0, 2, 1}};
  std::vector<double> one(1);
  std::vector<double> three(3);
  EXPECT_THROW(add_prediction_gradients(local, 1, three, one), InputError);
  EXPECT_THROW(add_prediction_gradients(local, 1, one, three), InputError);
  EXPECT_THROW(add_prediction_gradients(local, -1, three, three), InputError);
  EXPECT_THROW(gather_predictions(local, sizeof(double), std::as_bytes(std::span(one)),
                                  std::as_writable_bytes(std::span(three))),
               InputError);
  EXPECT_THROW(add_prediction_gradients({{0}, {}}, 1, three, three), InputError);
}

// Each row holds the tokens up to it; what response token t is predicted from must be its sample up to t-1.
RC_GTEST_PROP(Predictions, gathered_from_all_ranks_stand_behind_all_tokens_before_the_predicted_one, ()) {
  const TokenLists samples = arbitrary_samples();
  const CpGroup cp = arbitrary_cp();
  const PackedTreeLayout layout(tree_of(samples), cp.chunks(), cp);
  std::vector<std::int64_t> row_names(static_cast<std::size_t>(layout.tree().num_rows()));
  for (std::size_t row = 0; row < row_names.size(); ++row) row_names[row] = static_cast<std::int64_t>(row);
  std::vector<std::int64_t> prompts;
  std::vector<std::int64_t> expected;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto length = std::ssize(samples[i]);
    prompts.push_back(*rc::gen::inRange<std::int64_t>(0, length + 1));
    const std::vector<std::int64_t> rows = layout.tree().rows_of(static_cast<std::int64_t>(i));
    for (std::int64_t t = prompts.back(); t < length; ++t) {
      expected.push_back(t == 0 ? -5 : rows[static_cast<std::size_t>(t - 1)]);
    }
  }
  const PredictionMap map = predictions(layout, prompts);
  RC_ASSERT(map.size() == std::ssize(expected));
  std::vector<std::int64_t> gathered(expected.size(), -5);
  std::vector<int> gathered_times(expected.size(), 0);
  for (const CpRank rank : all_ranks(cp)) {
    std::vector<std::int64_t> local(static_cast<std::size_t>(layout.segments().local_rows()));
    pack_rows(layout.segments(), rank, std::as_bytes(std::span(row_names)), {},
              std::as_writable_bytes(std::span(local)));
    const LocalPredictions own = predictions_on(map, rank);
    for (const std::int64_t entry : own.entries) ++gathered_times[static_cast<std::size_t>(entry)];
    gather_predictions(own, sizeof(std::int64_t), std::as_bytes(std::span(local)),
                       std::as_writable_bytes(std::span(gathered)));
  }
  RC_ASSERT(gathered == expected);
  for (std::size_t e = 0; e < expected.size(); ++e)
    RC_ASSERT(gathered_times[e] == (expected[e] == -5 ? 0 : 1));
}

}  // namespace
}  // namespace evenkeel
