#include "io/samples/synthetic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "io/jsonl/jsonl.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::report_of;
using testing_support::scan_whole;
using testing_support::TemporaryFile;

std::vector<SampleId> all_ids(const SyntheticSpec& spec) {
  std::vector<SampleId> ids;
  for (std::int64_t i = 0; i < spec.samples(); ++i) ids.emplace_back(i);
  return ids;
}

SyntheticSpec small_spec() {
  SyntheticSpec spec;
  spec.prompts = 6;
  spec.group_size = 4;
  spec.vocab_size = 100;
  spec.prompt_length = {10, 0.5, 2, 40};
  spec.response_length = {20, 1.0, 1, 100};
  return spec;
}

template <typename T>
std::vector<T> values_of(const RaggedBatch& batch, std::string_view field, std::int64_t sample) {
  const Column& column = batch.at(field);
  const RowRange rows = batch.rows_of(column, sample);
  const auto values = column.values<T>();
  return {values.begin() + rows.begin, values.begin() + rows.end};
}

TEST(Synthetic, the_numbers_are_the_same_on_every_platform) {
  const RaggedBatch batch =
      synthetic_samples({}, std::vector<SampleId>{SampleId{0}, SampleId{1}, SampleId{8191}});
  std::vector<std::int64_t> prompts;
  std::vector<std::int64_t> responses;
  for (const SampleShape& shape : batch.samples()) {
    prompts.push_back(shape.prompt);
    responses.push_back(shape.response);
  }
  EXPECT_THAT(prompts, ElementsAre(198, 198, 469));
  EXPECT_THAT(responses, ElementsAre(1562, 550, 6821));
  EXPECT_EQ(batch.at("input_ids").values<std::int64_t>().front(), 16294);
  EXPECT_EQ(batch.at("input_ids").values<std::int64_t>().back(), 14568);
}

TEST(Synthetic, samples_of_a_group_share_the_prompt_and_differ_in_the_response) {
  const SyntheticSpec spec = small_spec();
  const RaggedBatch batch = synthetic_samples(spec, all_ids(spec));
  ASSERT_EQ(batch.size(), 24);
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& shape = batch.samples()[static_cast<std::size_t>(i)];
    const std::int64_t first = i / 4 * 4;
    const SampleShape& leader = batch.samples()[static_cast<std::size_t>(first)];
    EXPECT_EQ(shape.id, SampleId{i});
    EXPECT_EQ(shape.group, static_cast<std::uint64_t>(i / 4));
    ASSERT_EQ(shape.prompt, leader.prompt);
    const auto mine = values_of<std::int64_t>(batch, "input_ids", i);
    const auto theirs = values_of<std::int64_t>(batch, "input_ids", first);
    EXPECT_TRUE(std::equal(mine.begin(), mine.begin() + shape.prompt, theirs.begin()));
    if (i == first) continue;
    EXPECT_NE(mine, theirs);
  }
}

TEST(Synthetic, tokens_are_in_the_vocabulary_and_lengths_in_their_bounds) {
  const SyntheticSpec spec = small_spec();
  const RaggedBatch batch = synthetic_samples(spec, all_ids(spec));
  EXPECT_THAT(batch.at("input_ids").values<std::int64_t>(),
              Each(testing::AllOf(testing::Ge(0), testing::Lt(100))));
  for (const SampleShape& shape : batch.samples()) {
    EXPECT_THAT(shape.prompt, testing::AllOf(testing::Ge(2), testing::Le(40)));
    EXPECT_THAT(shape.response, testing::AllOf(testing::Ge(1), testing::Le(100)));
  }
}

TEST(Synthetic, lengths_have_the_requested_median_and_spread) {
  SyntheticSpec spec;
  spec.prompts = 5000;
  spec.group_size = 4;
  spec.response_length = {1000, 0.8, 0, std::int64_t{1} << 40};
  double sum = 0;
  double squares = 0;
  std::int64_t below = 0;
  for (const SampleId id : all_ids(spec)) {
    const std::int64_t response = synthetic_shape(spec, id).response;
    const double log = std::log(static_cast<double>(response) / 1000);
    sum += log;
    squares += log * log;
    below += response < 1000 ? 1 : 0;
  }
  const auto count = static_cast<double>(spec.samples());
  EXPECT_NEAR(static_cast<double>(below) / count, 0.5, 0.02);
  EXPECT_NEAR(sum / count, 0.0, 0.03);
  EXPECT_NEAR(std::sqrt(squares / count), 0.8, 0.03);
}

TEST(Synthetic, without_spread_every_length_is_the_median_within_the_bounds) {
  SyntheticSpec spec = small_spec();
  spec.prompt_length = {7, 0, 0, 100};
  spec.response_length = {1000, 0, 0, 100};
  EXPECT_EQ(synthetic_shape(spec, SampleId{3}).prompt, 7);
  EXPECT_EQ(synthetic_shape(spec, SampleId{3}).response, 100);
}

