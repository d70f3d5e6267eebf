#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/padded.hpp"
#include "evenkeel/pack/prefix/groups.hpp"

namespace evenkeel {

/// The first two dimensions of a padded tensor.
struct PaddedShape {
  std::int64_t batch = 0;
  std::int64_t width = 0;

  friend constexpr bool operator==(PaddedShape, PaddedShape) = default;
};

/// The side on which rows are padded.
enum class PaddingSide : std::uint8_t { right, left };

/// One token's place in a padded tensor.
struct TokenPosition {
  std::int64_t row = 0;
  std::int64_t column = 0;

  friend constexpr bool operator==(TokenPosition, TokenPosition) = default;
};

/// Adjacent tokens of one row.
struct TokenRun {
  std::int64_t row = 0;
  std::int64_t column = 0;  ///< column of the first token
  std::int64_t size = 0;    ///< number of tokens

  friend constexpr bool operator==(TokenRun, TokenRun) = default;
};

/// The places of tokens 0..size()-1 in a padded [batch, width] tensor, as maximal runs in token order: an
/// index list that uses memory per run instead of per token. Two of them with the same number of tokens
/// describe a copy, in either direction. A value type.
///
/// Example: mask {{0, 1, 1}, {1, 0, 1}} has runs (row 0, column 1, size 2), (1, 0, 1) and (1, 2, 1).
class TokenPlaces {
 public:
  TokenPlaces() = default;
  /// Makes the places where the mask is 1, row after row. Throws InputError like lengths_of(). O(batch *
  /// width).
  explicit TokenPlaces(const PaddedMask& mask);
  /// Makes dense rows of these lengths, padded on one side to `width`. Throws InputError if a length is
  /// negative or too large. O(rows).
  TokenPlaces(std::span<const std::int64_t> lengths, std::int64_t width, PaddingSide side);
  /// Makes places from any runs in token order; drops empty runs and merges adjacent ones. Throws InputError
  /// if a run is not within the shape.
  TokenPlaces(PaddedShape shape, std::span<const TokenRun> runs);

  [[nodiscard]] PaddedShape shape() const noexcept { return shape_; }
  /// Returns the number of tokens.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const TokenRun> runs() const noexcept { return runs_; }

  /// Returns the places of the tokens in these ranges, in the order of the ranges; a token may occur many
  /// times. Throws InputError if a range is not within 0..size(). Each range takes O(log runs + the runs that
  /// it overlaps).
  [[nodiscard]] TokenPlaces select(std::span<const RowRange> tokens) const;

  /// Returns the places one by one. O(size).
  [[nodiscard]] std::vector<TokenPosition> positions() const;
  /// Returns a row-major [batch, width] mask that is 1 where there is a token. O(batch * width).
  [[nodiscard]] std::vector<std::uint8_t> mask() const;

  friend bool operator==(const TokenPlaces&, const TokenPlaces&) = default;

 private:
  void append(TokenRun run);

  PaddedShape shape_;
  std::int64_t size_ = 0;
  std::vector<TokenRun> runs_;
  std::vector<std::int64_t> first_token_;  // by run
};

/// Returns dense rows padded to the longest of them.
[[nodiscard]] TokenPlaces padded_to_longest(std::span<const std::int64_t> lengths, PaddingSide side);

/// Throws InputError unless both have the same number of rows and the same number of tokens in each row.
/// O(runs).
void require_same_rows(const TokenPlaces& from, const TokenPlaces& to);

/// The content of one place in tensors [batch, heads, width, row_bytes]. `heads` is for tensors whose head
/// dimension precedes the sequence; later dimensions are part of row_bytes.
struct RowFormat {
  std::size_t row_bytes = 0;
  std::int64_t heads = 1;
};

/// The two copy kernels of prefix groups. They move bytes in runs, independent of dtypes. Both are local and
/// deterministic; work is proportional to the bytes written; both throw InputError if the size of a buffer
/// does not match its shape and format.

/// Copies token t from its place in `source` to its place in `target`, for all t and heads; other places of
/// the target are not changed. Throws InputError if the numbers of tokens differ. The buffers must not
/// overlap.
void move_tokens(const TokenPlaces& from, const TokenPlaces& to, RowFormat format,
                 std::span<const std::byte> source, std::span<std::byte> target);

/// Fills all places without a token with `pad_row` (zeros if empty). Throws InputError if the places are not
/// in the order of the tensor.
void fill_padding(const TokenPlaces& tokens, RowFormat format, std::span<const std::byte> pad_row,
                  std::span<std::byte> target);

/// The behavior of split() if a prefix has fewer tokens than should be moved to its suffixes.
enum class ShortPrefix : std::uint8_t {
  error,  ///< throws
  pad,    ///< such a suffix row starts with padding, also in its mask; the number of columns does not change
};

/// A map from the tokens of a tensor to those of another.
struct TokenMap {
  TokenPlaces source;
  TokenPlaces target;  ///< has the same number of tokens as `source`

