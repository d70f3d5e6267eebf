#include "plan/micro_batches/padded_batching.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Lengths = std::vector<std::int64_t>;

const Lengths roll_example{7, 6, 8, 5, 1, 3, 8, 6};

PaddedBatchingSettings settings_of(int dp, std::int64_t max_tokens, std::int64_t length_round,
                                   std::int64_t count_multiple = 1) {
  PaddedBatchingSettings settings;
  settings.dp = dp;
  settings.max_tokens = max_tokens;
  settings.length_round = length_round;
  settings.count_multiple = count_multiple;
  return settings;
}

Lengths padded_lengths(const PaddedBatches& batches) {
  Lengths lengths;
  for (const PaddedMicroBatch& m : batches.micro_batches) lengths.push_back(m.padded_length);
  return lengths;
}

Lengths sizes(const PaddedBatches& batches) {
  Lengths positions;
  for (const PaddedMicroBatch& m : batches.micro_batches) positions.push_back(m.positions.size());
  return positions;
}

/// ROLL's document with its own numbers, except for the cap: its first micro-batch of 2 x 6 needs 12.
TEST(PlanPaddedBatches, reproduces_rolls_documented_micro_batches_with_the_required_cap) {
  const PaddedBatches batches = plan_padded_batches(roll_example, settings_of(2, 12, 2));
  EXPECT_EQ(batches.shards.to_vectors(), (std::vector<std::vector<Item>>{{4, 3, 7, 2}, {5, 1, 0, 6}}));
  EXPECT_THAT(padded_lengths(batches), ElementsAre(6, 8, 8));
  EXPECT_THAT(sizes(batches), ElementsAre(2, 1, 1));
  EXPECT_THAT(batches.samples(DpRank{0}, 0), ElementsAre(4, 3));
  EXPECT_THAT(batches.samples(DpRank{1}, 0), ElementsAre(5, 1));
  EXPECT_EQ(batches.padded_tokens(), 56);
}

