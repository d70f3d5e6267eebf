#include "evenkeel/pack/prefix/layout.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/narrow.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/attention_entries.hpp"
#include "pack/position_runs.hpp"

namespace evenkeel {
namespace {

std::vector<std::int64_t> tokens_per_group(const PrefixGroups& groups) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t g = 0; g < groups.size(); ++g) tokens.push_back(groups.num_tokens(g));
  return tokens;
}

/// Returns the places of the ones in a mask. Throws InputError unless the mask has one row per group, with as
/// many ones as the group has tokens.
TokenPlaces checked_token_places(const PrefixGroups& groups, const PaddedMask& padding) {
  const std::vector<std::int64_t> lengths = lengths_of(padding);
  if (std::ssize(lengths) != groups.size()) {
    throw InputError("padding mask", "has " + format_plain_count(std::ssize(lengths), "row") +
                                         "; it must have " + std::to_string(groups.size()) +
                                         ", one for each prefix group");
  }
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    const std::int64_t length = lengths[static_cast<std::size_t>(g)];
    if (length == groups.num_tokens(g)) continue;
    throw InputError("padding mask", "row " + std::to_string(g) + " has " +
                                         format_plain_count(length, "one") + "; prefix group " +
                                         std::to_string(g) + " has " +
                                         format_plain_count(groups.num_tokens(g), "token"));
  }
  return TokenPlaces(padding);
}

void require_min_prefix_length(const PrefixGroups& groups, std::int64_t needed) {
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    if (groups.prefix(g) >= needed) continue;
    throw InputError("include_prefix_last",
                     "is " + std::to_string(needed) + ", but the prefix of group " + std::to_string(g) +
                         " has only " + format_plain_count(groups.prefix(g), "token"),
                     "Use at most the length of the shortest prefix, or allow padding in its place "
                     "(short_prefix=\"pad\" in Python, pad_short in C)");
  }
}

std::vector<std::int64_t> segment_lengths(const PrefixGroups& groups) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    lengths.push_back(groups.prefix(g));
    const RowRange suffixes = groups.suffixes_of(g);
    for (std::int64_t i = suffixes.begin; i < suffixes.end; ++i) lengths.push_back(groups.suffix(i));
  }
  return lengths;
}

}  // namespace

PrefixLayout::PrefixLayout(const PrefixGroups& groups, PaddingSide padding)
    : PrefixLayout(groups, padded_to_longest(tokens_per_group(groups), padding)) {}

PrefixLayout::PrefixLayout(const PrefixGroups& groups, const PaddedMask& padding)
    : PrefixLayout(groups, checked_token_places(groups, padding)) {}

PrefixLayout::PrefixLayout(PrefixGroups groups, TokenPlaces grouped)
    : groups_(std::move(groups)), grouped_(std::move(grouped)) {
  for (std::int64_t g = 0, first = 0; g < groups_.size(); ++g) {
    first_token_.push_back(first);
    first += groups_.num_tokens(g);
  }
  PrefixSplit parts = split(0);
  prefix_ = std::move(parts.prefix);
  suffix_ = std::move(parts.suffix);
}

RowRange PrefixLayout::prefix_tokens(std::int64_t g) const noexcept {
  const std::int64_t first = first_token_[static_cast<std::size_t>(g)];
  return {first, first + groups_.prefix(g)};
}

TokenMap PrefixLayout::joined_suffixes(std::int64_t columns) const {
  std::vector<RowRange> tokens;
  std::vector<TokenRun> places;
  for (std::int64_t g = 0; g < groups_.size(); ++g) {
    const std::int64_t joined = std::min(columns, groups_.prefix(g));
    const RowRange numbers = groups_.suffixes_of(g);
    std::int64_t first = prefix_tokens(g).end;
    for (std::int64_t i = numbers.begin; i < numbers.end; ++i) {
      tokens.push_back({prefix_tokens(g).end - joined, prefix_tokens(g).end});
      tokens.push_back({first, first + groups_.suffix(i)});
      places.push_back({i, columns - joined, joined + groups_.suffix(i)});
      first += groups_.suffix(i);
    }
  }
  const PaddedShape shape{groups_.num_suffixes(), columns + std::ranges::max(groups_.suffix_lengths())};
  return {grouped_.select(tokens), TokenPlaces(shape, places)};
}

TokenMap PrefixLayout::suffix_keys() const {
  return joined_suffixes(std::ranges::max(groups_.prefix_lengths()));
}

PrefixSplit PrefixLayout::split(std::int64_t include_prefix_last, ShortPrefix short_prefix) const {
  if (include_prefix_last < 0) {
    throw InputError("include_prefix_last",
                     "is " + std::to_string(include_prefix_last) + "; it must be at least 0");
  }
  (void)narrow<std::int32_t>(include_prefix_last, "include_prefix_last");
  if (short_prefix == ShortPrefix::error) require_min_prefix_length(groups_, include_prefix_last);
  std::vector<RowRange> kept;
  std::vector<std::int64_t> lengths;
  for (std::int64_t g = 0; g < groups_.size(); ++g) {
    const RowRange tokens = prefix_tokens(g);
    lengths.push_back(std::max(tokens.size() - include_prefix_last, std::int64_t{0}));
    kept.push_back({tokens.begin, tokens.begin + lengths.back()});
  }
  return {{grouped_.select(kept), padded_to_longest(lengths, PaddingSide::left)},
          joined_suffixes(include_prefix_last)};
}

