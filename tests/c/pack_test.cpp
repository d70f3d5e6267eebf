// Layouts, rows, routes, padding, trees and prefix groups, through the C API.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "c/values_of.hpp"
#include "evenkeel/c/evenkeel.h"

namespace evenkeel::test {
namespace {

using Numbers = std::vector<std::int64_t>;
using Sums = std::vector<std::int32_t>;

/// A layout with its arrays: sequences aligned to 4, zigzag over 2 ranks.
struct Layout {
  Sums cu_seqlens;
  Sums padded;
  std::int32_t max_seqlen = 0;
  evenkeel_layout value{};

  explicit Layout(const Numbers& lengths) : cu_seqlens(lengths.size() + 1), padded(lengths.size() + 1) {
    const auto count = std::ssize(lengths);
    EXPECT_EQ(evenkeel_layout_fill(lengths.data(), nullptr, count, 4, 2, EVENKEEL_ZIGZAG, cu_seqlens.data(),
                                   padded.data(), &max_seqlen),
              EVENKEEL_OK);
    value = {count, cu_seqlens.data(), padded.data(), 4, 2, EVENKEEL_ZIGZAG, nullptr};
  }
};

template <typename T>
evenkeel_rows rows_of(std::vector<T>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size() * sizeof(T))};
}

/// Arrays that `call` returns, by name.
struct Arrays {
  std::unique_ptr<evenkeel_arrays, decltype(&evenkeel_arrays_destroy)> held{nullptr,
                                                                            &evenkeel_arrays_destroy};

  template <typename Call>
  explicit Arrays(Call call) {
    evenkeel_arrays* arrays = nullptr;
    EXPECT_EQ(call(&arrays), EVENKEEL_OK) << evenkeel_last_error_message();
    held.reset(arrays);
  }

  [[nodiscard]] evenkeel_array named(const std::string& name) const { return array_named(held.get(), name); }
  template <typename T = std::int64_t>
  [[nodiscard]] std::vector<T> values(const std::string& name) const {
    return values_of<T>(held.get(), name);
  }
};

TEST(CPack, a_layout_matches_the_example_in_the_header) {
  const Layout layout({2, 4, 6, 1});
  EXPECT_EQ(layout.cu_seqlens, (Sums{0, 2, 6, 12, 13}));
  EXPECT_EQ(layout.padded, (Sums{0, 4, 8, 16, 20}));
  EXPECT_EQ(layout.max_seqlen, 8);
  Sums longer(5);
  std::int32_t longest = 0;
  ASSERT_EQ(evenkeel_layout_pad_to(&layout.value, 24, longer.data(), &longest), EVENKEEL_OK);
  EXPECT_EQ(longer, (Sums{0, 4, 8, 16, 24}));
  EXPECT_EQ(evenkeel_layout_pad_to(&layout.value, 16, longer.data(), &longest), EVENKEEL_ERROR_INPUT);
  const std::int64_t below = -1;
  EXPECT_EQ(
      evenkeel_layout_fill(&below, nullptr, 1, 4, 2, EVENKEEL_ZIGZAG, longer.data(), longer.data(), &longest),
      EVENKEEL_ERROR_INPUT);
  std::int64_t alignment = 0;
  ASSERT_EQ(evenkeel_sequence_alignment(2, 2, EVENKEEL_ZIGZAG, 1, &alignment), EVENKEEL_OK);
  EXPECT_EQ(alignment, 8);
  EXPECT_EQ(evenkeel_sequence_alignment(2, 2, 7, 1, &alignment), EVENKEEL_ERROR_ARGUMENT);
}

