#pragma once

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "evenkeel/pack/prefix/layout.hpp"

namespace evenkeel {

using GroupInfo = std::vector<std::vector<std::int64_t>>;

/// Returns the groups used in most examples: prefix 3 with suffixes 2 and 1, and prefix 2 with one suffix of
/// 4.
inline PrefixGroups two_groups() {
  return PrefixGroups(GroupInfo{{3, 2, 1}, {2, 4}});
}

/// One to four groups of different sizes; prefixes and suffixes may be empty.
inline PrefixGroups arbitrary_groups(std::int64_t longest = 9) {
  GroupInfo info(*rc::gen::inRange<std::size_t>(1, 5));
  for (auto& lengths : info) {
    lengths = *rc::gen::container<std::vector<std::int64_t>>(*rc::gen::inRange<std::size_t>(2, 7),
                                                             rc::gen::inRange<std::int64_t>(0, longest + 1));
  }
  return PrefixGroups(info);
}

/// A [rows, width] mask that owns its entries.
struct OwnedMask {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> entries;

  [[nodiscard]] PaddedMask view() const { return {rows, width, entries}; }
};

/// Returns a mask with arbitrary holes and lengths[i] ones in row i.
inline OwnedMask arbitrary_mask_of(const std::vector<std::int64_t>& lengths) {
  const std::int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  OwnedMask mask{
      static_cast<std::int64_t>(lengths.size()), longest + *rc::gen::inRange<std::int64_t>(0, 4), {}};
  for (const std::int64_t length : lengths) {
    auto left = length;
    for (std::int64_t column = 0; column < mask.width; ++column) {
      const bool needed = mask.width - column == left;
      const bool token = left > 0 && (needed || *rc::gen::arbitrary<bool>());
      mask.entries.push_back(token ? 1 : 0);
      left -= token ? 1 : 0;
    }
  }
  return mask;
}

inline std::vector<std::int64_t> group_lengths(const PrefixGroups& groups) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t g = 0; g < groups.size(); ++g) lengths.push_back(groups.num_tokens(g));
  return lengths;
}

/// Returns the rows of every suffix's sample in tensors [tokens, ...] in the order of the groups.
inline std::vector<std::vector<std::int64_t>> sample_rows(const PrefixGroups& groups) {
  std::vector<std::vector<std::int64_t>> samples;
  for (std::int64_t g = 0, first = 0; g < groups.size(); first += groups.num_tokens(g++)) {
    std::int64_t suffix = first + groups.prefix(g);
    for (std::int64_t i = groups.suffixes_of(g).begin; i < groups.suffixes_of(g).end; ++i) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(groups.prefix(g) + groups.suffix(i)));
      const auto own = rows.begin() + groups.prefix(g);
      std::iota(rows.begin(), own, first);
      std::iota(own, rows.end(), suffix);
      suffix += groups.suffix(i);
      samples.push_back(std::move(rows));
    }
  }
  return samples;
}

inline std::int64_t num_tokens(const PrefixGroups& groups) {
  const std::vector<std::int64_t> lengths = group_lengths(groups);
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

/// Aligned right, left or by a mask.
inline PrefixLayout arbitrary_prefix_layout() {
  const PrefixGroups groups = arbitrary_groups();
  if (*rc::gen::arbitrary<bool>())
    return PrefixLayout(groups, arbitrary_mask_of(group_lengths(groups)).view());
  return PrefixLayout(groups, *rc::gen::element(PaddingSide::right, PaddingSide::left));
}

}  // namespace evenkeel
