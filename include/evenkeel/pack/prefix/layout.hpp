#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/pack/prefix/groups.hpp"
#include "evenkeel/pack/prefix/token_places.hpp"

namespace evenkeel {

/// What split() does with a prefix that has fewer tokens than suffixes are to take from it.
enum class ShortPrefix : std::uint8_t {
  error,  ///< throws
  pad,    ///< such a suffix row starts with padding, which its mask tells; the number of columns stays
};

/// One way from the tokens of a tensor to those of another.
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
  /// Grouped rows whose tokens stand where the mask [b, s] is 1. Throws InputError when the mask has another
  /// number of rows than there are groups, or in a row another number of ones than the group has tokens.
  /// O(b * s + n).
  PrefixLayout(const PrefixGroups& groups, const PaddedMask& padding);

  [[nodiscard]] const PrefixGroups& groups() const noexcept { return groups_; }
  /// All tokens in the grouped tensor [b, s]; its mask is the padding mask.
  [[nodiscard]] const TokenPlaces& grouped() const noexcept { return grouped_; }
  /// The prefixes' tokens: where they stand in the grouped tensor, and in the prefix tensor [b, sp].
  [[nodiscard]] const TokenMap& prefix() const noexcept { return prefix_; }
  /// The suffixes' tokens: where they stand in the grouped tensor, and in the suffix tensor [n, ss].
  [[nodiscard]] const TokenMap& suffix() const noexcept { return suffix_; }

  /// What suffix attention attends to: [n, sp + ss], in row i the prefix of suffix i's group, left-padded to
  /// sp columns, then suffix i. The source names a prefix's tokens once for every suffix of its group, so
  /// that a gradient goes back by adding. O(b + n), plus the runs of a mask.
  [[nodiscard]] TokenMap suffix_keys() const;

  /// The last `include_prefix_last` tokens k of every prefix handed over to each of its suffixes: prefixes
  /// [b, max(sp - k, 0)] and suffixes [n, k + ss], in whose row i suffix i starts at column k. With k = 1
  /// row i holds, in order, what predicts each token of suffix i, then what follows it. Throws InputError
  /// when k is negative, or when a prefix is shorter and `short_prefix` says so; LimitError
  /// above 2^31-1. O(b + n), plus the runs of a mask.
  [[nodiscard]] PrefixSplit split(std::int64_t include_prefix_last,
                                  ShortPrefix short_prefix = ShortPrefix::error) const;

  /// Position ids of the grouped tensor [b, s], row-major: a prefix counts from 0, every suffix from its
  /// prefix's length; `padding` elsewhere.
  [[nodiscard]] std::vector<std::int64_t> position_ids(std::int64_t padding = 0) const;

  /// Key mask of prefix attention, [b, sp]; causality comes on top, aligned at the last query and key.
  [[nodiscard]] std::vector<std::uint8_t> prefix_attention_mask() const { return prefix_.target.mask(); }
  /// Key mask of suffix attention, [n, sp + ss]; causality comes on top, aligned likewise.
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
