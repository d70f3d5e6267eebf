#include "plan/reference/micro_batches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "support/reference_micro_batches.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::reference_micro_batches_of_ranks;

using Lengths = std::vector<std::int64_t>;
using Groups = std::vector<std::vector<Item>>;

template <typename Batching>
Groups alone(const Lengths& lengths, const Batching& batching) {
  return reference_micro_batches_of_ranks(std::span<const Lengths>(&lengths, 1), batching)
      .front()
      .to_vectors();
}

template <typename Batching>
Lengths sums(const Lengths& lengths, const Batching& batching) {
  const Groups groups = alone(lengths, batching);
  return group_sums(Partition(groups), lengths);
}

// These presets do not keep the cap; plan_step() keeps it for the same inputs (see micro_batches_test).
TEST(MindSpeedBatching, repeats_the_micro_batch_above_the_cap) {
  EXPECT_THAT(sums({2, 3, 3, 4, 6, 6, 6, 8}, MindSpeedBatching{13, {}}), ElementsAre(14, 12, 12));
}

TEST(MindSpeedBatching, reads_max_samples_as_a_count_of_micro_batches_only) {
  const Groups groups = alone({1, 1, 1, 3}, MindSpeedBatching{6, 2});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].size(), 3U);
}

// MindSpeed-RL's document: [1,2,2,5,3,7,6,3] in four micro-batches.
TEST(MindSpeedBatching, counts_four_for_the_documents_example) {
  EXPECT_EQ(reference_count(Lengths{1, 2, 2, 5, 3, 7, 6, 3}, MindSpeedBatching{8, {}}), 4);
}

// golden/README row 4.
TEST(MindSpeedBatching, adds_empty_micro_batches_for_a_sample_above_the_cap) {
  EXPECT_EQ(alone({2}, MindSpeedBatching{1, {}}), (Groups{{0}, {}, {}}));
}

TEST(MindSpeedBatching, accepts_empty_batches_and_samples_without_tokens) {
  EXPECT_EQ(alone({}, MindSpeedBatching{8, {}}), (Groups{{}}));
  EXPECT_EQ(alone({0, 0}, MindSpeedBatching{8, {}}).size(), 1U);
}

// Rows 7 and 8: two micro-batches for three samples of 2 under a cap of 3; more micro-batches than samples.
TEST(VerlBatching, repeats_the_count_that_ignores_the_cap) {
  EXPECT_EQ(alone({2, 2, 2}, VerlBatching{3}).size(), 2U);
}

TEST(VerlBatching, has_empty_micro_batches_where_verl_asserts) {
  EXPECT_EQ(alone({1}, VerlBatching{1, 2, 1, true}), (Groups{{0}, {}}));
  EXPECT_EQ(alone({1}, VerlBatching{1, 1, 2, false}), (Groups{{0}, {}}));
}

TEST(VerlBatching, puts_cheap_micro_batches_at_both_ends_on_request) {
  EXPECT_EQ(alone({5, 4, 3, 2, 1}, VerlBatching{5, 5, 1, true}), (Groups{{4}, {2}, {0}, {1}, {3}}));
  EXPECT_EQ(alone({5, 4, 3, 2, 1}, VerlBatching{5, 5, 1, false}), (Groups{{0}, {1}, {2}, {3}, {4}}));
}

TEST(VerlBatching, names_the_sample_above_the_cap) {
  try {
    (void)reference_count(Lengths{3, 9}, VerlBatching{8});
    FAIL() << "9 tokens are above 8";
  } catch (const LimitError& error) {
    EXPECT_EQ(error.report().where, "sample 1");
    EXPECT_THAT(error.what(), HasSubstr("above the cap of 8"));
  }
}

// Row 9: the reference rejects a cap below its padded width; only actual lengths count here.
TEST(VerlBatching, accepts_a_cap_below_the_width_of_the_padded_tensor) {
  EXPECT_EQ(alone({1}, VerlBatching{1}), (Groups{{0}}));
}

// Row 12: [16,16,16] under a cap of 24 gives 32 tokens together.
TEST(RollPacking, repeats_the_count_that_ignores_the_cap) {
  EXPECT_EQ(alone({16, 16, 16}, RollPacking{24}), (Groups{{0, 1}, {2}}));
}

