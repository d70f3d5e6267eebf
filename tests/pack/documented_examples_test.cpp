#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/pack/padded.hpp"
#include "pack/arbitrary.hpp"
#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using Tokens = std::vector<std::int64_t>;

constexpr std::int64_t p = -1;  // the pad token of the examples

/// ROLL's packing document, section 2.2.3: four samples padded to 8 columns, CP size 2, TP size 1.
class RollPackingExample : public testing::Test {
 protected:
  const CpGroup cp{2, CpLayout::zigzag};
  const Tokens padded{0, 0, p, p, p, p, p, p,  //
                      1, 1, 1, 1, p, p, p, p,  //
                      2, 2, 2, 2, 2, 2, p, p,  //
                      3, p, p, p, p, p, p, p};
  const std::vector<std::uint8_t> entries{1, 1, 0, 0, 0, 0, 0, 0,  //
                                          1, 1, 1, 1, 0, 0, 0, 0,  //
                                          1, 1, 1, 1, 1, 1, 0, 0,  //
                                          1, 0, 0, 0, 0, 0, 0, 0};
  const PaddedMask mask{4, 8, entries};
  const PackedLayout layout{lengths_of(mask), sequence_alignment(1, cp), cp};

  [[nodiscard]] Tokens ragged() const {
    Tokens tokens(13);
    remove_padding(mask, sizeof(std::int64_t), std::as_bytes(std::span(padded)),
                   std::as_writable_bytes(std::span(tokens)));
    return tokens;
  }

  [[nodiscard]] static Tokens pack(const PackedLayout& layout, CpRank rank, const Tokens& tokens) {
    Tokens local(static_cast<std::size_t>(layout.local_rows()));
    pack_rows(layout, rank, std::as_bytes(std::span(tokens)), std::as_bytes(std::span(&p, 1)),
              std::as_writable_bytes(std::span(local)));
    return local;
  }

  /// What CP rank `rank` gets from sample i.
  [[nodiscard]] Tokens share(std::int64_t i, int rank) const {
    const Tokens local = pack(layout, CpRank{rank}, ragged());
    const RowRange range = layout.local_range(i);
    return {local.begin() + range.begin, local.begin() + range.end};
  }
};

TEST_F(RollPackingExample, step_1_removes_the_original_padding) {
  EXPECT_THAT(lengths_of(mask), ElementsAre(2, 4, 6, 1));
  EXPECT_THAT(ragged(), ElementsAre(0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3));
}

TEST_F(RollPackingExample, step_2_pads_again_to_multiples_of_4) {
  EXPECT_EQ(layout.alignment(), 4);
  const PackedLayout uncut(lengths_of(mask), layout.alignment(), {});
  EXPECT_THAT(pack(uncut, CpRank{0}, ragged()),
              ElementsAreArray({0, 0,  -1, -1,                // sample 0, length 4
                                1, 1,  1,  1,                 // sample 1, length 4
                                2, 2,  2,  2,  2, 2, -1, -1,  // sample 2, length 8
                                3, -1, -1, -1}));             // sample 3, length 4
}

TEST_F(RollPackingExample, step_3_gives_segments_0_and_3_to_cp0_and_1_and_2_to_cp1) {
  EXPECT_THAT(cp_runs(4, cp, CpRank{0}), ElementsAre(RowRange{0, 1}, RowRange{3, 4}));
  EXPECT_THAT(cp_runs(4, cp, CpRank{1}), ElementsAre(RowRange{1, 3}));
  EXPECT_THAT(cp_runs(8, cp, CpRank{0}), ElementsAre(RowRange{0, 2}, RowRange{6, 8}));
  EXPECT_THAT(cp_runs(8, cp, CpRank{1}), ElementsAre(RowRange{2, 6}));
}

