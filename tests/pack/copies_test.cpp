#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/padded.hpp"
#include "evenkeel/pack/prefix/layout.hpp"
#include "pack/arbitrary.hpp"
#include "pack/pack_rows.hpp"
#include "support/prefix_tensors.hpp"

// Copies of several megabytes use non-temporal stores of whole cache lines, small ones do not. Rows of any
// size at any address must be copied correctly either way.

namespace evenkeel {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t few = 20'000;
constexpr std::size_t many_bytes = std::size_t{5} << 20;
constexpr CpGroup zigzag3{3, CpLayout::zigzag};

struct CopyCase {
  std::size_t bytes = 0;  // of the tokens, at least
  std::size_t row_bytes = 0;
  // Number of bytes after a 64-byte boundary at which the target begins, at least approximately.
  std::size_t misaligned = 0;
};

void PrintTo(const CopyCase& c, std::ostream* out) {
  *out << c.bytes << " bytes, " << c.row_bytes << " bytes a row, offset " << c.misaligned;
}

class Copies : public testing::TestWithParam<CopyCase> {
 protected:
  [[nodiscard]] static std::size_t row_bytes() { return GetParam().row_bytes; }

  /// Returns lengths around 300, with some zeros and ones, whose total has the number of bytes that the case
  /// requests.
  [[nodiscard]] static Lengths lengths() {
    Lengths lengths;
    std::size_t tokens = 0;
    for (std::size_t i = 0; tokens * row_bytes() < GetParam().bytes; ++i) {
      const std::size_t length = i % 7 == 3 ? i % 2 : 1 + i * 7919 % 601;
      lengths.push_back(static_cast<std::int64_t>(length));
      tokens += length;
    }
    return lengths;
  }

  /// No two cache lines contain the same bytes: the pattern's period is prime.
  [[nodiscard]] static Bytes bytes(std::int64_t rows, unsigned seed) {
    Bytes pattern(65521);
    for (std::byte& byte : pattern) {
      seed = seed * 1664525U + 1013904223U;
      byte = static_cast<std::byte>(seed >> 24U);
    }
    Bytes bytes(static_cast<std::size_t>(rows) * row_bytes());
    for (std::size_t at = 0; at < bytes.size(); at += pattern.size()) {
      std::memcpy(bytes.data() + at, pattern.data(), std::min(pattern.size(), bytes.size() - at));
    }
    return bytes;
  }

  /// Rows that are all equal to `row`.
  [[nodiscard]] static Bytes repeat_rows(const Bytes& row, std::int64_t rows) {
    Bytes all(static_cast<std::size_t>(rows) * row.size());
    std::memcpy(all.data(), row.data(), row.size());
    for (std::size_t done = row.size(); done < all.size(); done *= 2) {
      std::memcpy(all.data() + done, all.data(), std::min(done, all.size() - done));
    }
    return all;
  }

  static void copy_rows(std::span<const std::byte> from, std::int64_t from_row, std::span<std::byte> to,
                        std::int64_t to_row, std::int64_t rows) {
    const auto at = [](std::int64_t row) { return static_cast<std::size_t>(row) * row_bytes(); };
    std::memcpy(to.data() + at(to_row), from.data() + at(from_row), at(rows));
  }
};

/// A buffer that begins somewhere within a cache line, with a guard at each end.
class Target {
 public:
  Target(std::size_t bytes, std::size_t misaligned)
      : misaligned_(misaligned), bytes_(bytes), memory_(bytes + misaligned + 64, std::byte{0x5a}) {}

  [[nodiscard]] std::span<std::byte> span() { return std::span(memory_).subspan(misaligned_, bytes_); }
  [[nodiscard]] bool guards_are_untouched() const {
    const auto untouched = [](std::byte byte) { return byte == std::byte{0x5a}; };
    const auto all = std::span(memory_);
    return std::ranges::all_of(all.first(misaligned_), untouched) &&
           std::ranges::all_of(all.subspan(misaligned_ + bytes_), untouched);
  }

