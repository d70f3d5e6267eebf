#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/padded.hpp"

namespace evenkeel {

/// The lengths of b prefix groups in tokens: each group has one prefix (a prompt) and any number of suffixes
/// (its responses), at least one. Suffixes are numbered through all groups, 0..n-1. A value type, the
/// `group_info` of PrefixGrouper.
///
/// Example: {{3, 2, 1}, {2, 4}} is two groups: a prefix of 3 with suffixes of 2 and 1, and a prefix of 2 with
/// one suffix of 4; suffix 2 is the only one of group 1.
class PrefixGroups {
 public:
  /// One list for each group: the prefix's length, then those of its suffixes. Lengths may be 0. Throws
  /// InputError if there is no group, a group has no suffix, or a length is negative; LimitError if a group
  /// has more than 2^31-1 tokens. O(b + n).
  explicit PrefixGroups(std::span<const std::vector<std::int64_t>> group_info);

  /// The groups of padded prefixes [b, any] and padded suffixes [n, any], with lengths from the masks; group
  /// g has group_sizes[g] suffixes. Throws InputError if the sizes do not fit the masks, and as above.
  [[nodiscard]] static PrefixGroups from_masks(const PaddedMask& prefix, const PaddedMask& suffix,
                                               std::span<const std::int64_t> group_sizes);
  /// The same with `group_size` suffixes in every group.
  [[nodiscard]] static PrefixGroups from_masks(const PaddedMask& prefix, const PaddedMask& suffix,
                                               std::int64_t group_size);

  /// b
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(prefixes_.size()); }
  /// n
  [[nodiscard]] std::int64_t num_suffixes() const noexcept {
    return static_cast<std::int64_t>(suffixes_.size());
  }
  /// Lengths of all prefixes, b of them.
  [[nodiscard]] std::span<const std::int64_t> prefixes() const noexcept { return prefixes_; }
  /// Lengths of all suffixes, n of them, group after group.
  [[nodiscard]] std::span<const std::int64_t> suffixes() const noexcept { return suffixes_; }
  /// Length of group g's prefix.
  [[nodiscard]] std::int64_t prefix(std::int64_t g) const noexcept {
    return prefixes_[static_cast<std::size_t>(g)];
  }
  /// Length of suffix i.
  [[nodiscard]] std::int64_t suffix(std::int64_t i) const noexcept {
    return suffixes_[static_cast<std::size_t>(i)];
  }
  /// The numbers of group g's suffixes.
  [[nodiscard]] RowRange suffixes_of(std::int64_t g) const noexcept;
  /// Tokens of group g: its prefix once and all its suffixes.
  [[nodiscard]] std::int64_t num_tokens(std::int64_t g) const noexcept;

  friend bool operator==(const PrefixGroups&, const PrefixGroups&) = default;

 private:
  std::vector<std::int64_t> prefixes_;
  std::vector<std::int64_t> suffixes_;
  std::vector<std::int64_t> first_suffix_{0};  // b+1 offsets into suffixes_
  std::vector<std::int64_t> num_tokens_;
};

}  // namespace evenkeel