// ROLL's document: four samples at CP 2 and TP 1, aligned to 4; ROLL's code aligns to 16.
TEST(RollPacking, counts_by_aligned_lengths) {
  const Lengths documented{2, 4, 6, 1};
  EXPECT_EQ(reference_count(documented, RollPacking{20, 1, 1, 4}), 1);
  EXPECT_EQ(
      reference_count(documented, RollPacking{20, 1, 1, sequence_alignment(1, {2, CpLayout::zigzag}, 16)}),
      4);
}

// Row 13: the reference fails an assertion if virtual stages or the minimum require more micro-batches than
// samples.
TEST(RollPacking, has_empty_micro_batches_where_roll_asserts) {
  EXPECT_EQ(alone({3}, RollPacking{64, 1, 2, 16}).size(), 2U);
  EXPECT_EQ(alone({3, 4}, RollPacking{64, 3, 1, 16}).size(), 3U);
}

TEST(ReferenceMicroBatches, all_ranks_take_the_largest_count) {
  const std::vector<Lengths> ranks{{16, 16, 16}, {64, 64, 64}};
  for (const Partition& p : reference_micro_batches_of_ranks(std::span(ranks), RollPacking{64})) {
    EXPECT_EQ(p.size(), 3);
  }
}

TEST(ReferenceMicroBatches, reject_settings_below_one_and_lengths_below_zero) {
  const Lengths one{1};
  EXPECT_THROW((void)reference_count(one, MindSpeedBatching{0, {}}), ConfigError);
  EXPECT_THROW((void)reference_count(one, MindSpeedBatching{8, 0}), ConfigError);
  EXPECT_THROW((void)reference_count(one, VerlBatching{0}), ConfigError);
  EXPECT_THROW((void)reference_count(one, VerlBatching{8, 0}), ConfigError);
  EXPECT_THROW((void)reference_count(one, RollPacking{8, 1, 0, 16}), ConfigError);
  EXPECT_THROW((void)reference_count(one, RollPacking{8, 1, 1, 0}), ConfigError);
  EXPECT_THROW((void)reference_count(Lengths{-1}, MindSpeedBatching{8, {}}), InputError);
  EXPECT_THROW((void)reference_count(Lengths{-1}, VerlBatching{8}), InputError);
  EXPECT_THROW((void)reference_count(Lengths{-1}, RollPacking{8}), InputError);
  EXPECT_THROW((void)reference_micro_batches(Lengths{-1}, 1, RollPacking{}), InputError);
}

template <typename Batching>
void check_ranks(const std::vector<Lengths>& ranks, const Batching& batching, std::int64_t multiple,
                 std::int64_t least) {
  const std::vector<Partition> planned = reference_micro_batches_of_ranks(std::span(ranks), batching);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    RC_ASSERT(planned[r].size() == planned[0].size());
    RC_ASSERT(planned[r].size() % multiple == 0);
    RC_ASSERT(planned[r].size() >= least);
    RC_ASSERT(holds_every_item_once(planned[r], ranks[r].size()));
  }
}

RC_GTEST_PROP(ReferenceMicroBatches, hold_every_sample_once_in_equal_counts_on_all_ranks, ()) {
  const auto dp = *rc::gen::inRange<std::size_t>(1, 5);
  const auto ranks = *rc::gen::container<std::vector<Lengths>>(
      dp, rc::gen::container<Lengths>(rc::gen::inRange<std::int64_t>(0, 500)));
  const auto cap = *rc::gen::inRange<std::int64_t>(500, 4000);
  const auto least = *rc::gen::inRange<std::int64_t>(1, 5);
  const auto multiple = *rc::gen::inRange<std::int64_t>(1, 5);
  check_ranks(ranks, MindSpeedBatching{cap, *rc::gen::inRange<std::int64_t>(1, 9)}, 1, 1);
  check_ranks(ranks, VerlBatching{cap, least, multiple, *rc::gen::arbitrary<bool>()}, multiple, least);
  check_ranks(ranks, RollPacking{cap, least, multiple, 16}, multiple, least);
}

}  // namespace
}  // namespace evenkeel