TEST(CPack, runs_and_indices_belong_to_a_rank) {
  const Layout layout({2, 4});
  const Arrays runs([&](auto** a) { return evenkeel_layout_runs(&layout.value, 0, a); });
  EXPECT_EQ(runs.values("runs"), (Numbers{0, 0, 1, 0, 1, 0, 1, 2, 1, 3, 4, 3}));
  evenkeel_arrays* none = nullptr;
  EXPECT_EQ(evenkeel_layout_runs(&layout.value, 2, &none), EVENKEEL_ERROR_INPUT);
  std::int64_t count = 0;
  std::array<std::int64_t, 4> bounds{};
  ASSERT_EQ(evenkeel_cp_runs(8, 2, EVENKEEL_ZIGZAG, 0, bounds.data(), &count), EVENKEEL_OK);
  EXPECT_EQ(bounds, (std::array<std::int64_t, 4>{0, 2, 6, 8}));
  EXPECT_EQ(evenkeel_cp_runs(7, 2, EVENKEEL_ZIGZAG, 0, bounds.data(), &count), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(count, 2) << "unchanged";
  Numbers indices(4);
  ASSERT_EQ(evenkeel_partitioned_indices(layout.padded.data(), 3, 2, EVENKEEL_ZIGZAG, 0, indices.data()),
            EVENKEEL_OK);
  EXPECT_EQ(indices, (Numbers{0, 3, 4, 7}));
  std::array<Sums, 3> on_rank{Sums(3), Sums(3), Sums(3)};
  ASSERT_EQ(evenkeel_cu_seqlens_on_cp_rank(layout.cu_seqlens.data(), layout.padded.data(), 3, 2, 0,
                                           on_rank[0].data(), on_rank[1].data(), on_rank[2].data()),
            EVENKEEL_OK);
  EXPECT_EQ(on_rank[2], (Sums{0, 1, 3}));
}

TEST(CPack, rows_are_packed_on_every_rank_and_merged) {
  const Layout layout({2, 4});
  std::vector<std::int32_t> ragged{1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> pad{-1};
  std::vector<std::vector<std::int32_t>> locals(2, std::vector<std::int32_t>(4));
  const std::array<evenkeel_rows, 2> buffers{rows_of(locals[0]), rows_of(locals[1])};
  const evenkeel_rows all = rows_of(ragged);
  const evenkeel_rows pad_row = rows_of(pad);
  ASSERT_EQ(evenkeel_pack_all_ranks(&layout.value, &all, &pad_row, buffers.data(), 2, 1), EVENKEEL_OK);
  EXPECT_EQ(locals[0], (std::vector<std::int32_t>{1, -1, 3, 6}));
  EXPECT_EQ(locals[1], (std::vector<std::int32_t>{2, -1, 4, 5}));

  std::vector<std::int32_t> merged(6);
  const evenkeel_rows target = rows_of(merged);
  ASSERT_EQ(evenkeel_unpack_all_ranks(&layout.value, buffers.data(), 2, &target, 1), EVENKEEL_OK);
  EXPECT_EQ(merged, ragged);
  merged.assign(6, 0);
  ASSERT_EQ(evenkeel_unpack_rows(&layout.value, 0, buffers.data(), &target, 1), EVENKEEL_OK);
  EXPECT_EQ(merged, (std::vector<std::int32_t>{1, 0, 3, 0, 0, 6}));

  std::vector<std::int32_t> local(4);
  const evenkeel_rows one = rows_of(local);
  ASSERT_EQ(evenkeel_pack_rows(&layout.value, 0, &all, &pad_row, &one, 1), EVENKEEL_OK);
  EXPECT_EQ(local, locals[0]);
  std::vector<std::int32_t> first{1, 2};
  std::vector<std::int32_t> second{3, 4, 5, 6};
  const std::array<evenkeel_rows, 2> sequences{rows_of(first), rows_of(second)};
  ASSERT_EQ(evenkeel_pack_sequences(&layout.value, 1, sequences.data(), 2, &pad_row, &one, 1), EVENKEEL_OK);
  EXPECT_EQ(local, locals[1]);
  local.assign(4, 0);
  ASSERT_EQ(evenkeel_fill_pad_rows(&layout.value, 0, &pad_row, &one), EVENKEEL_OK);
  EXPECT_EQ(local, (std::vector<std::int32_t>{0, -1, 0, 0}));
  EXPECT_EQ(evenkeel_pack_rows(&layout.value, 0, &all, &pad_row, &one, 0), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(evenkeel_pack_rows(&layout.value, 0, &pad_row, &pad_row, &one, 1), EVENKEEL_ERROR_INPUT);
}

TEST(CPack, fields_are_derived_from_tokens) {
  const Layout layout({2, 4});
  const Numbers tokens{1, 2, 3, 4, 5, 6};
  Numbers ids(4);
  ASSERT_EQ(evenkeel_position_ids(&layout.value, 0, ids.data()), EVENKEEL_OK);
  EXPECT_EQ(ids, (Numbers{0, 3, 0, 3}));
  Numbers labels(4);
  ASSERT_EQ(evenkeel_labels(&layout.value, 0, tokens.data(), 6, -100, labels.data()), EVENKEEL_OK);
  EXPECT_EQ(labels, (Numbers{2, -100, 4, -100}));
  EXPECT_EQ(evenkeel_labels(&layout.value, 0, tokens.data(), 5, -100, labels.data()), EVENKEEL_ERROR_INPUT);
  const Numbers prompts{1, 2};
  std::vector<float> mask(4);
  ASSERT_EQ(evenkeel_loss_mask(&layout.value, 0, prompts.data(), 2, mask.data()), EVENKEEL_OK);
  EXPECT_EQ(mask, (std::vector<float>{1, 0, 0, 0}));
  const std::vector<double> by_sequence{0.5, 0.25};
  const std::vector<std::uint8_t> set{1, 0, 0, 1};
  std::vector<float> weights(4);
  ASSERT_EQ(evenkeel_loss_weights(&layout.value, by_sequence.data(), 2, set.data(), 4, weights.data()),
            EVENKEEL_OK);
  EXPECT_EQ(weights, (std::vector<float>{0.5, 0, 0, 0.25}));
}

TEST(CPack, rows_are_routed_to_another_cut) {
  const Layout layout({4, 4});
  const evenkeel_member member{0, 0, 1};
  const Arrays route([&](auto** a) {
    return evenkeel_layout_route(&layout.value, EVENKEEL_ZIGZAG, EVENKEEL_CONTIGUOUS, &member, EVENKEEL_INT64,
                                 a);
  });
  EXPECT_EQ(route.values("send_rows").size(), 4U);
  const std::vector<std::int32_t> counts = route.values<std::int32_t>("send_counts");
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_EQ(counts[0] + counts[1], 4);
  const Arrays runs([&](auto** a) {
    return evenkeel_layout_sequence_runs(&layout.value, EVENKEEL_CONTIGUOUS, &member, a);
  });
  EXPECT_EQ(runs.values("tokens"), (Numbers{2, 2}));
  const Arrays halo([&](auto** a) {
    return evenkeel_layout_halo_route(&layout.value, EVENKEEL_CONTIGUOUS, 3, &member, EVENKEEL_INT32, a);
  });
  EXPECT_EQ(halo.named("send_rows").dtype, EVENKEEL_INT32);
  evenkeel_arrays* none = nullptr;
  EXPECT_EQ(evenkeel_layout_route(&layout.value, 9, 0, &member, EVENKEEL_INT64, &none),
            EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_layout_route(&layout.value, 0, 0, &member, EVENKEEL_BOOL, &none),
            EVENKEEL_ERROR_ARGUMENT);
}

TEST(CPack, padding_is_removed_and_restored) {
  const std::vector<std::uint8_t> places{1, 1, 0, 0, 1, 0};
  const evenkeel_mask mask{2, 3, places.data()};
  Numbers lengths(2);
  ASSERT_EQ(evenkeel_mask_lengths(&mask, lengths.data()), EVENKEEL_OK);
  EXPECT_EQ(lengths, (Numbers{2, 1}));
  std::vector<std::int32_t> padded{7, 8, 0, 0, 9, 0};
  std::vector<std::int32_t> ragged(3);
  std::vector<std::int32_t> pad{-1};
  const evenkeel_rows from = rows_of(padded);
  const evenkeel_rows to = rows_of(ragged);
  const evenkeel_rows pad_row = rows_of(pad);
  ASSERT_EQ(evenkeel_remove_padding(&mask, 4, &from, &to), EVENKEEL_OK);
  EXPECT_EQ(ragged, (std::vector<std::int32_t>{7, 8, 9}));
  ASSERT_EQ(evenkeel_restore_padding(&mask, 4, &to, &pad_row, &from), EVENKEEL_OK);
  EXPECT_EQ(padded, (std::vector<std::int32_t>{7, 8, -1, -1, 9, -1}));
  const Numbers begins{0, -1};
  const Numbers ends{2, 1};
  std::vector<std::int32_t> right(4);
  const evenkeel_rows out = rows_of(right);
  ASSERT_EQ(evenkeel_pad_right(lengths.data(), begins.data(), ends.data(), 2, 2, 4, &to, &pad_row, &out),
            EVENKEEL_OK);
  EXPECT_EQ(right, (std::vector<std::int32_t>{7, 8, -1, 9}));
  const Numbers prompts{1, 0};
  Numbers first(2);
  Numbers last(2);
  ASSERT_EQ(evenkeel_response_prediction_rows(lengths.data(), prompts.data(), 2, first.data(), last.data()),
            EVENKEEL_OK);
  EXPECT_EQ(first, (Numbers{0, -1}));
  EXPECT_EQ(last, (Numbers{1, 0}));
}

TEST(CPack, mindspeed_columns_are_held_by_exactly_one_rank) {
  const evenkeel_mindspeed_cp ring{2, EVENKEEL_CP_RING, 1, 0};
  std::int32_t degree = 0;
  ASSERT_EQ(evenkeel_mindspeed_ring_degree(&ring, &degree), EVENKEEL_OK);
  EXPECT_EQ(degree, 2);
  Numbers columns(8);
  std::int64_t count = 0;
  ASSERT_EQ(evenkeel_mindspeed_columns(&ring, 8, nullptr, 0, 1, columns.data(), &count), EVENKEEL_OK);
  columns.resize(static_cast<std::size_t>(count));
  EXPECT_EQ(columns, (Numbers{2, 3, 4, 5}));
}

/// The tree of the samples {1, 2, 3, 4}, {1, 2, 3, 5, 6} and {1, 2, 7}.
struct Tree {
  Numbers parents{-1, 0, 1, 1, 0};
  Numbers tokens{2, 1, 1, 2, 1};
  Numbers ends{2, 3, 4};
  evenkeel_tree value{5, parents.data(), tokens.data(), 3, ends.data()};
};

/// The groups {3, 2, 1} and {2, 4}, padded on the right.
struct TwoGroups {
  Numbers offsets{0, 3, 5};
  Numbers lengths{3, 2, 1, 2, 4};
  evenkeel_prefix_groups value{2, offsets.data(), lengths.data(), EVENKEEL_PAD_RIGHT, nullptr};
};

TEST(CPrefixGroups, places_and_positions_match_the_example_in_the_header) {
  TwoGroups groups;
  const Arrays split([&](auto** a) { return evenkeel_prefix_split(&groups.value, 0, 0, a); });
  EXPECT_EQ(split.values("shapes"), (Numbers{2, 6, 2, 3, 3, 4}));
  EXPECT_EQ(split.values("grouped"), (Numbers{0, 0, 6, 1, 0, 6}));
  EXPECT_EQ(split.values("prefix_source"), (Numbers{0, 0, 3, 1, 0, 2}));
  EXPECT_EQ(split.values("prefix"), (Numbers{0, 0, 3, 1, 1, 2}));
  EXPECT_EQ(split.values("suffix_source"), (Numbers{0, 3, 3, 1, 2, 4}));
  EXPECT_EQ(split.values("suffix"), (Numbers{0, 0, 2, 1, 0, 1, 2, 0, 4}));
  Numbers ids(12);
  ASSERT_EQ(evenkeel_prefix_position_ids(&groups.value, -1, ids.data()), EVENKEEL_OK);
  EXPECT_EQ(ids, (Numbers{0, 1, 2, 3, 4, 3, 0, 1, 2, 3, 4, 5}));
}

TEST(CPrefixGroups, a_prefix_is_copied_to_its_suffixes_and_may_be_too_short) {
  TwoGroups groups;
  const Arrays split([&](auto** a) { return evenkeel_prefix_split(&groups.value, 3, 1, a); });
  EXPECT_EQ(split.values("shapes"), (Numbers{2, 6, 2, 0, 3, 7}));
  EXPECT_EQ(split.values("suffix"), (Numbers{0, 0, 5, 1, 0, 4, 2, 1, 6}));
  evenkeel_arrays* none = nullptr;
  EXPECT_EQ(evenkeel_prefix_split(&groups.value, 3, 0, &none), EVENKEEL_ERROR_INPUT);
  groups.lengths[0] = -1;
  EXPECT_EQ(evenkeel_prefix_split(&groups.value, 0, 0, &none), EVENKEEL_ERROR_INPUT);
  groups.value.side = 2;
  EXPECT_EQ(evenkeel_prefix_split(&groups.value, 0, 0, &none), EVENKEEL_ERROR_ARGUMENT);
}

TEST(CPrefixGroups, tokens_move_between_the_places_of_masks) {
  const std::vector<std::uint8_t> bits{1, 1, 0, 0, 0, 1};
  const evenkeel_mask mask{2, 3, bits.data()};
  const Arrays of_mask([&](auto** a) { return evenkeel_places_of_mask(&mask, a); });
  const Numbers runs = of_mask.values("runs");
  EXPECT_EQ(runs, (Numbers{0, 0, 2, 1, 2, 1}));
  const Numbers left{0, 1, 2, 1, 2, 1};
  const evenkeel_places from{2, 3, 2, runs.data()};
  const evenkeel_places to{2, 3, 2, left.data()};
  std::vector<std::int32_t> values{7, 8, 0, 0, 0, 9};
  std::vector<std::int32_t> moved(6);
  std::vector<std::int32_t> pad{-1};
  const evenkeel_rows source = rows_of(values);
  const evenkeel_rows target = rows_of(moved);
  const evenkeel_rows pad_row = rows_of(pad);
  ASSERT_EQ(evenkeel_move_tokens(&from, &to, 1, 1, 4, &source, &target), EVENKEEL_OK);
  ASSERT_EQ(evenkeel_fill_padding(&to, 1, 4, &pad_row, &target), EVENKEEL_OK);
  EXPECT_EQ(moved, (std::vector<std::int32_t>{-1, 7, 8, -1, -1, 9}));
  const Numbers swapped{0, 0, 1, 1, 0, 2};
  const evenkeel_places other{2, 3, 2, swapped.data()};
  EXPECT_EQ(evenkeel_move_tokens(&from, &other, 1, 1, 4, &source, &target), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(evenkeel_move_tokens(&from, &other, 0, 1, 4, &source, &target), EVENKEEL_OK);
  EXPECT_EQ(evenkeel_move_tokens(&from, &other, 0, 0, 4, &source, &target), EVENKEEL_ERROR_INPUT);
}

TEST(CTree, a_tree_of_tokens_matches_the_example_in_the_header) {
  const Numbers tokens{1, 2, 3, 4, 1, 2, 3, 5, 6, 1, 2, 7};
  const Numbers offsets{0, 4, 9, 12};
  const Tree tree;
  const Arrays made(
      [&](auto** a) { return evenkeel_tree_of_tokens(tokens.data(), offsets.data(), 3, 0, a); });
  EXPECT_EQ(made.values("parents"), tree.parents);
  EXPECT_EQ(made.values("tokens"), tree.tokens);
  EXPECT_EQ(made.values("sample_ends"), tree.ends);
  evenkeel_arrays* none = nullptr;
  EXPECT_EQ(evenkeel_tree_of_tokens(tokens.data(), offsets.data(), 3, -1, &none), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(none, nullptr);
  evenkeel_array array{};
  EXPECT_EQ(evenkeel_arrays_at(made.held.get(), 3, &array), EVENKEEL_ERROR_ARGUMENT);
  evenkeel_arrays_destroy(nullptr);
}

TEST(CTree, segments_rows_and_samples_describe_it) {
  const Tree tree;
  const Arrays segments([&](auto** a) { return evenkeel_tree_segments(&tree.value, a); });
  EXPECT_EQ(segments.values("depths"), (Numbers{0, 2, 3, 3, 2}));
  EXPECT_EQ(segments.values("samples_through"), (Numbers{3, 2, 1, 1, 1}));
  const Arrays rows([&](auto** a) { return evenkeel_tree_rows(&tree.value, a); });
  EXPECT_EQ(rows.values("tout"), (Numbers{7, 7, 6, 4, 6, 6, 7}));
  const Arrays sample([&](auto** a) { return evenkeel_tree_sample(&tree.value, 2, a); });
  EXPECT_EQ(sample.values("rows"), (Numbers{0, 1, 6}));
  EXPECT_EQ(sample.values("prediction_rows"), (Numbers{-1, 0, 1}));
  const Arrays states([&](auto** a) { return evenkeel_tree_branch_states(&tree.value, a); });
  EXPECT_EQ(states.values("peak_kept"), Numbers{2});
  const Arrays savings([&](auto** a) { return evenkeel_tree_savings(&tree.value, a); });
  EXPECT_EQ(savings.values("repeated_tokens"), Numbers{12});
  const Numbers chosen{0, 2};
  const Arrays subtree([&](auto** a) { return evenkeel_tree_subtree(&tree.value, chosen.data(), 2, a); });
  EXPECT_EQ(subtree.values("tokens"), (Numbers{2, 2, 1}));
  const evenkeel_tree wrong{1, tree.ends.data(), tree.tokens.data(), 0, nullptr};
  evenkeel_arrays* none = nullptr;
  EXPECT_EQ(evenkeel_tree_rows(&wrong, &none), EVENKEEL_ERROR_INPUT);
}

TEST(CTree, masks_and_schedules_are_those_of_a_packed_tree) {
  const Tree tree;
  Layout layout(tree.tokens);
  const Arrays roots([&](auto** a) { return evenkeel_tree_of_sequences(&layout.value, a); });
  EXPECT_EQ(roots.values("parents"), Numbers(5, -1));
  layout.value.tree = &tree.value;
  Numbers ids(10);
  ASSERT_EQ(evenkeel_position_ids(&layout.value, 0, ids.data()), EVENKEEL_OK);
  EXPECT_EQ(ids[2], 2);
  const Arrays intervals([&](auto** a) { return evenkeel_tree_intervals(&layout.value, 0, a); });
  EXPECT_EQ(intervals.values("tin").size(), 10U);
  const Arrays attention([&](auto** a) { return evenkeel_tree_attention(&layout.value, 0, a); });
  EXPECT_EQ(attention.values<std::int32_t>("cu_seqlens_q_padded").back(), 10);
  const Arrays schedule([&](auto** a) { return evenkeel_tree_depth_first(&layout.value, INT64_MAX, a); });
  EXPECT_EQ(schedule.named("rows").shape[1], 2);
  const Numbers prompts{2, 2, 2};
  const Arrays predictions(
      [&](auto** a) { return evenkeel_tree_predictions(&layout.value, prompts.data(), 3, a); });
  EXPECT_EQ(predictions.values("offsets"), (Numbers{0, 2, 5, 6}));
  const Arrays tiles(
      [&](auto** a) { return evenkeel_tree_block_mask(&layout.value, 0, EVENKEEL_KEYS_GATHERED, 4, 4, a); });
  EXPECT_EQ(tiles.named("kv_num_blocks").num_dimensions, 3);
  const Arrays columns(
      [&](auto** a) { return evenkeel_tree_column_mask(&layout.value, 0, EVENKEEL_KEYS_PACKED, a); });
  EXPECT_EQ(columns.named("startend").shape[0], 20);
  const Arrays slices(
      [&](auto** a) { return evenkeel_tree_slices(&layout.value, 0, EVENKEEL_KEYS_PACKED, a); });
  EXPECT_EQ(slices.named("kinds").shape[0], slices.named("q_ranges").shape[0]);
  const Arrays mask(
      [&](auto** a) { return evenkeel_tree_additive_mask(&layout.value, 0, EVENKEEL_KEYS_PACKED, a); });
  EXPECT_EQ(mask.values<float>("mask").size(), 200U);
  evenkeel_arrays* none = nullptr;
  EXPECT_EQ(evenkeel_tree_additive_mask(&layout.value, 0, 7, &none), EVENKEEL_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace evenkeel::test
