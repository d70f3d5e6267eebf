#pragma once

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/shared_groups.hpp"

namespace evenkeel::testing_support {

using Tokens = std::vector<std::int64_t>;

struct BranchingSample {
  std::uint64_t uid = 0;
  Tokens tokens;
  std::int64_t prompt = 0;
};

/// Samples, and the trees of samples with the same uid.
struct BranchingStep {
  LengthTable table;
  std::vector<SharedGroup> trees;
};

inline BranchingStep branching_step(const std::vector<BranchingSample>& samples) {
  std::vector<LengthEntry> entries;
  std::vector<std::span<const std::int64_t>> tokens;
  for (const auto& [uid, own, prompt] : samples) {
    const auto id = static_cast<int>(entries.size());
    entries.push_back({{SampleId{id}, uid, prompt, std::ssize(own) - prompt}, WorldRank{0}, id});
    tokens.emplace_back(own);
  }
  BranchingStep step{LengthTable(std::move(entries)), {}};
  step.trees = prefix_trees(step.table, tokens);
  return step;
}

/// `length` tokens, the first of which are 0, 1, 2, ..., and the rest of which are unique.
inline Tokens path(std::int64_t length, std::int64_t shared) {
  static std::int64_t next = 1000;
  Tokens tokens(static_cast<std::size_t>(length));
  std::iota(tokens.begin(), tokens.begin() + shared, 0);
  std::iota(tokens.begin() + shared, tokens.end(), next);
  next += length;
  return tokens;
}

/// Returns the tokens of some entries; shared tokens are counted once.
inline std::int64_t distinct_tokens(std::span<const SharedGroup> trees, std::span<const EntryId> entries) {
  std::int64_t tokens = 0;
  for (const SharedGroup& group : trees) {
    std::vector<std::int64_t> samples;
    for (std::size_t s = 0; s < group.entries.size(); ++s)
      if (std::ranges::count(entries, group.entries[s]) > 0) samples.push_back(static_cast<std::int64_t>(s));
    tokens += group.tree.subtree(samples).num_rows();
  }
  return tokens;
}

/// Trees with up to seven paths; each path keeps the prompt and a part of an earlier path.
inline BranchingStep any_branching_step() {
  std::vector<BranchingSample> samples;
  const auto trees = *rc::gen::inRange<std::uint64_t>(1, 9);
  for (std::uint64_t uid = 0; uid < trees; ++uid) {
    const std::size_t first = samples.size();
    const auto paths = *rc::gen::inRange<std::size_t>(1, 8);
    const auto prompt = *rc::gen::inRange<std::size_t>(0, 5);
    for (std::size_t p = 0; p < paths; ++p) {
      Tokens tokens = path(static_cast<std::int64_t>(prompt), 0);
      if (p > 0) {
        tokens = samples[first + *rc::gen::inRange<std::size_t>(0, p)].tokens;
        tokens.resize(*rc::gen::inRange<std::size_t>(prompt, tokens.size() + 1));
      }
      const Tokens own = path(*rc::gen::inRange<std::int64_t>(1, 20), 0);
      tokens.insert(tokens.end(), own.begin(), own.end());
      samples.push_back({uid, std::move(tokens), static_cast<std::int64_t>(prompt)});
    }
  }
  return branching_step(samples);
}

}  // namespace evenkeel::testing_support
