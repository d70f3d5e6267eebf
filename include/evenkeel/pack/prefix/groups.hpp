#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/padded.hpp"

namespace evenkeel {

/// The lengths of b prefix groups in tokens: each group has one prefix (a prompt) and any number of suffixes
/// (its responses), at least one. Suffixes are numbered consecutively over all groups, 0..n-1. A value type;
/// PrefixGrouper's `group_info`.
///
/// Example: {{3, 2, 1}, {2, 4}} is two groups: a prefix of 3 with suffixes of 2 and 1, and a prefix of 2 with
/// one suffix of 4; suffix 2 is the only one of group 1.
class PrefixGroups {
 public:
  /// Takes one list per group: the length of the prefix, then those of its suffixes. Lengths may be 0. Throws
  /// InputError if there is no group, a group does not have a suffix, or a length is negative; LimitError if
  /// a group has more than 2^31-1 tokens. O(b + n).
  explicit PrefixGroups(std::span<const std::vector<std::int64_t>> group_info);

  /// Makes the groups of padded prefixes [b, any] and padded suffixes [n, any], with lengths from the masks;
  /// group g has group_sizes[g] suffixes. Throws InputError if the sizes do not fit the masks, and the errors
  /// of the constructor.
  [[nodiscard]] static PrefixGroups from_masks(const PaddedMask& prefix, const PaddedMask& suffix,
                                               std::span<const std::int64_t> group_sizes);
  /// Makes groups from masks like the other from_masks(), with `group_size` suffixes in every group.
  [[nodiscard]] static PrefixGroups from_masks(const PaddedMask& prefix, const PaddedMask& suffix,
                                               std::int64_t group_size);

  /// Returns b.
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(prefixes_.size()); }
  /// Returns n.
  [[nodiscard]] std::int64_t num_suffixes() const noexcept {
    return static_cast<std::int64_t>(suffixes_.size());
  }
  /// Returns the lengths of all b prefixes.
  [[nodiscard]] std::span<const std::int64_t> prefix_lengths() const noexcept { return prefixes_; }
  /// Returns the lengths of all n suffixes, group after group.
  [[nodiscard]] std::span<const std::int64_t> suffix_lengths() const noexcept { return suffixes_; }
  /// Returns the length of group g's prefix.
  [[nodiscard]] std::int64_t prefix(std::int64_t g) const noexcept {
    return prefixes_[static_cast<std::size_t>(g)];
  }
  /// Returns the length of suffix i.
  [[nodiscard]] std::int64_t suffix(std::int64_t i) const noexcept {
    return suffixes_[static_cast<std::size_t>(i)];
  }
  /// Returns the numbers of group g's suffixes.
  [[nodiscard]] RowRange suffixes_of(std::int64_t g) const noexcept;
  /// Returns the number of tokens of group g, counting its prefix once.
  [[nodiscard]] std::int64_t num_tokens(std::int64_t g) const noexcept;

  friend bool operator==(const PrefixGroups&, const PrefixGroups&) = default;

 private:
  std::vector<std::int64_t> prefixes_;
  std::vector<std::int64_t> suffixes_;
  std::vector<std::int64_t> first_suffix_{0};  // b+1 offsets into suffixes_
  std::vector<std::int64_t> num_tokens_;
};

}  // namespace evenkeel