 private:
  std::size_t misaligned_;
  std::size_t bytes_;
  Bytes memory_;
};

testing::AssertionResult hold(Target& target, std::span<const std::byte> expected) {
  if (!target.guards_are_untouched()) return testing::AssertionFailure() << "bytes beside the rows changed";
  const auto actual = target.span();
  if (std::memcmp(actual.data(), expected.data(), expected.size()) == 0) return testing::AssertionSuccess();
  const auto [wrong, _] = std::ranges::mismatch(actual, expected);
  return testing::AssertionFailure() << "byte " << wrong - actual.begin() << " of " << actual.size();
}

TEST_P(Copies, pack_cut_and_merge_every_row) {
  const PackedLayout layout(lengths(), 12, zigzag3);
  const Bytes ragged = bytes(layout.num_tokens(), 1);
  const Bytes pad_row = bytes(1, 2);
  const auto local_bytes = static_cast<std::size_t>(layout.local_rows()) * row_bytes();
  std::vector<Target> together;
  std::vector<std::span<std::byte>> buffers;
  for (std::size_t r = 0; r < 3; ++r) together.emplace_back(local_bytes, GetParam().misaligned + r);
  for (Target& target : together) buffers.push_back(target.span());
  pack_all_ranks(layout, ragged, pad_row, buffers);

  Target merged(ragged.size(), GetParam().misaligned);
  for (const CpRank rank : all_ranks(zigzag3)) {
    Bytes expected = repeat_rows(pad_row, layout.local_rows());
    for (const PackedRun& run : packed_runs(layout, rank)) {
      const std::int64_t first = layout.cu_seqlens()[static_cast<std::size_t>(run.index)];
      copy_rows(ragged, first + run.sequence.begin, expected, run.local, run.sequence.size());
    }
    EXPECT_TRUE(hold(together[rank.index()], expected));
    unpack_rows(layout, rank, together[rank.index()].span(), merged.span());
  }
  EXPECT_TRUE(hold(merged, ragged));

  Target merged_together(ragged.size(), GetParam().misaligned);
  unpack_all_ranks(layout, std::vector<std::span<const std::byte>>(buffers.begin(), buffers.end()),
                   merged_together.span());
  EXPECT_TRUE(hold(merged_together, ragged));
}

TEST_P(Copies, pack_without_context_parallelism) {
  const PackedLayout layout(lengths(), 4, {});
  const Bytes ragged = bytes(layout.num_tokens(), 3);
  const Bytes pad_row = bytes(1, 4);
  Bytes expected = repeat_rows(pad_row, layout.num_rows());
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    copy_rows(ragged, layout.cu_seqlens()[at], expected, layout.cu_seqlens_padded()[at], layout.length(i));
  }
  Target packed(expected.size(), GetParam().misaligned);
  pack_rows(layout, CpRank{0}, ragged, pad_row, packed.span());
  EXPECT_TRUE(hold(packed, expected));
}

TEST_P(Copies, give_the_same_bytes_with_any_number_of_threads) {
  const PackedLayout layout(lengths(), 12, zigzag3);
  const Bytes ragged = bytes(layout.num_tokens(), 1);
  const Bytes pad_row = bytes(1, 2);
  const auto local_bytes = static_cast<std::size_t>(layout.local_rows()) * row_bytes();
  std::vector<Bytes> alone(3, Bytes(local_bytes));
  for (const CpRank rank : all_ranks(zigzag3)) pack_rows(layout, rank, ragged, pad_row, alone[rank.index()]);
  for (const std::int64_t threads : {2, 3, 8}) {
    std::vector<Target> together(3, Target(local_bytes, GetParam().misaligned));
    std::vector<std::span<std::byte>> buffers;
    for (Target& target : together) buffers.push_back(target.span());
    pack_all_ranks(layout, ragged, pad_row, buffers, threads);
    Target merged(ragged.size(), GetParam().misaligned);
    for (const CpRank rank : all_ranks(zigzag3)) {
      Target one(local_bytes, GetParam().misaligned);
      pack_rows(layout, rank, ragged, pad_row, one.span(), threads);
      EXPECT_TRUE(hold(one, alone[rank.index()]));
      EXPECT_TRUE(hold(together[rank.index()], alone[rank.index()]));
      unpack_rows(layout, rank, one.span(), merged.span(), threads);
    }
    EXPECT_TRUE(hold(merged, ragged));
    Target merged_together(ragged.size(), GetParam().misaligned);
    unpack_all_ranks(layout, std::vector<std::span<const std::byte>>(buffers.begin(), buffers.end()),
                     merged_together.span(), threads);
    EXPECT_TRUE(hold(merged_together, ragged));
  }
}

TEST(SharedCopies, reject_zero_threads) {
  const PackedLayout layout(Lengths{5}, 1, {});
  Bytes rows(5);
  Bytes packed(5);
  EXPECT_THROW(pack_rows(layout, CpRank{0}, rows, {}, packed, 0), InputError);
}

TEST_P(Copies, remove_and_restore_padding_on_either_side) {
  const Lengths rows = lengths();
  const std::int64_t seq = std::ranges::max(rows) + 3;
  for (const PaddingSide side : {PaddingSide::right, PaddingSide::left}) {
    const TokenPlaces places(rows, seq, side);
    const std::vector<std::uint8_t> entries = places.mask();
    const PaddedMask mask{static_cast<std::int64_t>(rows.size()), seq, entries};
    const Bytes ragged = bytes(places.size(), 5);
    const Bytes pad_row = bytes(1, 6);
    Bytes expected = repeat_rows(pad_row, std::ssize(entries));
    for (std::int64_t row = 0, token = 0; row < mask.batch; ++row) {
      const std::int64_t length = rows[static_cast<std::size_t>(row)];
      const std::int64_t column = side == PaddingSide::right ? 0 : seq - length;
      copy_rows(ragged, token, expected, row * seq + column, length);
      token += length;
    }
    Target padded(expected.size(), GetParam().misaligned);
    restore_padding(mask, row_bytes(), ragged, pad_row, padded.span());
    EXPECT_TRUE(hold(padded, expected));
    if (side == PaddingSide::right) {
      Target right(expected.size(), GetParam().misaligned);
      pad_right(rows, {}, seq, row_bytes(), ragged, pad_row, right.span());
      EXPECT_TRUE(hold(right, expected));
    }
    Target restored(ragged.size(), GetParam().misaligned);
    remove_padding(mask, row_bytes(), padded.span(), restored.span());
    EXPECT_TRUE(hold(restored, ragged));
  }
}

