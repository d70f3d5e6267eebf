#include "evenkeel/pack/prefix/groups.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_group_tokens = std::numeric_limits<std::int32_t>::max();

std::string name_of_group(std::size_t group) {
  return "prefix group " + std::to_string(group);
}

/// Returns the number of tokens of one group. Checks each length before adding it, so that the sum cannot
/// overflow.
std::int64_t checked_tokens(std::size_t group, std::span<const std::int64_t> lengths) {
  if (lengths.size() < 2) {
    throw InputError(name_of_group(group), "has no suffix",
                     "Give a prefix length and at least one suffix length");
  }
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0) {
      throw InputError(name_of_group(group), (i == 0 ? "its prefix" : "suffix " + std::to_string(i - 1)) +
                                                 " has length " + std::to_string(lengths[i]) +
                                                 "; a length cannot be negative");
    }
    if (lengths[i] > max_group_tokens - tokens) {
      throw LimitError(name_of_group(group),
                       "has more than " + std::to_string(max_group_tokens) + " tokens in " +
                           format_plain_count(std::ssize(lengths) - 1, "suffix", "suffixes") +
                           " and the prefix",
                       "Split the group");
    }
    tokens += lengths[i];
  }
  return tokens;
}

void require_valid_group_sizes(std::span<const std::int64_t> sizes, std::int64_t groups,
                               std::int64_t suffixes) {
  if (static_cast<std::int64_t>(sizes.size()) != groups) {
    throw InputError("group sizes", format_there_are(std::ssize(sizes), "size") + " for " +
                                        format_plain_count(groups, "prefix", "prefixes"));
  }
  const auto is_negative = [](std::int64_t size) { return size < 0; };
  if (const auto found = std::ranges::find_if(sizes, is_negative); found != sizes.end()) {
    throw InputError("group sizes", "contain " + std::to_string(*found) + "; a size cannot be negative");
  }
  std::int64_t left = suffixes;
  for (const std::int64_t size : sizes) {
    if (size > left) {
      throw InputError("group sizes", "do not add up to the number of suffixes, " + std::to_string(suffixes) +
                                          ": a size of " + std::to_string(size) +
                                          " exceeds the remaining number, " + std::to_string(left));
    }
    left -= size;
  }
  if (left == 0) return;
  throw InputError("group sizes", "leave " + std::to_string(left) + " of " +
                                      format_plain_count(suffixes, "suffix", "suffixes") +
                                      " without a group");
}

}  // namespace

PrefixGroups::PrefixGroups(std::span<const std::vector<std::int64_t>> group_info) {
  if (group_info.empty()) throw InputError("prefix groups", "there are no groups", "Give at least one");
  for (const std::vector<std::int64_t>& lengths : group_info) {
    num_tokens_.push_back(checked_tokens(prefixes_.size(), lengths));
    prefixes_.push_back(lengths.front());
    suffixes_.insert(suffixes_.end(), lengths.begin() + 1, lengths.end());
    first_suffix_.push_back(num_suffixes());
  }
}

PrefixGroups PrefixGroups::from_masks(const PaddedMask& prefix, const PaddedMask& suffix,
                                      std::span<const std::int64_t> group_sizes) {
  const std::vector<std::int64_t> prefixes = lengths_of(prefix);
  const std::vector<std::int64_t> suffixes = lengths_of(suffix);
  require_valid_group_sizes(group_sizes, prefix.batch, suffix.batch);
  std::vector<std::vector<std::int64_t>> group_info;
  auto next = suffixes.begin();
  for (std::size_t g = 0; g < prefixes.size(); ++g) {
    group_info.push_back({prefixes[g]});
    group_info.back().insert(group_info.back().end(), next, next + group_sizes[g]);
    next += group_sizes[g];
  }
  return PrefixGroups(group_info);
}

PrefixGroups PrefixGroups::from_masks(const PaddedMask& prefix, const PaddedMask& suffix,
                                      std::int64_t group_size) {
  const auto groups = static_cast<std::size_t>(std::max(prefix.batch, std::int64_t{0}));
  return from_masks(prefix, suffix, std::vector<std::int64_t>(groups, group_size));
}

RowRange PrefixGroups::suffixes_of(std::int64_t g) const noexcept {
  const auto group = static_cast<std::size_t>(g);
  return {first_suffix_[group], first_suffix_[group + 1]};
}

std::int64_t PrefixGroups::num_tokens(std::int64_t g) const noexcept {
  return num_tokens_[static_cast<std::size_t>(g)];
}

}  // namespace evenkeel