  friend bool operator==(const TokenMap&, const TokenMap&) = default;
};

/// Maps from a grouped tensor to prefixes (left-padded) and suffixes (right-padded).
struct PrefixSplit {
  TokenMap prefix;
  TokenMap suffix;
};

/// Shared-prefix tensors of b groups with n suffixes, after PrefixGrouper: the places of every token in
///   - the grouped tensor [b, s]: row g contains the tokens of group g, `[prefix | suffix 1 | ... | suffix
///     G]`, without gaps other than the requested padding;
///   - the left-padded prefix tensor [b, sp], where sp is the longest prefix, so that the ends of the
///     prefixes line up;
///   - the right-padded suffix tensor [n, ss], where ss is the longest suffix, so that the starts of the
///     suffixes line up.
/// A value type; tensors may have heads and any trailing dimensions (see RowFormat).
///
/// Example: groups {{3, 2, 1}, {2, 4}} make 6 columns; row 0 is `p0 p1 p2 a0 a1 b0` with positions
/// 0 1 2 3 4 3, row 1 is `p0 p1 a0 a1 a2 a3` with positions 0 to 5.
class PrefixLayout {
 public:
  /// Makes grouped rows without holes, padded to the longest group. O(b + n).
  explicit PrefixLayout(const PrefixGroups& groups, PaddingSide padding = PaddingSide::right);
  /// Makes grouped rows with tokens where the mask [b, s] is 1. Throws InputError if the mask does not have
  /// one row per group, or if the number of ones in a row is not the group's number of tokens. O(b * s + n).
  PrefixLayout(const PrefixGroups& groups, const PaddedMask& padding);

  [[nodiscard]] const PrefixGroups& groups() const noexcept { return groups_; }
  /// Returns all tokens in the grouped tensor [b, s]; their mask is the padding mask.
  [[nodiscard]] const TokenPlaces& grouped() const noexcept { return grouped_; }
  /// Returns the prefixes' tokens: their places in the grouped tensor and in the prefix tensor [b, sp].
  [[nodiscard]] const TokenMap& prefix() const noexcept { return prefix_; }
  /// Returns the suffixes' tokens: their places in the grouped tensor and in the suffix tensor [n, ss].
  [[nodiscard]] const TokenMap& suffix() const noexcept { return suffix_; }

  /// Returns the keys of suffix attention: a tensor [n, sp + ss] whose row i contains the prefix of suffix
  /// i's group, left-padded to sp columns, then suffix i. The source contains a prefix's tokens once per
  /// suffix of its group, so gradients must be added up. O(b + n), plus the runs of a mask.
  [[nodiscard]] TokenMap suffix_keys() const;

  /// Moves the last k = `include_prefix_last` tokens of every prefix to each of its suffixes: prefixes [b,
  /// max(sp - k, 0)] and suffixes [n, k + ss], where suffix i starts at column k of row i. With k = 1, row i
  /// contains, in order, the tokens that predict each token of suffix i, then the suffix's last token. Throws
  /// InputError if k is negative, or if a prefix is shorter and `short_prefix` is `error`; LimitError above
  /// 2^31-1. O(b + n), plus the runs of a mask.
  [[nodiscard]] PrefixSplit split(std::int64_t include_prefix_last,
                                  ShortPrefix short_prefix = ShortPrefix::error) const;

  /// Returns the position ids of the grouped tensor [b, s], row-major: a prefix counts from 0, every suffix
  /// from its prefix's length; `padding` elsewhere.
  [[nodiscard]] std::vector<std::int64_t> position_ids(std::int64_t padding = 0) const;

  /// Returns the key mask of prefix attention, [b, sp], to be combined with a causal mask aligned at the last
  /// query and key.
  [[nodiscard]] std::vector<std::uint8_t> prefix_attention_mask() const { return prefix_.target.mask(); }
  /// Returns the key mask of suffix attention, [n, sp + ss], to be combined in the same way.
  [[nodiscard]] std::vector<std::uint8_t> suffix_attention_mask() const {
    return suffix_keys().target.mask();
  }

  friend bool operator==(const PrefixLayout&, const PrefixLayout&) = default;

 private:
  PrefixLayout(PrefixGroups groups, TokenPlaces grouped);

  [[nodiscard]] RowRange prefix_tokens(std::int64_t g) const noexcept;
  [[nodiscard]] TokenMap joined_suffixes(std::int64_t columns) const;

  PrefixGroups groups_;
  TokenPlaces grouped_;
  std::vector<std::int64_t> first_token_;  // by group
  TokenMap prefix_;
  TokenMap suffix_;
};

}  // namespace evenkeel
