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

/// On which side a row is padded.
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
  std::int64_t column = 0;  ///< of the first
  std::int64_t size = 0;    ///< tokens

  friend constexpr bool operator==(TokenRun, TokenRun) = default;
};

/// Where tokens 0..size()-1 are in a padded [batch, width] tensor, as maximal runs in token order: an index
/// list that takes memory for every run, not for every token. Two of them with the same number of tokens
/// describe a copy, in either direction. A value type.
///
/// Example: mask {{0, 1, 1}, {1, 0, 1}} has runs (row 0, column 1, size 2), (1, 0, 1) and (1, 2, 1).
class TokenPlaces {
 public:
  TokenPlaces() = default;
  /// Where the mask is 1, row after row. Throws InputError as lengths_of does. O(batch * width).
  explicit TokenPlaces(const PaddedMask& mask);
  /// Dense rows of these lengths, padded on one side up to `width`. Throws InputError if a length is negative
  /// or too large. O(rows).
  TokenPlaces(std::span<const std::int64_t> lengths, std::int64_t width, PaddingSide side);
  /// Any runs, in token order; empty ones are left out and adjacent ones merged. Throws InputError if one
  /// leaves the shape.
  TokenPlaces(PaddedShape shape, std::span<const TokenRun> runs);

  [[nodiscard]] PaddedShape shape() const noexcept { return shape_; }
  /// Tokens.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const TokenRun> runs() const noexcept { return runs_; }

  /// The places of the tokens in these ranges, in the order of the ranges; a token may occur many times.
  /// Throws InputError if a range leaves 0..size(). Each range costs O(log runs + the runs it touches).
  [[nodiscard]] TokenPlaces select(std::span<const RowRange> tokens) const;

  /// The places one by one. O(size).
  [[nodiscard]] std::vector<TokenPosition> positions() const;
  /// [batch, width], row-major: 1 where there is a token. O(batch * width).
  [[nodiscard]] std::vector<std::uint8_t> mask() const;

  friend bool operator==(const TokenPlaces&, const TokenPlaces&) = default;

 private:
  void append(TokenRun run);

  PaddedShape shape_;
  std::int64_t size_ = 0;
  std::vector<TokenRun> runs_;
  std::vector<std::int64_t> first_token_;  // of each run
};

/// Dense rows padded to the longest of them.
[[nodiscard]] TokenPlaces padded_to_longest(std::span<const std::int64_t> lengths, PaddingSide side);

/// Throws InputError unless the two have the same number of rows, and of tokens in each. O(runs).
void require_same_rows(const TokenPlaces& from, const TokenPlaces& to);

/// What one place holds, in tensors [batch, heads, width, row_bytes]. Heads are for tensors that have them
/// before the sequence; later dimensions are part of row_bytes.
struct RowFormat {
  std::size_t row_bytes = 0;
  std::int64_t heads = 1;
};

/// The two copy kernels of prefix groups. They move bytes in runs and do not know dtypes. Both are local and
/// deterministic, work is proportional to the bytes written, and both throw InputError if the size of a
/// buffer does not match its shape and format.

/// Copies token t from its place in `source` to its place in `target`, for all t and heads; other places of
/// the target do not change. Throws InputError if the numbers of tokens differ. The buffers must not
/// overlap.
void move_tokens(const TokenPlaces& from, const TokenPlaces& to, RowFormat format,
                 std::span<const std::byte> source, std::span<std::byte> target);

/// Fills all places without a token with `pad_row` (empty: zeros). Throws InputError if the places are not in
/// the order of the tensor.
void fill_padding(const TokenPlaces& tokens, RowFormat format, std::span<const std::byte> pad_row,
                  std::span<std::byte> target);

/// What split() does with a prefix that has fewer tokens than suffixes take from it.
enum class ShortPrefix : std::uint8_t {
  error,  ///< throws
  pad,    ///< such a suffix row starts with padding, as in its mask; the number of columns stays
};

/// A map from the tokens of a tensor to those of another.
struct TokenMap {
  TokenPlaces source;
  TokenPlaces target;  ///< as many tokens as source

