#include "pack/derived_fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "evenkeel/base/error.hpp"
#include "pack/arbitrary.hpp"
#include "pack/pack_rows.hpp"
#include "pack/zigzag2.hpp"

namespace evenkeel {
namespace {

using Integers = std::vector<std::int64_t>;
using test::zigzag2;
using testing::ElementsAre;

constexpr std::int64_t label_pad = -100;

template <typename T>
std::vector<T> local_vector(const PackedLayout& layout, T value) {
  return std::vector<T>(static_cast<std::size_t>(layout.local_rows()), value);
}

/// Token t of sequence i is 1000 * i + t, so every token is unique.
Integers numbered_tokens(const PackedLayout& layout) {
  Integers tokens;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    for (std::int64_t t = 0; t < layout.length(i); ++t) tokens.push_back(1000 * i + t);
  }
  return tokens;
}

Integers packed(const PackedLayout& layout, CpRank rank, const Integers& ragged) {
  Integers local = local_vector<std::int64_t>(layout, -1);
  pack_rows(layout, rank, std::as_bytes(std::span(ragged)), {}, std::as_writable_bytes(std::span(local)));
  return local;
}

/// Returns the token after each run; garbage if the run ends its sequence, because it must be ignored.
Integers make_halo_route(const PackedLayout& layout, CpRank rank) {
  Integers halo;
  for (const PackedRun& run : packed_runs(layout, rank)) {
    const bool ends = run.sequence.end == layout.length(run.index);
    halo.push_back(ends ? -777 : 1000 * run.index + run.sequence.end);
  }
  return halo;
}

Integers labels_of(const PackedLayout& layout, CpRank rank) {
  Integers labels = local_vector<std::int64_t>(layout, -1);
  derive_labels(layout, rank, packed(layout, rank, numbered_tokens(layout)), make_halo_route(layout, rank),
                label_pad, labels);
  return labels;
}

/// Calls check(local row, sequence, row in the aligned sequence) for every row of a rank.
template <typename Check>
void for_each_local_row(const PackedLayout& layout, CpRank rank, Check check) {
  std::size_t local = 0;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    for (const RowRange& run : cp_runs(layout.aligned_length(i), layout.cp(), rank)) {
      for (std::int64_t t = run.begin; t < run.end; ++t) check(local++, i, t);
    }
  }
}

TEST(PositionIds, restart_in_every_sequence_and_continue_through_its_padding) {
  const PackedLayout layout(Lengths{3, 2, 2}, 4, {});
  Integers positions = local_vector<std::int64_t>(layout, -1);
  derive_position_ids(layout, CpRank{0}, positions);
  EXPECT_THAT(positions, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
}

TEST(PositionIds, match_the_chunks_of_a_rank) {
  const PackedLayout layout(Lengths{6, 3}, 4, zigzag2);
  Integers positions = local_vector<std::int64_t>(layout, -1);
  derive_position_ids(layout, CpRank{0}, positions);
  EXPECT_THAT(positions, ElementsAre(0, 1, 6, 7, 0, 3));
}

RC_GTEST_PROP(PositionIds, are_the_rows_within_the_aligned_sequence, ()) {
  const PackedLayout layout = arbitrary_layout();
  for (const CpRank rank : all_ranks(layout.cp())) {
    Integers positions = local_vector<std::int64_t>(layout, -1);
    derive_position_ids(layout, rank, positions);
    for_each_local_row(layout, rank, [&](std::size_t local, std::int64_t, std::int64_t t) {
      RC_ASSERT(positions[local] == t);
    });
  }
}

TEST(Labels, are_the_next_token_or_the_pad_at_the_end) {
  const PackedLayout layout(Lengths{3, 1}, 4, {});
  EXPECT_THAT(labels_of(layout, CpRank{0}),
              ElementsAre(1, 2, label_pad, label_pad, label_pad, label_pad, label_pad, label_pad));
}

TEST(Labels, at_a_cut_come_from_the_halo) {
  const PackedLayout layout(Lengths{8}, 4, zigzag2);
  EXPECT_THAT(labels_of(layout, CpRank{0}), ElementsAre(1, 2, 7, label_pad));
  EXPECT_THAT(labels_of(layout, CpRank{1}), ElementsAre(3, 4, 5, 6));
}

TEST(Labels, ignore_the_halo_at_the_end_of_a_sequence) {
  const PackedLayout layout(Lengths{2}, 8, zigzag2);
  EXPECT_THAT(labels_of(layout, CpRank{0}), ElementsAre(1, label_pad, label_pad, label_pad));
}

RC_GTEST_PROP(Labels, merged_over_all_ranks_are_the_next_token_of_the_whole_sequence, ()) {
  const PackedLayout layout = arbitrary_layout();
  for (const CpRank rank : all_ranks(layout.cp())) {
    const Integers labels = labels_of(layout, rank);
    for_each_local_row(layout, rank, [&](std::size_t local, std::int64_t i, std::int64_t t) {
      RC_ASSERT(labels[local] == (t + 1 < layout.length(i) ? 1000 * i + t + 1 : label_pad));
    });
  }
}

TEST(LossMask, is_one_where_the_label_is_a_response_token) {
  const PackedLayout layout(Lengths{5}, 8, {});
  std::vector<float> mask = local_vector(layout, -1.0F);
  derive_loss_mask(layout, CpRank{0}, Integers{2}, mask);
  EXPECT_THAT(mask, ElementsAre(0, 1, 1, 1, 0, 0, 0, 0));
}

TEST(LossMask, without_a_prompt_excludes_the_first_token) {
  const PackedLayout layout(Lengths{3}, 4, {});
  std::vector<float> mask = local_vector(layout, -1.0F);
  derive_loss_mask(layout, CpRank{0}, Integers{0}, mask);
  EXPECT_THAT(mask, ElementsAre(1, 1, 0, 0));
}

TEST(LossMask, of_a_sequence_that_is_all_prompt_is_zero) {
  const PackedLayout layout(Lengths{3, 0, 1}, 4, {});
  std::vector<float> mask = local_vector(layout, -1.0F);
  derive_loss_mask(layout, CpRank{0}, Integers{3, 0, 0}, mask);
  EXPECT_THAT(mask, testing::Each(0.0F));
}

RC_GTEST_PROP(LossMask, merged_over_all_ranks_is_the_definition_on_the_whole_sequence, ()) {
  const PackedLayout layout = arbitrary_layout();
  Integers prompts;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    prompts.push_back(*rc::gen::inRange<std::int64_t>(0, layout.length(i) + 1));
  }
  for (const CpRank rank : all_ranks(layout.cp())) {
    std::vector<float> mask = local_vector(layout, -1.0F);
    derive_loss_mask(layout, rank, prompts, mask);
    for_each_local_row(layout, rank, [&](std::size_t local, std::int64_t i, std::int64_t t) {
      const bool counts = prompts[static_cast<std::size_t>(i)] <= t + 1 && t + 1 < layout.length(i);
      RC_ASSERT(mask[local] == (counts ? 1.0F : 0.0F));
    });
  }
}