std::vector<std::int64_t> PrefixLayout::position_ids(std::int64_t padding) const {
  const PaddedShape shape = grouped_.shape();
  std::vector<std::int64_t> positions(static_cast<std::size_t>(shape.batch * shape.width), padding);
  const auto fill_positions = [&](const TokenPlaces& selected, std::int64_t first) {
    for (const TokenRun& run : selected.runs()) {
      const auto at = positions.begin() + run.row * shape.width + run.column;
      std::iota(at, at + run.size, first);
      first += run.size;
    }
  };
  for (std::int64_t g = 0; g < groups_.size(); ++g) {
    RowRange tokens = prefix_tokens(g);
    fill_positions(grouped_.select({&tokens, 1}), 0);
    const RowRange numbers = groups_.suffixes_of(g);
    for (std::int64_t i = numbers.begin; i < numbers.end; ++i) {
      tokens = {tokens.end, tokens.end + groups_.suffix(i)};
      fill_positions(grouped_.select({&tokens, 1}), groups_.prefix(g));
    }
  }
  return positions;
}

PackedPrefixLayout::PackedPrefixLayout(PrefixGroups groups, std::span<const SampleId> samples,
                                       std::int64_t alignment, CpGroup cp)
    : groups_(std::move(groups)), segments_(segment_lengths(groups_), alignment, cp) {
  if (static_cast<std::int64_t>(samples.size()) != groups_.num_suffixes()) {
    throw InputError("prefix groups", format_there_are(std::ssize(samples), "sample") + " for " +
                                          format_plain_count(groups_.num_suffixes(), "suffix", "suffixes"));
  }
  for (std::int64_t g = 0; g < groups_.size(); ++g) {
    const RowRange suffixes = groups_.suffixes_of(g);
    segment_sample_.push_back(filler_sample);
    segment_sample_.insert(segment_sample_.end(), samples.begin() + suffixes.begin,
                           samples.begin() + suffixes.end);
    segment_group_.resize(segment_sample_.size(), g);
  }
}

std::int64_t PackedPrefixLayout::tokens_before(std::int64_t segment) const noexcept {
  const std::int64_t group = segment_group_[static_cast<std::size_t>(segment)];
  return segment == prefix_segment(group) ? 0 : groups_.prefix(group);
}

void derive_position_ids(const PackedPrefixLayout& layout, CpRank rank, std::span<std::int64_t> out) {
  fill_position_ids(
      layout.segments(), rank, [&](std::int64_t segment) { return layout.tokens_before(segment); }, out);
}

PrefixAttentionPlan plan_prefix_attention(const PackedPrefixLayout& layout, CpRank rank) {
  return plan_attention(layout.segments(), rank, [&](std::int64_t segment) {
    std::vector<std::int64_t> before;
    const std::int64_t group = layout.segment_group()[static_cast<std::size_t>(segment)];
    if (segment != layout.prefix_segment(group)) before.push_back(layout.prefix_segment(group));
    return before;
  });
}

std::int64_t score_entries(std::span<const std::int32_t> cu_seqlens_q,
                           std::span<const std::int32_t> cu_seqlens_k) {
  if (cu_seqlens_q.size() != cu_seqlens_k.size()) {
    throw InputError("cu_seqlens_k", "has " +
                                         format_plain_count(std::ssize(cu_seqlens_k), "entry", "entries") +
                                         ", but cu_seqlens_q has " + std::to_string(cu_seqlens_q.size()));
  }
  std::int64_t entries = 0;
  for (std::size_t e = 1; e < cu_seqlens_q.size(); ++e) {
    const std::int64_t queries = std::int64_t{cu_seqlens_q[e]} - cu_seqlens_q[e - 1];
    const std::int64_t keys = std::int64_t{cu_seqlens_k[e]} - cu_seqlens_k[e - 1];
    if (queries < 0) throw InputError("cu_seqlens_q", "decreases at entry " + std::to_string(e));
    if (keys < queries) {
      throw InputError("cu_seqlens_k",
                       "sequence " + std::to_string(e - 1) + " has " + format_plain_count(keys, "key") +
                           ", but " + format_plain_count(queries, "query", "queries"),
                       "Give each sequence at least as many keys as queries");
    }
    entries += queries * (keys - queries) + queries * (queries + 1) / 2;
  }
  return entries;
}

BranchStates branch_states(const PrefixTree& tree) {
  const auto size = static_cast<std::size_t>(tree.size());
  BranchStates states{std::vector<std::int64_t>(size, -1), std::vector<std::int64_t>(size, 0),
                      std::vector<std::int64_t>(size, -1)};
  for (std::int64_t s = 0; s < tree.size(); ++s) {
    const std::int64_t parent = tree.segment(s).parent;
    if (parent < 0) continue;
    const bool is_passed_over = tree.segment(parent).rows.empty();
    const std::int64_t from = is_passed_over ? states.from[static_cast<std::size_t>(parent)] : parent;
    states.from[static_cast<std::size_t>(s)] = from;
    if (from < 0 || tree.segment(s).rows.empty()) continue;
    ++states.uses[static_cast<std::size_t>(from)];
    states.last_use[static_cast<std::size_t>(from)] = s;
  }
  std::vector<std::int64_t> freed_after(size, 0);
  std::int64_t kept = 0;
  for (std::size_t s = 0; s < size; ++s) {
    if (states.uses[s] > 0) {
      ++kept;
      ++freed_after[static_cast<std::size_t>(states.last_use[s])];
    }
    states.peak_kept = std::max(states.peak_kept, kept);
    kept -= freed_after[s];
  }
  return states;
}

}  // namespace evenkeel
