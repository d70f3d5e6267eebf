#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "pack/arbitrary.hpp"
#include "pack/derived_fields.hpp"
#include "pack/zigzag2.hpp"

namespace evenkeel {
namespace {

using test::zigzag2;
using testing::Each;
using testing::ElementsAre;

using Numbers = std::vector<std::int64_t>;
constexpr std::int64_t pad = -7;

/// Token t of sequence i.
std::int64_t numbered(std::int64_t sequence, std::int64_t t) {
  return 1000 * sequence + t;
}

/// A rank's tokens, and the `reach` tokens after each of its runs; garbage after the end of the sequence.
struct RankTokens {
  Numbers local;
  Numbers halo;
};
RankTokens tokens_of(const PackedLayout& layout, CpRank rank, std::int64_t reach) {
  RankTokens tokens{Numbers(static_cast<std::size_t>(layout.local_rows()), pad), {}};
  for (const PackedRun& run : packed_runs(layout, rank)) {
    for (std::int64_t i = 0; i < run.sequence.size(); ++i)
      tokens.local[static_cast<std::size_t>(run.local + i)] = numbered(run.index, run.sequence.begin + i);
    for (std::int64_t t = run.sequence.end; t < run.sequence.end + reach; ++t)
      tokens.halo.push_back(t < layout.length(run.index) ? numbered(run.index, t) : -777);
  }
  return tokens;
}

Numbers ahead_of(const PackedLayout& layout, CpRank rank, std::int64_t reach, std::int64_t ahead) {
  const RankTokens tokens = tokens_of(layout, rank, reach);
  Numbers out(tokens.local.size(), -1);
  derive_tokens_ahead(layout, rank, tokens.local, tokens.halo, reach, ahead, pad, out);
  return out;
}

TEST(TokensAhead, come_from_the_halo_where_another_rank_has_them) {
  const PackedLayout layout(Lengths{7}, 4, zigzag2);  // 0 1 | 2 3 4 5 | 6 and pad
  EXPECT_THAT(ahead_of(layout, CpRank{0}, 3, 3), ElementsAre(3, 4, pad, pad));
  EXPECT_THAT(ahead_of(layout, CpRank{1}, 3, 3), ElementsAre(5, 6, pad, pad));
  EXPECT_THAT(ahead_of(layout, CpRank{1}, 3, 1), ElementsAre(3, 4, 5, 6));
}

RC_GTEST_PROP(TokensAhead, are_the_tokens_that_many_rows_later_in_the_sequence, ()) {
  const PackedLayout layout = arbitrary_layout();
  const auto reach = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto ahead = *rc::gen::inRange<std::int64_t>(1, reach + 1);
  for (const CpRank rank : all_ranks(layout.cp())) {
    const Numbers found = ahead_of(layout, rank, reach, ahead);
    Numbers expected(found.size(), pad);
    for (const PackedRun& run : packed_runs(layout, rank)) {
      for (std::int64_t i = 0; i < run.sequence.size(); ++i) {
        const std::int64_t t = run.sequence.begin + i + ahead;
        if (t < layout.length(run.index))
          expected[static_cast<std::size_t>(run.local + i)] = numbered(run.index, t);
      }
    }
    RC_ASSERT(found == expected);
  }
}

RC_GTEST_PROP(LossMaskAhead, is_set_if_the_token_that_many_rows_after_the_label_is_a_response_token, ()) {
  const PackedLayout layout = arbitrary_layout();
  const auto ahead = *rc::gen::inRange<std::int64_t>(0, 6);
  Lengths prompts;
  for (std::int64_t i = 0; i < layout.size(); ++i)
    prompts.push_back(*rc::gen::inRange<std::int64_t>(0, layout.length(i) + 1));
  for (const CpRank rank : all_ranks(layout.cp())) {
    std::vector<float> found(static_cast<std::size_t>(layout.local_rows()), 9);
    derive_loss_mask(layout, rank, prompts, found, ahead);
    std::vector<float> expected(found.size(), 0);
    for (const PackedRun& run : packed_runs(layout, rank)) {
      for (std::int64_t i = 0; i < run.sequence.size(); ++i) {
        const std::int64_t t = run.sequence.begin + i + 1 + ahead;
        const bool counts = t >= prompts[static_cast<std::size_t>(run.index)] && t < layout.length(run.index);
        expected[static_cast<std::size_t>(run.local + i)] = counts ? 1 : 0;
      }
    }
    RC_ASSERT(found == expected);
  }
}

/// Returns a sample of 4 tokens, 2 in the prompt and 2 in the response, on rank 0 of two, with fields derived
/// for two tokens ahead.
PackedMicroBatch completed(std::vector<SampleShape> samples, const DerivedFieldSettings& settings) {
  PackedMicroBatch m = lay_out(std::move(samples), {4, 0, zigzag2, {}}, CpRank{0});
  const RankTokens tokens = tokens_of(m.layout, m.cp_rank, settings.reach());
  m.fields.emplace_back(FieldSpec{std::string(input_ids_field), DType::int64, FieldKind::token, {}},
                        m.layout.local_rows());
  std::ranges::copy(tokens.local, m.fields.back().values<std::int64_t>().begin());
  complete_fields(m, {}, tokens.halo, settings);
  return m;
}

std::vector<std::int64_t> integers_of(const PackedMicroBatch& m, std::string_view name) {
  const auto values = m.find(name)->values<std::int64_t>();
  return {values.begin(), values.end()};
}

std::vector<float> floats_of(const PackedMicroBatch& m, std::string_view name) {
  const auto values = m.find(name)->values<float>();
  return {values.begin(), values.end()};
}

TEST(CompletedFields, have_the_tokens_ahead_at_each_depth) {
  const PackedMicroBatch m = completed({{SampleId{3}, 0, 2, 2}}, {pad, -100, 2, false});
  EXPECT_THAT(integers_of(m, "input_ids"), ElementsAre(0, 3));
  EXPECT_THAT(integers_of(m, "labels"), ElementsAre(1, -100));
  EXPECT_THAT(integers_of(m, "input_ids@1"), ElementsAre(1, pad));
  EXPECT_THAT(integers_of(m, "labels@1"), ElementsAre(2, -100));
  EXPECT_THAT(integers_of(m, "labels@2"), ElementsAre(3, -100));
  EXPECT_THAT(floats_of(m, "loss_mask"), ElementsAre(0, 0));
  EXPECT_THAT(floats_of(m, "loss_mask@1"), ElementsAre(1, 0));
  EXPECT_THAT(floats_of(m, "loss_mask@2"), ElementsAre(1, 0));
  EXPECT_EQ(m.find("labels@3"), nullptr);
  EXPECT_EQ(m.find("padding_mask"), nullptr);
}

TEST(CompletedFields, of_filler_carry_no_loss_at_any_depth) {
  const PackedMicroBatch m = completed({}, {pad, -100, 1, true});
  EXPECT_THAT(integers_of(m, "input_ids@1"), Each(pad));
  EXPECT_THAT(integers_of(m, "labels@1"), Each(-100));
  EXPECT_THAT(floats_of(m, "loss_mask@1"), Each(0));
  EXPECT_THAT(m.find("padding_mask")->bytes(), Each(std::byte{1}));
}

TEST(CompletedFields, have_a_padding_mask_that_is_true_in_pad_rows) {
  const PackedMicroBatch m = completed({{SampleId{3}, 0, 2, 5}}, {pad, -100, 0, true});  // rows 0 1 6 7
  EXPECT_EQ(m.find("padding_mask")->spec().dtype, DType::boolean);
  EXPECT_THAT(m.find("padding_mask")->bytes(),
              ElementsAre(std::byte{0}, std::byte{0}, std::byte{0}, std::byte{1}));
}

TEST(SpreadPadRows, are_routed_to_experts_in_turn_without_changing_tokens) {
  const PackedLayout layout(Lengths{1, 5}, 4, zigzag2);  // rank 0: 0 and pad, 0 1 and two pads
  std::vector<std::int16_t> routes(6 * 4, -1);           // for two layers with two experts each
  spread_routes_of_pad_rows<std::int16_t>(layout, CpRank{0}, false, 4, 2, 5, routes);
  EXPECT_THAT(routes, ElementsAre(-1, -1, -1, -1, 0, 1, 0, 1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 3, 2, 3, 4,
                                  0, 4, 0));
}

RC_GTEST_PROP(SpreadPadRows, give_all_experts_of_a_rank_as_many_to_within_one, ()) {
  const PackedLayout layout = arbitrary_layout();
  const auto experts = *rc::gen::inRange<std::int64_t>(1, 12);
  const auto slots = *rc::gen::inRange<std::int64_t>(1, experts + 1);
  for (const CpRank rank : all_ranks(layout.cp())) {
    Numbers routes(static_cast<std::size_t>(layout.local_rows() * slots), -1);
    spread_routes_of_pad_rows<std::int64_t>(layout, rank, false, slots, slots, experts, routes);
    Numbers loads(static_cast<std::size_t>(experts));
    std::int64_t pads = layout.local_rows();
    for (const PackedRun& run : packed_runs(layout, rank)) pads -= run.sequence.size();
    for (const std::int64_t expert : routes)
      if (expert >= 0) ++loads.at(static_cast<std::size_t>(expert));
    const auto [least, most] = std::ranges::minmax(loads);
    RC_ASSERT(most - least <= 1);
    RC_ASSERT(std::ranges::count(routes, -1) == (layout.local_rows() - pads) * slots);
  }
}

TEST(PackedLayoutLengths, the_longest_true_length_excludes_padding) {
  const PackedLayout layout(Lengths{2, 5, 0}, 4, zigzag2);
  EXPECT_EQ(layout.max_length(), 5);
  EXPECT_EQ(layout.with_shape({10, 7, 16, 2}).max_length(), 5);
  EXPECT_EQ(PackedLayout().max_length(), 0);
}

}  // namespace
}  // namespace evenkeel