TEST_F(RollPackingExample, step_3_cuts_every_sample_in_its_four_segments) {
  EXPECT_THAT(share(0, 0), ElementsAre(0, p));
  EXPECT_THAT(share(0, 1), ElementsAre(0, p));
  EXPECT_THAT(share(1, 0), ElementsAre(1, 1));
  EXPECT_THAT(share(1, 1), ElementsAre(1, 1));
  EXPECT_THAT(share(2, 0), ElementsAre(2, 2, p, p));
  EXPECT_THAT(share(2, 1), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(share(3, 0), ElementsAre(3, p));
  EXPECT_THAT(share(3, 1), ElementsAre(p, p));
}

TEST_F(RollPackingExample, step_4_gives_the_final_input_of_both_cp_ranks) {
  EXPECT_THAT(pack(layout, CpRank{0}, ragged()), ElementsAre(0, p, 1, 1, 2, 2, p, p, 3, p));
  EXPECT_THAT(pack(layout, CpRank{1}, ragged()), ElementsAre(0, p, 1, 1, 2, 2, 2, 2, p, p));
}

TEST_F(RollPackingExample, step_5_gives_the_cumulative_lengths) {
  EXPECT_THAT(layout.cu_seqlens(), ElementsAre(0, 2, 6, 12, 13));
  EXPECT_THAT(layout.cu_seqlens_padded(), ElementsAre(0, 4, 8, 16, 20));
}

// Section 2.3: a sequence starts at cu_seqlens_padded / cp in a rank's output.
TEST_F(RollPackingExample, unpacking_starts_at_the_padded_lengths_over_cp) {
  EXPECT_EQ(layout.local_range(1), (RowRange{2, 4}));
  EXPECT_EQ(layout.local_range(2), (RowRange{4, 8}));
  Tokens merged(13, p);
  for (const CpRank rank : all_ranks(cp)) {
    const Tokens local = pack(layout, rank, ragged());
    unpack_rows(layout, rank, std::as_bytes(std::span(local)), std::as_writable_bytes(std::span(merged)));
  }
  EXPECT_EQ(merged, ragged());
}

// The document aligns to 2 * CP * TP. The code that it describes aligns to lcm(16, 2 * CP * TP), which is an
// option here.
TEST_F(RollPackingExample, aligned_to_16_as_the_code_does_needs_64_rows) {
  const PackedLayout coarse(lengths_of(mask), sequence_alignment(1, cp, 16), cp);
  EXPECT_THAT(coarse.cu_seqlens_padded(), ElementsAre(0, 16, 32, 48, 64));
}

/// MindSpeed-RL's remove padding: 2-D tensors in, packed rows aligned to the TP size, 2-D results out.
class MindSpeedRemovePadding : public testing::Test {
 protected:
  const std::vector<std::uint8_t> entries{1, 1, 1, 1,  //
                                          1, 1, 0, 0,  //
                                          1, 1, 0, 0};
  const PaddedMask mask{3, 4, entries};
  const PackedLayout layout{lengths_of(mask), sequence_alignment(3, {}), {}};
};

TEST_F(MindSpeedRemovePadding, records_lengths_padded_offsets_and_positions) {
  EXPECT_THAT(lengths_of(mask), ElementsAre(4, 2, 2));
  EXPECT_THAT(layout.cu_seqlens_padded(), ElementsAre(0, 6, 9, 12));
  Tokens positions(12);
  derive_position_ids(layout, CpRank{0}, positions);
  EXPECT_THAT(positions, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1, 2));
}

TEST_F(MindSpeedRemovePadding, restores_a_models_output_to_the_shape_of_the_input) {
  const std::vector<float> output{1, 2, 3, 4, -1, -1, 5, 6, -1, 7, 8, -1};
  const std::vector<RowRange> true_rows{{0, 4}, {0, 2}, {0, 2}};
  std::vector<float> restored(12, -1);
  pad_right(Lengths{6, 3, 3}, true_rows, 4, sizeof(float), std::as_bytes(std::span(output)), {},
            std::as_writable_bytes(std::span(restored)));
  EXPECT_THAT(restored, ElementsAre(1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 0, 0));
}

TEST_F(MindSpeedRemovePadding, with_prompt_lengths_keeps_rows_that_predict_responses) {
  const std::vector<float> output{1, 2, 3, 4, -1, -1, 5, 6, -1, 7, 8, -1};
  const std::vector<RowRange> kept = response_prediction_rows(lengths_of(mask), Lengths{2, 1, 2});
  std::vector<float> restored(6, -1);
  pad_right(Lengths{6, 3, 3}, kept, 2, sizeof(float), std::as_bytes(std::span(output)), {},
            std::as_writable_bytes(std::span(restored)));
  EXPECT_THAT(restored, ElementsAre(2, 3, 5, 0, 0, 0));
}

}  // namespace
}  // namespace evenkeel
