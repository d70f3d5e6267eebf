#include "pack/pack_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "evenkeel/base/error.hpp"
#include "pack/arbitrary.hpp"
#include "pack/zigzag2.hpp"

namespace evenkeel {
namespace {

using Bytes = std::vector<std::byte>;
using test::zigzag2;
using testing::Each;
using testing::ElementsAre;

std::size_t arbitrary_row_bytes() {
  return *rc::gen::element<std::size_t>(0, 1, 2, 3, 4, 5, 8, 24, 37, 128);
}

/// Returns a pad row: empty, of equal bytes, or of arbitrary bytes.
Bytes arbitrary_pad_row(std::size_t row_bytes) {
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      return {};
    case 1:
      return Bytes(row_bytes, *rc::gen::element(std::byte{0}, std::byte{0xff}, std::byte{7}));
    default:
      return arbitrary_bytes(1, row_bytes);
  }
}

Bytes local_rows(const PackedLayout& layout, std::size_t row_bytes, std::byte value) {
  return Bytes(static_cast<std::size_t>(layout.local_rows()) * row_bytes, value);
}

template <typename Byte>
std::vector<std::span<Byte>> spans_of(std::vector<Bytes>& buffers) {
  return {buffers.begin(), buffers.end()};
}

/// Packs one row at a time, following the definition: row k of a rank is row partitioned_indices[k] of the
/// aligned sequences.
Bytes packed_row_by_row(const PackedLayout& layout, CpRank rank, const Bytes& ragged, const Bytes& pad_row,
                        std::size_t row_bytes) {
  Bytes expected;
  const Bytes pad = pad_row.empty() ? Bytes(row_bytes) : pad_row;
  const auto indices = partitioned_indices(layout.cu_seqlens_padded(), layout.cp(), rank);
  for (const std::int64_t row : indices) {
    std::int64_t sequence = 0;
    while (layout.cu_seqlens_padded()[static_cast<std::size_t>(sequence) + 1] <= row) ++sequence;
    const auto at = static_cast<std::size_t>(sequence);
    const std::int64_t within = row - layout.cu_seqlens_padded()[at];
    const bool is_pad = within >= layout.length(sequence);
    const auto source =
        static_cast<std::ptrdiff_t>(row_bytes) * (is_pad ? 0 : layout.cu_seqlens()[at] + within);
    const auto first = (is_pad ? pad : ragged).begin() + source;
    expected.insert(expected.end(), first, first + static_cast<std::ptrdiff_t>(row_bytes));
  }
  return expected;
}

RC_GTEST_PROP(PackRows, follows_the_partition_and_pads_the_rest, ()) {
  const PackedLayout layout = arbitrary_layout();
  const std::size_t row_bytes = arbitrary_row_bytes();
  const Bytes pad_row = arbitrary_pad_row(row_bytes);
  const Bytes ragged = arbitrary_bytes(layout.num_tokens(), row_bytes);
  for (const CpRank rank : all_ranks(layout.cp())) {
    Bytes local = local_rows(layout, row_bytes, std::byte{0xa5});
    pack_rows(layout, rank, ragged, pad_row, local);
    RC_ASSERT(local == packed_row_by_row(layout, rank, ragged, pad_row, row_bytes));
  }
}

RC_GTEST_PROP(UnpackRows, over_all_ranks_restores_the_packed_rows, ()) {
  const PackedLayout layout = arbitrary_layout();
  const std::size_t row_bytes = arbitrary_row_bytes();
  const Bytes ragged = arbitrary_bytes(layout.num_tokens(), row_bytes);
  Bytes restored(ragged.size(), std::byte{0xa5});
  for (const CpRank rank : all_ranks(layout.cp())) {
    Bytes local = local_rows(layout, row_bytes, std::byte{0});
    pack_rows(layout, rank, ragged, {}, local);
    unpack_rows(layout, rank, local, restored);
  }
  RC_ASSERT(restored == ragged);
}

RC_GTEST_PROP(PackAllRanks, equals_packing_for_each_rank, ()) {
  const PackedLayout layout = arbitrary_layout();
  const std::size_t row_bytes = arbitrary_row_bytes();
  const Bytes pad_row = arbitrary_pad_row(row_bytes);
  const Bytes ragged = arbitrary_bytes(layout.num_tokens(), row_bytes);
  std::vector<Bytes> together(static_cast<std::size_t>(layout.cp().size),
                              local_rows(layout, row_bytes, std::byte{0xa5}));
  pack_all_ranks(layout, ragged, pad_row, spans_of<std::byte>(together));
  for (const CpRank rank : all_ranks(layout.cp())) {
    Bytes alone = local_rows(layout, row_bytes, std::byte{0xa5});
    pack_rows(layout, rank, ragged, pad_row, alone);
    RC_ASSERT(together[rank.index()] == alone);
  }
  Bytes restored(ragged.size(), std::byte{0xa5});
  unpack_all_ranks(layout, spans_of<const std::byte>(together), restored);
  RC_ASSERT(restored == ragged);
}

RC_GTEST_PROP(PackSequences, equals_packing_sequences_back_to_back, ()) {
  const PackedLayout layout = arbitrary_layout();
  const std::size_t row_bytes = arbitrary_row_bytes();
  const Bytes pad_row = arbitrary_pad_row(row_bytes);
  const Bytes ragged = arbitrary_bytes(layout.num_tokens(), row_bytes);
  std::vector<Bytes> sequences;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const auto first =
        static_cast<std::ptrdiff_t>(row_bytes) * layout.cu_seqlens()[static_cast<std::size_t>(i)];
    const auto last = first + static_cast<std::ptrdiff_t>(row_bytes) * layout.length(i);
    sequences.emplace_back(ragged.begin() + first, ragged.begin() + last);
  }
  for (const CpRank rank : all_ranks(layout.cp())) {
    Bytes expected = local_rows(layout, row_bytes, std::byte{1});
    pack_rows(layout, rank, ragged, pad_row, expected);
    Bytes packed = local_rows(layout, row_bytes, std::byte{2});
    pack_sequences(layout, rank, spans_of<const std::byte>(sequences), pad_row, packed);
    RC_ASSERT(packed == expected);
  }
}