TEST_P(Copies, move_tokens_from_place_to_place) {
  const Lengths rows = lengths();
  const std::int64_t seq = std::ranges::max(rows);
  const TokenPlaces from(rows, seq, PaddingSide::left);
  const TokenPlaces to(rows, seq, PaddingSide::right);
  const RowFormat format{row_bytes()};
  const Bytes source = bytes(from.shape().batch * seq, 7);
  Bytes expected(source.size());
  for (std::int64_t row = 0; row < from.shape().batch; ++row) {
    const std::int64_t length = rows[static_cast<std::size_t>(row)];
    copy_rows(source, (row + 1) * seq - length, expected, row * seq, length);
  }
  Target moved(source.size(), GetParam().misaligned);
  move_tokens(from, to, format, source, moved.span());
  fill_padding(to, format, {}, moved.span());
  EXPECT_TRUE(hold(moved, expected));
}

TEST_P(Copies, group_and_ungroup_prefixes_and_suffixes) {
  const Lengths all = lengths();
  std::vector<std::vector<std::int64_t>> groups;
  for (std::size_t i = 0; i + 3 <= all.size(); i += 3) {
    groups.push_back({all[i] + 1, all[i + 1] + 1, all[i + 2] + 1});
  }
  if (groups.empty()) groups.push_back({1, 2, 1});
  const PrefixLayout layout{PrefixGroups(groups)};
  const auto rows = [](const TokenPlaces& places) { return places.shape().batch * places.shape().width; };
  const TokenPlaces& in_prefixes = layout.prefix().target;
  const TokenPlaces& in_suffixes = layout.suffix().target;
  const std::int64_t width = layout.grouped().shape().width;

  // Prefixes are padded on the left, suffixes on the right, so a group's tokens are adjacent.
  const Bytes grouped = bytes(rows(layout.grouped()), 8);
  const Bytes pad_row = bytes(1, 9);
  Bytes prefixes = repeat_rows(pad_row, rows(in_prefixes));
  Bytes suffixes = repeat_rows(pad_row, rows(in_suffixes));
  Bytes regrouped = repeat_rows(pad_row, rows(layout.grouped()));
  for (std::int64_t g = 0, suffix = 0; g < std::ssize(groups); ++g) {
    const std::vector<std::int64_t>& group = groups[static_cast<std::size_t>(g)];
    std::int64_t column = group.front();
    copy_rows(grouped, g * width, prefixes, (g + 1) * in_prefixes.shape().width - column, column);
    for (std::size_t member = 1; member < group.size(); column += group[member++]) {
      copy_rows(grouped, g * width + column, suffixes, suffix++ * in_suffixes.shape().width, group[member]);
    }
    copy_rows(grouped, g * width, regrouped, g * width, column);
  }
  Target prefix(prefixes.size(), GetParam().misaligned);
  Target suffix(suffixes.size(), GetParam().misaligned);
  testing_support::ungroup(layout, {row_bytes()}, grouped, pad_row, prefix.span(), suffix.span());
  EXPECT_TRUE(hold(prefix, prefixes));
  EXPECT_TRUE(hold(suffix, suffixes));
  Target together(regrouped.size(), GetParam().misaligned);
  testing_support::group(layout, {row_bytes()}, prefix.span(), suffix.span(), pad_row, together.span());
  EXPECT_TRUE(hold(together, regrouped));
}

INSTANTIATE_TEST_SUITE_P(OfFewBytes, Copies,
                         testing::Values(CopyCase{few, 1, 3}, CopyCase{few, 2, 1}, CopyCase{few, 4, 63},
                                         CopyCase{few, 8, 16}, CopyCase{few, 7, 5}, CopyCase{few, 100, 33}));

INSTANTIATE_TEST_SUITE_P(OfManyBytes, Copies,
                         testing::Values(CopyCase{many_bytes, 1, 5}, CopyCase{many_bytes, 2, 33},
                                         CopyCase{many_bytes, 4, 60}, CopyCase{many_bytes, 7, 63},
                                         CopyCase{many_bytes, 8, 16}, CopyCase{many_bytes, 37, 1},
                                         CopyCase{many_bytes, 64, 0}, CopyCase{many_bytes, 100, 33},
                                         CopyCase{many_bytes, 5003, 7}, CopyCase{many_bytes, 65536, 31}));

}  // namespace
}  // namespace evenkeel
