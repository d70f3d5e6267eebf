#include <algorithm>
#include <unordered_map>

#include "evenkeel/pack/prefix/tree.hpp"

namespace evenkeel {
namespace {

using Samples = std::span<const std::span<const std::int64_t>>;

/// Samples that agree in all tokens in front of `depth`, ascending, and in the one at `depth` unless they are
/// all samples there are.
struct Branch {
  std::vector<std::int64_t> samples;
  std::int64_t parent = -1;
  std::int64_t depth = 0;
};

std::span<const std::int64_t> tokens_of(Samples samples, std::int64_t i) {
  return samples[static_cast<std::size_t>(i)];
}

/// Tokens that all samples of a branch have in common.
std::int64_t common_tokens(Samples samples, const Branch& branch) {
  const auto depth = static_cast<std::size_t>(branch.depth);
  const auto first = tokens_of(samples, branch.samples.front()).subspan(depth);
  std::size_t common = first.size();
  for (const std::int64_t i : branch.samples) {
    const auto other = tokens_of(samples, i).subspan(depth);
    common = static_cast<std::size_t>(std::ranges::mismatch(first.first(common), other).in1 - first.begin());
  }
  return branch.depth + static_cast<std::int64_t>(common);
}

/// The samples of a branch that are longer than `depth`, parted by their next token, in the order of their
/// first samples.
std::vector<Branch> parted(Samples samples, const Branch& branch, std::int64_t parent, std::int64_t depth) {
  std::vector<Branch> parts;
  std::unordered_map<std::int64_t, std::size_t> part_of;
  for (const std::int64_t i : branch.samples) {
    const auto tokens = tokens_of(samples, i).subspan(static_cast<std::size_t>(depth));
    if (tokens.empty()) continue;
    const auto [entry, is_new] = part_of.try_emplace(tokens.front(), parts.size());
    if (is_new) parts.push_back({{}, parent, depth});
    parts[entry->second].samples.push_back(i);
  }
  return parts;
}

}  // namespace

PrefixTree PrefixTree::of_tokens(Samples samples) {
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> ends(samples.size(), -1);
  Branch all;
  for (std::size_t i = 0; i < samples.size(); ++i) all.samples.push_back(static_cast<std::int64_t>(i));
  std::vector<Branch> waiting;  // the next one at the back
  if (!samples.empty()) waiting.push_back(std::move(all));
  while (!waiting.empty()) {
    const Branch branch = std::move(waiting.back());
    waiting.pop_back();
    const std::int64_t depth = common_tokens(samples, branch);
    std::int64_t node = branch.parent;
    if (depth > branch.depth) {
      node = static_cast<std::int64_t>(nodes.size());
      nodes.push_back({branch.parent, depth - branch.depth});
    }
    for (const std::int64_t i : branch.samples) {
      if (std::ssize(tokens_of(samples, i)) == depth) ends[static_cast<std::size_t>(i)] = node;
    }
    std::vector<Branch> parts = parted(samples, branch, node, depth);
    std::ranges::move(parts.rbegin(), parts.rend(), std::back_inserter(waiting));
  }
  return {nodes, std::move(ends)};
}

}  // namespace evenkeel