TEST(PackSequences, rejects_sequences_that_do_not_match_the_layout) {
  const PackedLayout layout(std::vector<std::int64_t>{2, 1}, 1, {});
  Bytes local = local_rows(layout, 8, std::byte{0});
  const Bytes rows(24);
  const std::span<const std::byte> all = rows;
  const std::vector<std::span<const std::byte>> one{all};
  const std::vector<std::span<const std::byte>> swapped{all.first(8), all.last(16)};
  EXPECT_THROW(pack_sequences(layout, CpRank{0}, one, {}, local), InputError);
  EXPECT_THROW(pack_sequences(layout, CpRank{0}, swapped, {}, local), InputError);
}

TEST(PackAllRanks, rejects_buffers_that_do_not_match_the_ranks) {
  const PackedLayout layout(Lengths{2, 6}, 4, zigzag2);  // 8 tokens, 6 rows a rank
  const Bytes ragged(8 * 4);
  Bytes first(6 * 4);
  Bytes second(6 * 4);
  Bytes restored(8 * 4);
  using Spans = std::vector<std::span<std::byte>>;
  using ConstantSpans = std::vector<std::span<const std::byte>>;
  EXPECT_NO_THROW(pack_all_ranks(layout, ragged, {}, Spans{first, second}));
  EXPECT_THROW(pack_all_ranks(layout, ragged, {}, Spans{first}), InputError);
  EXPECT_THROW(pack_all_ranks(layout, ragged, {}, {}), InputError);
  EXPECT_THROW(pack_all_ranks(layout, ragged, {}, Spans{first, std::span(second).first(20)}), InputError);
  EXPECT_THROW(unpack_all_ranks(layout, ConstantSpans{first, second, second}, restored), InputError);
  EXPECT_THROW(unpack_all_ranks(layout, ConstantSpans{first, second}, std::span(restored).first(28)),
               InputError);
}

RC_GTEST_PROP(PackRows, after_unpacking_restores_every_rank, ()) {
  const PackedLayout layout = arbitrary_layout();
  const std::size_t row_bytes = arbitrary_row_bytes();
  std::vector<Bytes> locals;
  Bytes ragged(static_cast<std::size_t>(layout.num_tokens()) * row_bytes);
  for (const CpRank rank : all_ranks(layout.cp())) {
    locals.push_back(arbitrary_bytes(layout.local_rows(), row_bytes));
    fill_pad_rows(layout, rank, {}, locals.back());
    unpack_rows(layout, rank, locals.back(), ragged);
  }
  for (const CpRank rank : all_ranks(layout.cp())) {
    Bytes local = local_rows(layout, row_bytes, std::byte{0xa5});
    pack_rows(layout, rank, ragged, {}, local);
    RC_ASSERT(local == locals[rank.index()]);
  }
}

