#include <algorithm>
#include <optional>
#include <unordered_map>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/pack/prefix/tree.hpp"

namespace evenkeel {
namespace {

using Samples = std::span<const std::span<const std::int64_t>>;

/// Samples that agree in all tokens in front of `depth`, ascending, whose rows no segment has from there on.
struct Branch {
  std::vector<std::int64_t> samples;
  std::int64_t parent = -1;
  std::int64_t depth = 0;
};

/// What the samples of a branch have in common.
struct Common {
  std::int64_t tokens = 0;
  bool is_all = true;  ///< they are equal
};

std::span<const std::int64_t> tokens_of(Samples samples, std::int64_t i) {
  return samples[static_cast<std::size_t>(i)];
}

Common common_of(Samples samples, const Branch& branch) {
  const auto depth = static_cast<std::size_t>(branch.depth);
  const auto first = tokens_of(samples, branch.samples.front()).subspan(depth);
  std::size_t common = first.size();
  for (const std::int64_t i : branch.samples) {
    const auto other = tokens_of(samples, i).subspan(depth);
    common = static_cast<std::size_t>(std::ranges::mismatch(first.first(common), other).in1 - first.begin());
  }
  const auto ends = [&](std::int64_t i) { return tokens_of(samples, i).size() == depth + common; };
  return {branch.depth + static_cast<std::int64_t>(common), std::ranges::all_of(branch.samples, ends)};
}

/// The samples of a branch that are longer than `depth`, parted by their token behind the common ones or the
/// lack of one, in the order of their first samples.
std::vector<Branch> parted(Samples samples, const Branch& branch, std::int64_t parent, std::int64_t depth,
                           std::int64_t common) {
  std::vector<Branch> parts;
  std::unordered_map<std::int64_t, std::size_t> part_of;
  std::optional<std::size_t> ended;
  for (const std::int64_t i : branch.samples) {
    const auto tokens = tokens_of(samples, i);
    if (std::ssize(tokens) == depth) continue;
    const bool ends = std::ssize(tokens) == common;
    const std::size_t part =
        ends ? ended.value_or(parts.size())
             : part_of.try_emplace(tokens[static_cast<std::size_t>(common)], parts.size()).first->second;
    if (ends) ended = part;
    if (part == parts.size()) parts.push_back({{}, parent, depth});
    parts[part].samples.push_back(i);
  }
  return parts;
}

}  // namespace

PrefixTree PrefixTree::of_tokens(Samples samples, std::int64_t ahead) {
  EVENKEEL_PRECONDITION(cheap, ahead >= 0, ahead);
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> ends(samples.size(), -1);
  Branch all;
  for (std::size_t i = 0; i < samples.size(); ++i) all.samples.push_back(static_cast<std::int64_t>(i));
  std::vector<Branch> waiting;  // the next one at the back
  if (!samples.empty()) waiting.push_back(std::move(all));
  while (!waiting.empty()) {
    const Branch branch = std::move(waiting.back());
    waiting.pop_back();
    const Common common = common_of(samples, branch);
    const std::int64_t depth = common.is_all ? common.tokens : std::max(branch.depth, common.tokens - ahead);
    std::int64_t node = branch.parent;
    if (depth > branch.depth) {
      node = static_cast<std::int64_t>(nodes.size());
      nodes.push_back({branch.parent, depth - branch.depth});
    }
    for (const std::int64_t i : branch.samples) {
      if (std::ssize(tokens_of(samples, i)) == depth) ends[static_cast<std::size_t>(i)] = node;
    }
    std::vector<Branch> parts = parted(samples, branch, node, depth, common.tokens);
    std::ranges::move(parts.rbegin(), parts.rend(), std::back_inserter(waiting));
  }
  return {nodes, std::move(ends)};
}

}  // namespace evenkeel