  friend bool operator==(const TokenMap&, const TokenMap&) = default;
};

/// From a grouped tensor to prefixes (left-padded) and suffixes (right-padded).
struct PrefixSplit {
  TokenMap prefix;
  TokenMap suffix;
};

/// Shared-prefix tensors of b groups with n suffixes, after PrefixGrouper: the places of every token in
///   - the grouped tensor [b, s]: in row g the tokens of group g, `[prefix | suffix 1 | ... | suffix G]`
///     without gaps between them other than the padding asked for;
///   - the prefix tensor [b, sp], sp the longest prefix, left-padded, so that the prefixes' ends line up;
///   - the suffix tensor [n, ss], ss the longest suffix, right-padded, so that the suffixes' starts do.
/// A value type; tensors may have heads and any trailing dimensions (see RowFormat).
///
/// Example: groups {{3, 2, 1}, {2, 4}} make 6 columns; row 0 is `p0 p1 p2 a0 a1 b0` with positions
/// 0 1 2 3 4 3, row 1 is `p0 p1 a0 a1 a2 a3` with positions 0 to 5.
class PrefixLayout {
 public:
  /// Grouped rows without holes, padded to the longest group. O(b + n).
  explicit PrefixLayout(const PrefixGroups& groups, PaddingSide padding = PaddingSide::right);
  /// Grouped rows with tokens where the mask [b, s] is 1. Throws InputError if the mask's number of rows
  /// is not that of the groups, or a row's number of ones is not the group's number of tokens. O(b * s +
  /// n).
  PrefixLayout(const PrefixGroups& groups, const PaddedMask& padding);

  [[nodiscard]] const PrefixGroups& groups() const noexcept { return groups_; }
  /// All tokens in the grouped tensor [b, s]; its mask is the padding mask.
  [[nodiscard]] const TokenPlaces& grouped() const noexcept { return grouped_; }
  /// The prefixes' tokens: where they are in the grouped tensor, and in the prefix tensor [b, sp].
  [[nodiscard]] const TokenMap& prefix() const noexcept { return prefix_; }
  /// The suffixes' tokens: where they are in the grouped tensor, and in the suffix tensor [n, ss].
  [[nodiscard]] const TokenMap& suffix() const noexcept { return suffix_; }

  /// What suffix attention attends to: [n, sp + ss], in row i the prefix of suffix i's group, left-padded to
  /// sp columns, then suffix i. The source has a prefix's tokens once for every suffix of its group, so
  /// gradients must be added up. O(b + n), plus the runs of a mask.
  [[nodiscard]] TokenMap suffix_keys() const;

  /// Moves the last k = `include_prefix_last` tokens of every prefix to each of its suffixes: prefixes [b,
  /// max(sp - k, 0)] and suffixes [n, k + ss], where suffix i starts at column k of row i. With k = 1, row i
  /// has, in order, the tokens that predict each token of suffix i, then the last one. Throws InputError if k
  /// is negative, or if a prefix is shorter and `short_prefix` is `error`; LimitError above 2^31-1. O(b + n),
  /// plus the runs of a mask.
  [[nodiscard]] PrefixSplit split(std::int64_t include_prefix_last,
                                  ShortPrefix short_prefix = ShortPrefix::error) const;

  /// Position ids of the grouped tensor [b, s], row-major: a prefix counts from 0, every suffix from its
  /// prefix's length; `padding` elsewhere.
  [[nodiscard]] std::vector<std::int64_t> position_ids(std::int64_t padding = 0) const;

  /// Key mask of prefix attention, [b, sp]; to be combined with a causal mask aligned at the last query and
  /// key.
  [[nodiscard]] std::vector<std::uint8_t> prefix_attention_mask() const { return prefix_.target.mask(); }
  /// Key mask of suffix attention, [n, sp + ss]; to be combined in the same way.
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
  std::vector<std::int64_t> first_token_;  // of each group
  TokenMap prefix_;
  TokenMap suffix_;
};

}  // namespace evenkeel