TEST(DerivedFields, are_empty_for_an_empty_layout) {
  EXPECT_NO_THROW(derive_position_ids(PackedLayout(), CpRank{0}, {}));
  EXPECT_NO_THROW(derive_labels(PackedLayout(), CpRank{0}, {}, {}, label_pad, {}));
  EXPECT_NO_THROW(derive_loss_mask(PackedLayout(), CpRank{0}, {}, {}));
}

TEST(DerivedFields, reject_buffers_of_the_wrong_size) {
  const PackedLayout layout(Lengths{8}, 4, zigzag2);  // 4 rows and, on rank 0, 2 runs
  Integers four(4);
  Integers three(3);
  std::vector<float> floats(3);
  EXPECT_THROW(derive_position_ids(layout, CpRank{0}, three), InputError);
  EXPECT_THROW(derive_labels(layout, CpRank{0}, four, Integers(1), label_pad, four), InputError);
  EXPECT_THROW(derive_labels(layout, CpRank{0}, three, Integers(2), label_pad, four), InputError);
  EXPECT_THROW(derive_labels(layout, CpRank{0}, four, Integers(2), label_pad, three), InputError);
  EXPECT_THROW(derive_loss_mask(layout, CpRank{0}, Integers(1), floats), InputError);
  floats.resize(4);
  EXPECT_THROW(derive_loss_mask(layout, CpRank{0}, Integers(2), floats), InputError);
}

TEST(DerivedFields, a_prompt_longer_than_its_sequence_is_an_error_that_names_it) {
  const PackedLayout layout(Lengths{4, 2}, 4, {});
  std::vector<float> mask(8);
  try {
    derive_loss_mask(layout, CpRank{0}, Integers{1, 3}, mask);
    FAIL() << "a prompt of 3 tokens does not fit in a sequence of 2";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("sequence 1"));
    EXPECT_THAT(error.what(), testing::HasSubstr("prompt of 3"));
  }
}

TEST(LossWeights, are_the_weight_of_the_sequence_where_the_mask_is_set) {
  const PackedLayout layout(Lengths{3, 2}, 4, {});
  std::vector<float> weights = local_vector(layout, -1.0F);
  derive_loss_weights(layout, std::vector<double>{0.5, 0.25},
                      std::vector<std::uint8_t>{0, 1, 7, 0, 1, 0, 0, 0}, weights);
  EXPECT_THAT(weights, ElementsAre(0, 0.5F, 0.5F, 0, 0.25F, 0, 0, 0));
}

TEST(LossWeights, of_filler_are_zero) {
  const PackedLayout layout(Lengths{0, 2}, std::vector<std::int64_t>{4, 4}, 4, {});
  std::vector<float> weights = local_vector(layout, -1.0F);
  derive_loss_weights(layout, {}, std::vector<std::uint8_t>(8, 1), weights);
  EXPECT_THAT(weights, testing::Each(0.0F));
}

TEST(LossWeights, reject_more_weights_than_sequences) {
  const PackedLayout layout(Lengths{2}, 4, {});
  std::vector<float> weights = local_vector(layout, -1.0F);
  EXPECT_THROW(derive_loss_weights(layout, std::vector<double>{1, 1}, std::vector<std::uint8_t>(4), weights),
               InputError);
}

}  // namespace
}  // namespace evenkeel
