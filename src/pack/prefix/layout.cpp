#include "evenkeel/pack/prefix/layout.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/narrow.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/padded_lengths.hpp"

namespace evenkeel {
namespace {

std::vector<std::int64_t> tokens_of(const PrefixGroups& groups) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t g = 0; g < groups.size(); ++g) tokens.push_back(groups.num_tokens(g));
  return tokens;
}

TokenPlaces masked_rows(const PrefixGroups& groups, const PaddedMask& padding) {
  require_row_lengths(padding, tokens_of(groups), "padding mask", "prefix group");
  return TokenPlaces(padding);
}

void require_prefixes(const PrefixGroups& groups, std::int64_t needed) {
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    if (groups.prefix(g) >= needed) continue;
    throw InputError("include_prefix_last",
                     std::to_string(needed) + " tokens cannot be taken from the prefix of group " +
                         std::to_string(g) + ", which has " + std::to_string(groups.prefix(g)),
                     "Use at most the length of the shortest prefix, or padding (ShortPrefix::pad)");
  }
}

}  // namespace

PrefixLayout::PrefixLayout(const PrefixGroups& groups, PaddingSide padding)
    : PrefixLayout(groups, padded_to_longest(tokens_of(groups), padding)) {}

PrefixLayout::PrefixLayout(const PrefixGroups& groups, const PaddedMask& padding)
    : PrefixLayout(groups, masked_rows(groups, padding)) {}

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
  const PaddedShape shape{groups_.num_suffixes(), columns + std::ranges::max(groups_.suffixes())};
  return {grouped_.select(tokens), TokenPlaces(shape, places)};
}

TokenMap PrefixLayout::suffix_keys() const {
  return joined_suffixes(std::ranges::max(groups_.prefixes()));
}

PrefixSplit PrefixLayout::split(std::int64_t include_prefix_last, ShortPrefix short_prefix) const {
  if (include_prefix_last < 0) {
    throw InputError("include_prefix_last", std::to_string(include_prefix_last) + " is negative");
  }
  (void)narrow<std::int32_t>(include_prefix_last, "include_prefix_last");
  if (short_prefix == ShortPrefix::error) require_prefixes(groups_, include_prefix_last);
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
  const auto count_on = [&](const TokenPlaces& selected, std::int64_t first) {
    for (const TokenRun& run : selected.runs()) {
      const auto at = positions.begin() + run.row * shape.width + run.column;
      std::iota(at, at + run.size, first);
      first += run.size;
    }
  };
  for (std::int64_t g = 0; g < groups_.size(); ++g) {
    RowRange tokens = prefix_tokens(g);
    count_on(grouped_.select({&tokens, 1}), 0);
    const RowRange numbers = groups_.suffixes_of(g);
    for (std::int64_t i = numbers.begin; i < numbers.end; ++i) {
      tokens = {tokens.end, tokens.end + groups_.suffix(i)};
      count_on(grouped_.select({&tokens, 1}), groups_.prefix(g));
    }
  }
  return positions;
}

}  // namespace evenkeel