TEST(PlanPaddedBatches, splits_rolls_example_for_two_pipeline_stages_as_documented) {
  const PaddedBatches batches = plan_padded_batches(roll_example, settings_of(2, 12, 2, 2));
  EXPECT_THAT(padded_lengths(batches), ElementsAre(6, 6, 8, 8));
  EXPECT_THAT(sizes(batches), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(batches.samples(DpRank{0}, 0), ElementsAre(4));
  EXPECT_THAT(batches.samples(DpRank{0}, 1), ElementsAre(3));
  EXPECT_EQ(batches.padded_tokens(), 56);
}

// golden/README row 1: with the cap of 10 in the document, 2 x 6 tokens do not fit together.
TEST(PlanPaddedBatches, keeps_the_cap_that_rolls_document_states) {
  for (const std::int64_t multiple : {1, 2}) {
    const PaddedBatches batches = plan_padded_batches(roll_example, settings_of(2, 10, 2, multiple));
    EXPECT_THAT(padded_lengths(batches), ElementsAre(4, 6, 8, 8));
    EXPECT_THAT(sizes(batches), ElementsAre(1, 1, 1, 1));
    EXPECT_EQ(batches.padded_tokens(), 52);
  }
}

// ROLL's document: lengths 200 and 240 rounded to 64 are padded to 256.
TEST(PlanPaddedBatches, rounds_the_longest_sample_up) {
  EXPECT_THAT(padded_lengths(plan_padded_batches(Lengths{200, 240}, settings_of(1, 512, 64))),
              ElementsAre(256));
}

TEST(PlanPaddedBatches, accepts_lengths_beyond_32_bits) {
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  const PaddedBatches batches = plan_padded_batches(Lengths{huge, 1, huge - 1}, settings_of(1, 2 * huge, 64));
  EXPECT_THAT(padded_lengths(batches), ElementsAre(huge, huge));
  EXPECT_EQ(batches.padded_tokens(), 3 * huge);
}

// Row 16: the reference fails with an IndexError.
TEST(PlanPaddedBatches, accepts_batches_that_dp_does_not_divide) {
  const PaddedBatches batches = plan_padded_batches(Lengths{3, 1, 2}, settings_of(2, 4, 2));
  EXPECT_THAT(padded_lengths(batches), ElementsAre(2, 4));
  EXPECT_THAT(batches.samples(DpRank{0}, 0), ElementsAre(1));
  EXPECT_THAT(batches.samples(DpRank{1}, 0), ElementsAre(2));
  EXPECT_THAT(batches.samples(DpRank{0}, 1), ElementsAre(0));
  EXPECT_THAT(batches.samples(DpRank{1}, 1), IsEmpty());
  EXPECT_EQ(batches.padded_tokens(), 2 + 2 + 4);
}

TEST(PlanPaddedBatches, gives_empty_micro_batches_to_ranks_without_samples) {
  const PaddedBatches batches = plan_padded_batches(Lengths{3}, settings_of(3, 8, 4));
  EXPECT_THAT(batches.samples(DpRank{0}, 0), ElementsAre(0));
  EXPECT_THAT(batches.samples(DpRank{2}, 0), IsEmpty());
  const PaddedBatches none = plan_padded_batches(Lengths{}, settings_of(2, 8, 4, 2));
  EXPECT_THAT(padded_lengths(none), ElementsAre(4, 4));
  EXPECT_THAT(sizes(none), ElementsAre(0, 0));
}

// Row 17: one micro-batch with three samples, three pipeline stages: the reference halves it once and fails
// an assertion.
TEST(PlanPaddedBatches, halves_as_often_as_the_pipeline_needs) {
  const PaddedBatches batches = plan_padded_batches(Lengths{1, 1, 1}, settings_of(1, 3, 1, 3));
  EXPECT_THAT(sizes(batches), ElementsAre(1, 1, 1));
  EXPECT_THAT(sizes(plan_padded_batches(Lengths(8, 1), settings_of(1, 8, 1, 4))), ElementsAre(2, 2, 2, 2));
}

TEST(PlanPaddedBatches, halves_the_micro_batch_of_most_tokens_first) {
  // 4 x 2 and 2 x 8 tokens: the second one is split, although it has fewer samples.
  const PaddedBatches batches = plan_padded_batches(Lengths{2, 2, 2, 2, 8, 8, 16}, settings_of(1, 16, 2, 4));
  EXPECT_THAT(padded_lengths(batches), ElementsAre(2, 8, 8, 16));
  EXPECT_THAT(sizes(batches), ElementsAre(4, 1, 1, 1));
}

TEST(PlanPaddedBatches, appends_empty_micro_batches_if_there_are_too_few_samples) {
  const PaddedBatches batches = plan_padded_batches(Lengths{5, 5}, settings_of(1, 12, 6, 4));
  EXPECT_THAT(sizes(batches), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(padded_lengths(batches), ElementsAre(6, 6, 6, 6));
  EXPECT_THAT(batches.samples(DpRank{0}, 3), IsEmpty());
}

// Row 18 and similar: the reference gives samples without tokens no width, or an empty micro-batch at the
// front.
TEST(PlanPaddedBatches, gives_samples_without_tokens_a_legal_width) {
  const PaddedBatches batches = plan_padded_batches(Lengths{0, 0}, settings_of(1, 4, 4));
  EXPECT_THAT(padded_lengths(batches), ElementsAre(4, 4));
  EXPECT_THAT(sizes(batches), ElementsAre(1, 1));
}

TEST(PlanPaddedBatches, repeats_rolls_widths_of_samples_without_tokens_on_request) {
  PaddedBatchingSettings settings = settings_of(1, 4, 4);
  settings.widen_empty_samples = false;
  EXPECT_THAT(padded_lengths(plan_padded_batches(Lengths{0, 0}, settings)), ElementsAre(4, 0));
  settings.max_tokens = 1;
  EXPECT_THAT(sizes(plan_padded_batches(Lengths{0}, settings)), ElementsAre(0, 1));
}

TEST(PlanPaddedBatches, names_the_sample_above_the_cap) {
  try {
    (void)plan_padded_batches(Lengths{4, 5}, settings_of(1, 5, 2));
    FAIL() << "5 tokens are 6 after rounding";
  } catch (const LimitError& error) {
    EXPECT_EQ(error.report().where, "sample 1");
    EXPECT_THAT(error.what(), HasSubstr("5 tokens, 6 after alignment to 2, above the cap of 5"));
  }
}

TEST(PlanPaddedBatches, refuses_settings_that_fit_no_batch_and_negative_lengths) {
  EXPECT_THROW((void)plan_padded_batches(Lengths{1}, settings_of(1, 1, 2)), ConfigError);
  EXPECT_THROW((void)plan_padded_batches(Lengths{1}, settings_of(0, 8, 2)), ConfigError);
  EXPECT_THROW((void)plan_padded_batches(Lengths{1}, settings_of(1, 8, 0)), ConfigError);
  EXPECT_THROW((void)plan_padded_batches(Lengths{1}, settings_of(1, 8, 2, 0)), ConfigError);
  EXPECT_THROW((void)plan_padded_batches(Lengths{-1}, settings_of(1, 8, 2)), InputError);
}

struct RandomCase {
  Lengths lengths;
  PaddedBatchingSettings settings;
};

RandomCase random_case() {
  const auto longest = *rc::gen::inRange<std::int64_t>(1, 200);
  RandomCase drawn{*rc::gen::container<Lengths>(rc::gen::inRange<std::int64_t>(0, longest + 1)),
                   settings_of(*rc::gen::inRange(1, 9), 0, *rc::gen::inRange<std::int64_t>(1, 65),
                               *rc::gen::inRange<std::int64_t>(1, 6))};
  drawn.settings.max_tokens =
      longest + drawn.settings.length_round + *rc::gen::inRange<std::int64_t>(0, 2000);
  return drawn;
}

RC_GTEST_PROP(PlanPaddedBatches, hands_every_sample_out_once, ()) {
  const RandomCase drawn = random_case();
  const PaddedBatches batches = plan_padded_batches(drawn.lengths, drawn.settings);
  std::vector<Item> seen;
  for (int rank = 0; rank < drawn.settings.dp; ++rank) {
    for (std::size_t m = 0; m < batches.micro_batches.size(); ++m) {
      const auto held = batches.samples(DpRank{rank}, static_cast<std::int64_t>(m));
      seen.insert(seen.end(), held.begin(), held.end());
    }
  }
  const std::vector<std::vector<Item>> as_one_group{seen};
  RC_ASSERT(holds_every_item_once(Partition(as_one_group), drawn.lengths.size()));
}

RC_GTEST_PROP(PlanPaddedBatches, never_passes_the_cap_and_counts_what_the_pipeline_needs, ()) {
  const RandomCase drawn = random_case();
  const PaddedBatches batches = plan_padded_batches(drawn.lengths, drawn.settings);
  RC_ASSERT(!batches.micro_batches.empty());
  RC_ASSERT(static_cast<std::int64_t>(batches.micro_batches.size()) % drawn.settings.count_multiple == 0);
  for (std::size_t m = 0; m < batches.micro_batches.size(); ++m) {
    const PaddedMicroBatch& micro_batch = batches.micro_batches[m];
    RC_ASSERT(micro_batch.padded_length > 0);
    RC_ASSERT(micro_batch.padded_length % drawn.settings.length_round == 0);
    RC_ASSERT(micro_batch.positions.size() * micro_batch.padded_length <= drawn.settings.max_tokens);
    for (int rank = 0; rank < drawn.settings.dp; ++rank) {
      for (const Item item : batches.samples(DpRank{rank}, static_cast<std::int64_t>(m))) {
        RC_ASSERT(drawn.lengths[static_cast<std::size_t>(item)] <= micro_batch.padded_length);
      }
    }
  }
}

}  // namespace
}  // namespace evenkeel
