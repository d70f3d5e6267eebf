#include "evenkeel/pack/prefix/predictions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"
#include "pack/arbitrary.hpp"
#include "pack/pack_rows.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/prefix/arbitrary_tree.hpp"
#include "pack/zigzag2.hpp"

namespace evenkeel {
namespace {

using test::zigzag2;
using testing::ElementsAre;

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

TEST(Predictions, of_a_tree_repeat_the_row_before_a_branch) {
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

TEST(Predictions, of_one_rank_are_runs_of_rows) {
  const PackedTreeLayout layout(tree_of(branching_samples()), 1, {});
  const std::vector<std::int64_t> prompts{2, 1, 0};
  EXPECT_THAT(prediction_runs(layout, prompts, CpRank{0}),
              ElementsAre(PredictionRun{0, {1, 2}}, PredictionRun{0, {2, 3}}, PredictionRun{1, {0, 2}},
                          PredictionRun{1, {2, 3}}, PredictionRun{1, {4, 5}}, PredictionRun{2, {0, 2}}));
}

// Segments 1 2 3 4, 5 6, 7: rank 0 holds 1 4, 5, 7 and rank 1 holds 2 3, 6.
TEST(Predictions, take_a_label_from_the_halo_only_if_another_rank_has_the_token) {
  const PackedTreeLayout layout(tree_of({{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 7}}), 4, zigzag2);
  const std::vector<std::int64_t> prompts{1, 4};
  const std::vector<std::int64_t> tokens{1, 4, 5, 0, 7, 0};
  const std::vector<std::int64_t> halo{20, 21, 22, 23, 24, 25, 26};  // after four runs from three segments
  std::vector<std::int64_t> labels(4);
  derive_labels(layout, prompts, CpRank{0}, tokens, halo, labels);
  EXPECT_THAT(labels, ElementsAre(20, 5, 22, 7));
  EXPECT_THROW(derive_labels(layout, prompts, CpRank{0}, std::span(tokens).first(3), halo, labels),
               InputError);
  EXPECT_THROW(derive_labels(layout, prompts, CpRank{0}, tokens, std::span(halo).first(2), labels),
               InputError);
  EXPECT_THROW(derive_labels(layout, prompts, CpRank{0}, tokens, halo, std::span(labels).first(3)),
               InputError);
}

TEST(Predictions, take_the_first_token_after_a_short_prompt_from_the_halo) {
  const PackedPrefixLayout layout(PrefixGroups(std::vector<std::vector<std::int64_t>>{{2, 1, 2}}),
                                  std::vector<SampleId>(2), 4, zigzag2);
  // Rank 1 has the prompt's last row and only the second token of the second response.
  const std::vector<std::int64_t> tokens(6);
  const std::vector<std::int64_t> halo{20, 21, 22, 23, 24};
  std::vector<std::int64_t> labels(2);
  derive_labels(PackedTreeLayout(layout), std::vector<std::int64_t>{2, 2}, CpRank{1}, tokens, halo, labels);
  EXPECT_THAT(labels, ElementsAre(23, 24));
}

TEST(Predictions, sum_the_gradients_of_a_repeated_row) {
  const LocalPredictions local{{1, 1, 0}, {0, 2, 1}};
  const std::vector<double> responses{1, 10, 2, 20, 4, 40};
  std::vector<double> rows(4, 0);
  add_prediction_gradients(local, 2, responses, rows);
  EXPECT_THAT(rows, ElementsAre(2, 20, 5, 50));
  std::vector<float> narrow_rows(2, 1);
  add_prediction_gradients(local, 1, std::vector<float>{1, 2, 4}, narrow_rows);
  EXPECT_THAT(narrow_rows, ElementsAre(3, 6));
}

TEST(Predictions, reject_rows_out_of_range) {
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

std::vector<std::int64_t> arbitrary_prompts(const TokenLists& samples) {
  std::vector<std::int64_t> prompts;
  for (const Tokens& sample : samples)
    prompts.push_back(*rc::gen::inRange<std::int64_t>(0, std::ssize(sample) + 1));
  return prompts;
}

RC_GTEST_PROP(Predictions, of_one_rank_are_the_same_as_runs_and_as_a_list, ()) {
  const TokenLists samples = arbitrary_samples();
  const CpGroup cp = arbitrary_cp();
  const PackedTreeLayout layout(tree_of(samples), cp.chunks(), cp);
  const std::vector<std::int64_t> prompts = arbitrary_prompts(samples);
  const PredictionMap map = predictions(layout, prompts);
  for (const CpRank rank : all_ranks(cp)) {
    const LocalPredictions list = predictions_on(map, rank);
    std::size_t at = 0;
    for (const PredictionRun& run : prediction_runs(layout, prompts, rank)) {
      RC_ASSERT(run.rows.begin < run.rows.end);
      for (std::int64_t row = run.rows.begin; row < run.rows.end; ++row, ++at) {
        RC_ASSERT(list.rows.at(at) == row);
        RC_ASSERT(list.entries[at] >= map.offsets[static_cast<std::size_t>(run.sample)]);
        RC_ASSERT(list.entries[at] < map.offsets[static_cast<std::size_t>(run.sample) + 1]);
      }
    }
    RC_ASSERT(at == list.rows.size());
  }
}

/// What other ranks have to send for labels, and `unsent` for everything else.
std::vector<std::int64_t> make_halo_route(const PackedTreeLayout& layout, CpRank rank,
                                          std::span<const std::int64_t> row_tokens, std::int64_t reach,
                                          std::int64_t unsent) {
  std::vector<std::int64_t> halo;
  std::vector<std::int64_t> starts_here(static_cast<std::size_t>(layout.tree().size()), 0);
  const auto add = [&](const TreeSegment& segment, std::int64_t first, bool is_sent) {
    for (std::int64_t i = first; i < first + reach; ++i)
      halo.push_back(is_sent && i < segment.rows.size()
                         ? row_tokens[static_cast<std::size_t>(segment.rows.begin + i)]
                         : unsent);
  };
  for (const PackedRun& run : packed_runs(layout.segments(), rank)) {
    add(layout.tree().segment(run.index), run.sequence.end, true);
    if (run.sequence.begin == 0) starts_here[static_cast<std::size_t>(run.index)] = run.sequence.end;
  }
  for (std::int64_t s = 0; s < layout.tree().size(); ++s) {
    const TreeSegment& segment = layout.tree().segment(s);
    add(segment, 0, starts_here[static_cast<std::size_t>(s)] < std::min(reach, segment.rows.size()));
  }
  return halo;
}

/// A tree split over ranks, whose rows are followed by the same number of equal tokens in all of their
/// samples.
struct PredictedTree {
  TokenLists samples = arbitrary_samples();
  std::int64_t ahead = *rc::gen::inRange<std::int64_t>(0, 4);
  CpGroup cp = arbitrary_cp();
  PackedTreeLayout layout{tree_of(samples, ahead), cp.chunks(), cp};
  Tokens tokens = row_tokens(layout.tree(), samples);

  [[nodiscard]] Tokens local(CpRank rank) const {
    Tokens rows(static_cast<std::size_t>(layout.segments().local_rows()));
    const std::int64_t pad = -9;
    pack_rows(layout.segments(), rank, std::as_bytes(std::span(tokens)), std::as_bytes(std::span(&pad, 1)),
              std::as_writable_bytes(std::span(rows)));
    return rows;
  }
  [[nodiscard]] Tokens halo(CpRank rank) const {
    return cp.size == 1 ? Tokens{} : make_halo_route(layout, rank, tokens, 1 + ahead, -7);
  }
};

RC_GTEST_PROP(Predictions, have_response_tokens_as_labels_over_any_number_of_ranks, ()) {
  const PredictedTree cut;
  const std::vector<std::int64_t> prompts = arbitrary_prompts(cut.samples);
  for (std::int64_t depth = 0; depth <= cut.ahead; ++depth) {
    std::int64_t predicted = 0;
    for (const CpRank rank : all_ranks(cut.cp)) {
      // The positions, in their samples, of the rows that this rank has.
      std::vector<std::int64_t> positions(static_cast<std::size_t>(cut.layout.segments().local_rows()), -1);
      derive_position_ids(cut.layout, rank, positions);
      std::vector<std::int64_t> expected;
      for (const PredictionRun& run : prediction_runs(cut.layout, prompts, rank, depth)) {
        const Tokens& sample = cut.samples[static_cast<std::size_t>(run.sample)];
        for (std::int64_t row = run.rows.begin; row < run.rows.end; ++row) {
          const std::int64_t t = positions[static_cast<std::size_t>(row)] + 1 + depth;
          RC_ASSERT(t >= prompts[static_cast<std::size_t>(run.sample)]);
          expected.push_back(sample.at(static_cast<std::size_t>(t)));
        }
      }
      Tokens labels(expected.size());
      derive_labels(cut.layout, prompts, rank, cut.local(rank), cut.halo(rank), labels, 1 + cut.ahead, depth);
      RC_ASSERT(labels == expected);
      predicted += std::ssize(labels);
    }
    for (std::size_t i = 0; i < cut.samples.size(); ++i)
      predicted -= std::max(std::ssize(cut.samples[i]) - std::max(prompts[i], depth + 1), std::int64_t{0});
    RC_ASSERT(predicted == 0);
  }
}

RC_GTEST_PROP(TokensAhead, of_a_row_are_those_of_all_its_samples, ()) {
  const PredictedTree cut;
  const PrefixTree& tree = cut.layout.tree();
  for (std::int64_t depth = 1; depth <= cut.ahead; ++depth) {
    const std::int64_t pad = -1;
    Tokens expected(cut.tokens.size(), pad);
    for (std::size_t i = 0; i < cut.samples.size(); ++i) {
      const std::vector<std::int64_t> rows = tree.rows_of(static_cast<std::int64_t>(i));
      for (std::size_t t = 0; t + static_cast<std::size_t>(depth) < rows.size(); ++t)
        expected[static_cast<std::size_t>(rows[t])] = cut.samples[i][t + static_cast<std::size_t>(depth)];
    }
    for (const CpRank rank : all_ranks(cut.cp)) {
      Tokens ahead(static_cast<std::size_t>(cut.layout.segments().local_rows()));
      derive_tokens_ahead(cut.layout, rank, cut.local(rank), cut.halo(rank), 1 + cut.ahead, depth, pad,
                          ahead);
      Tokens packed(ahead.size());
      pack_rows(cut.layout.segments(), rank, std::as_bytes(std::span(expected)),
                std::as_bytes(std::span(&pad, 1)), std::as_writable_bytes(std::span(packed)));
      RC_ASSERT(ahead == packed);
    }
  }
}

// Each row contains the tokens up to it; the row that predicts response token t must contain its sample up to
// t-1.
RC_GTEST_PROP(Predictions, gathered_from_all_ranks_see_all_tokens_before_the_predicted_one, ()) {
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