RC_GTEST_PROP(FillPadRows, touches_exactly_the_rows_without_a_true_token, ()) {
  const PackedLayout layout = arbitrary_layout();
  const std::size_t row_bytes = arbitrary_row_bytes();
  const Bytes pad_row = arbitrary_pad_row(row_bytes);
  for (const CpRank rank : all_ranks(layout.cp())) {
    const Bytes before = arbitrary_bytes(layout.local_rows(), row_bytes);
    Bytes expected(before.size());
    const Bytes pad = pad_row.empty() ? Bytes(row_bytes) : pad_row;
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = pad[i % row_bytes];
    for (const PackedRun& run : packed_runs(layout, rank)) {
      const auto at = static_cast<std::ptrdiff_t>(row_bytes) * run.local;
      const auto bytes = static_cast<std::ptrdiff_t>(row_bytes) * run.sequence.size();
      std::copy_n(before.begin() + at, bytes, expected.begin() + at);
    }
    Bytes filled = before;
    fill_pad_rows(layout, rank, pad_row, filled);
    RC_ASSERT(filled == expected);
  }
}

TEST(UnpackRows, does_not_write_rows_of_other_ranks) {
  const PackedLayout layout(Lengths{6}, 4, zigzag2);
  const Bytes local(4, std::byte{1});
  Bytes ragged(6, std::byte{9});
  unpack_rows(layout, CpRank{0}, local, ragged);
  EXPECT_THAT(ragged, ElementsAre(std::byte{1}, std::byte{1}, std::byte{9}, std::byte{9}, std::byte{9},
                                  std::byte{9}));
}

TEST(PackRows, an_empty_pad_row_means_zeros) {
  const PackedLayout layout(Lengths{1}, 4, zigzag2);
  Bytes local(2 * 3, std::byte{9});
  pack_rows(layout, CpRank{1}, Bytes(3, std::byte{1}), {}, local);
  EXPECT_THAT(local, Each(std::byte{0}));
}

TEST(PackRows, a_long_stretch_of_padding_repeats_a_pad_row_of_any_bytes) {
  const PackedLayout layout = PackedLayout(Lengths{1}, 1, {}).padded_to(1000);
  const std::int64_t label_pad = -100;
  std::vector<std::int64_t> labels(1000);
  const std::int64_t only = 5;
  pack_rows(layout, CpRank{0}, std::as_bytes(std::span(&only, 1)), std::as_bytes(std::span(&label_pad, 1)),
            std::as_writable_bytes(std::span(labels)));
  EXPECT_EQ(labels.front(), 5);
  EXPECT_THAT(std::span(labels).subspan(1), Each(-100));
}

TEST(PackRows, does_nothing_for_empty_layouts_and_rows_without_bytes) {
  EXPECT_NO_THROW(pack_rows(PackedLayout(), CpRank{0}, {}, {}, {}));
  EXPECT_NO_THROW(unpack_rows(PackedLayout(), CpRank{0}, {}, {}));
  EXPECT_NO_THROW(pack_rows(PackedLayout(Lengths{3}, 4, zigzag2), CpRank{1}, {}, {}, {}));
  EXPECT_NO_THROW(fill_pad_rows(PackedLayout(Lengths{3}, 4, zigzag2), CpRank{1}, {}, {}));
}

TEST(PackRows, buffers_of_the_wrong_size_are_errors) {
  const PackedLayout layout(Lengths{2, 6}, 4, zigzag2);  // 8 tokens, 6 rows a rank
  Bytes local(6 * 4);
  const Bytes ragged(8 * 4);
  EXPECT_NO_THROW(pack_rows(layout, CpRank{0}, ragged, {}, local));
  EXPECT_THROW(pack_rows(layout, CpRank{0}, std::span(ragged).first(28), {}, local), InputError);
  EXPECT_THROW(pack_rows(layout, CpRank{0}, ragged, {}, std::span(local).first(23)), InputError);
  EXPECT_THROW(pack_rows(layout, CpRank{0}, ragged, Bytes(3), local), InputError);
  EXPECT_THROW(unpack_rows(layout, CpRank{0}, local, std::span(local).first(20)), InputError);
  EXPECT_THROW(fill_pad_rows(layout, CpRank{0}, Bytes(8), local), InputError);
  EXPECT_THROW(pack_rows(PackedLayout(), CpRank{0}, {}, {}, local), InputError);
}

TEST(PackRows, a_rank_outside_the_group_is_an_error) {
  const PackedLayout layout(Lengths{2}, 4, zigzag2);
  Bytes local(2);
  EXPECT_THROW(pack_rows(layout, CpRank{2}, Bytes(2), {}, local), InputError);
}

}  // namespace
}  // namespace evenkeel
