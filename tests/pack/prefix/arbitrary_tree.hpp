#pragma once

#include <rapidcheck/gtest.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "evenkeel/pack/prefix/tree.hpp"

namespace evenkeel {

using Tokens = std::vector<std::int64_t>;
using TokenLists = std::vector<Tokens>;

inline PrefixTree tree_of(const TokenLists& samples, std::int64_t ahead = 0) {
  const std::vector<std::span<const std::int64_t>> spans(samples.begin(), samples.end());
  return PrefixTree::from_tokens(spans, ahead);
}

/// Returns the samples used in most examples: `1 2 | 3 | 4 | 5 6 | 7`.
inline TokenLists branching_samples() {
  return {{1, 2, 3, 4}, {1, 2, 3, 5, 6}, {1, 2, 7}};
}

inline Tokens arbitrary_tokens(std::int64_t longest) {
  return *rc::gen::container<Tokens>(*rc::gen::inRange<std::size_t>(0, static_cast<std::size_t>(longest) + 1),
                                     rc::gen::inRange<std::int64_t>(0, 3));
}

/// Returns up to nine samples, most of which start like another one: with branches at any depth, equal
/// samples, samples that others continue, empty samples, and several roots.
inline TokenLists arbitrary_samples(std::int64_t longest = 6) {
  TokenLists samples;
  const auto size = *rc::gen::inRange<std::size_t>(0, 10);
  while (samples.size() < size) {
    Tokens tokens;
    if (!samples.empty() && *rc::gen::inRange(0, 5) != 0) {
      tokens = *rc::gen::elementOf(samples);
      tokens.resize(*rc::gen::inRange<std::size_t>(0, tokens.size() + 1));
    }
    const Tokens tail = arbitrary_tokens(longest);
    tokens.insert(tokens.end(), tail.begin(), tail.end());
    samples.push_back(std::move(tokens));
  }
  return samples;
}

/// Returns the tokens of a tree's rows; throws if two samples have different tokens for one row.
inline Tokens row_tokens(const PrefixTree& tree, const TokenLists& samples) {
  Tokens rows(static_cast<std::size_t>(tree.num_rows()), -1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::vector<std::int64_t> at = tree.rows_of(static_cast<std::int64_t>(i));
    RC_ASSERT(at.size() == samples[i].size());
    for (std::size_t t = 0; t < at.size(); ++t) {
      std::int64_t& row = rows[static_cast<std::size_t>(at[t])];
      RC_ASSERT(row == -1 || row == samples[i][t]);
      row = samples[i][t];
    }
  }
  return rows;
}

}  // namespace evenkeel