TEST(Synthetic, advantages_are_the_groups_normalized_rewards_plus_noise_per_token) {
  const SyntheticSpec spec = small_spec();
  const RaggedBatch batch = synthetic_samples(spec, all_ids(spec));
  const auto rewards = batch.at("reward").values<float>();
  EXPECT_THAT(rewards, Each(testing::AnyOf(0.0F, 1.0F)));
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const auto group = rewards.subspan(static_cast<std::size_t>(i / 4 * 4), 4);
    const float mean = std::accumulate(group.begin(), group.end(), 0.0F) / 4;
    const float deviation = std::sqrt(mean * (1 - mean));
    const float expected = deviation == 0 ? 0 : (rewards[static_cast<std::size_t>(i)] - mean) / deviation;
    EXPECT_THAT(values_of<float>(batch, "advantages", i), Each(testing::FloatNear(expected, 0.04F)));
  }
  const auto advantages = values_of<float>(batch, "advantages", 0);
  EXPECT_EQ(std::ranges::count(advantages, advantages.front()), 1) << "tokens can be told apart";
}

RC_GTEST_PROP(Synthetic, a_sample_does_not_depend_on_who_asks_for_it, ()) {
  SyntheticSpec spec = small_spec();
  spec.seed = *rc::gen::arbitrary<std::uint64_t>();
  const RaggedBatch whole = synthetic_samples(spec, all_ids(spec));
  const auto chosen = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 24));
  std::vector<SampleId> ids;
  for (const std::int64_t id : chosen) ids.emplace_back(id);
  const RaggedBatch part = synthetic_samples(spec, ids);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    RC_ASSERT(part.samples()[i] == whole.samples()[static_cast<std::size_t>(chosen[i])]);
    RC_ASSERT(part.samples()[i] == synthetic_shape(spec, ids[i]));
    RC_ASSERT(values_of<std::int64_t>(part, "input_ids", at) ==
              values_of<std::int64_t>(whole, "input_ids", chosen[i]));
    RC_ASSERT(values_of<float>(part, "advantages", at) == values_of<float>(whole, "advantages", chosen[i]));
    RC_ASSERT(values_of<float>(part, "reward", at) == values_of<float>(whole, "reward", chosen[i]));
  }
}

TEST(Synthetic, another_seed_gives_other_samples) {
  SyntheticSpec spec = small_spec();
  const RaggedBatch one = synthetic_samples(spec, all_ids(spec));
  spec.seed = 2;
  const RaggedBatch two = synthetic_samples(spec, all_ids(spec));
  EXPECT_FALSE(std::ranges::equal(one.samples(), two.samples()));
}

TEST(Synthetic, survives_a_trip_through_jsonl) {
  SyntheticSpec spec = small_spec();
  const RaggedBatch batch = synthetic_samples(spec, all_ids(spec));
  const TemporaryFile file(".jsonl");
  JsonlWriter writer(file.path());
  writer.write(batch);
  writer.close();
  const std::vector<LineRef> lines = scan_whole(file.path()).lines;
  const RaggedBatch read =
      read_samples(InputFile(file.path()), lines, infer_schema(InputFile(file.path()), lines));
  EXPECT_TRUE(std::ranges::equal(read.samples(), batch.samples()));
  for (const Column& column : batch.fields())
    EXPECT_EQ(read.at(column.spec().name), column) << column.spec().name;
}

TEST(Synthetic, a_sample_number_out_of_range_is_an_error) {
  const SyntheticSpec spec = small_spec();
  EXPECT_THROW((void)synthetic_shape(spec, SampleId{24}), InputError);
  EXPECT_THROW((void)synthetic_samples(spec, std::vector{SampleId{-1}}), InputError);
  SyntheticSpec none;
  none.prompts = 0;
  EXPECT_EQ(synthetic_samples(none, {}).size(), 0);
}

TEST(Synthetic, a_member_out_of_range_is_named) {
  const auto wrong = [](auto change) {
    SyntheticSpec spec;
    change(spec);
    return report_of<ConfigError>([&] { validate(spec); }).where;
  };
  EXPECT_EQ(wrong([](SyntheticSpec& s) { s.prompts = -1; }), "prompts");
  EXPECT_EQ(wrong([](SyntheticSpec& s) { s.group_size = 0; }), "group_size");
  EXPECT_EQ(wrong([](SyntheticSpec& s) { s.vocab_size = 0; }), "vocab_size");
  EXPECT_EQ(wrong([](SyntheticSpec& s) { s.prompt_length.median = 0; }), "prompt_length.median");
  EXPECT_EQ(wrong([](SyntheticSpec& s) { s.prompt_length.median = std::nan(""); }), "prompt_length.median");
  EXPECT_EQ(wrong([](SyntheticSpec& s) { s.response_length.sigma = -0.1; }), "response_length.sigma");
  EXPECT_EQ(wrong([](SyntheticSpec& s) { s.response_length.sigma = std::nan(""); }), "response_length.sigma");
  EXPECT_EQ(wrong([](SyntheticSpec& s) { s.prompt_length.min = -1; }), "prompt_length.min");
  EXPECT_EQ(wrong([](SyntheticSpec& s) { s.prompt_length.max = 15; }), "prompt_length.max");
  validate(SyntheticSpec{});
}

}  // namespace
}  // namespace evenkeel
