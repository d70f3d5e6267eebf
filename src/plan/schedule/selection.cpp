#include "plan/schedule/selection.hpp"

#include <algorithm>
#include <numeric>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

Selection::Selection(std::int64_t samples) {
  counts_.samples = counts_.taken = samples;
}

Selection::Selection(std::int64_t samples, const std::function<std::int64_t(std::int64_t)>& tokens_in,
                     const FilterSettings& settings, std::int64_t max_length, std::string_view source)
    : max_length_(settings.too_long == TooLong::error ? 0 : max_length) {
  EVENKEEL_PRECONDITION(cheap, max_length >= 1, max_length);
  counts_.samples = samples;
  for (std::int64_t position = 0; position < samples; ++position) {
    const std::int64_t tokens = tokens_in(position);
    if (tokens == 0 && settings.empty == EmptySample::error) {
      throw InputError(std::string(source), "sample " + std::to_string(position) + " has no tokens",
                       "Fix it, or set batch.empty: drop to leave such samples out");
    }
    if (settings.too_long == TooLong::error && tokens > settings.max_length.value_or(tokens)) {
      throw InputError(std::string(source),
                       "sample " + std::to_string(position) + " has " + format_plain_count(tokens, "token") +
                           "; batch.max_length is " + std::to_string(*settings.max_length),
                       "Raise it, or set batch.too_long to drop, truncate or split");
    }
    add_entries(position, count_entries(tokens, settings));
  }
  if (!takes_whole_samples()) hash_.add(max_length_);
}

// Returns the number of entries of a sample, and updates the counts.
std::int64_t Selection::count_entries(std::int64_t tokens, const FilterSettings& settings) {
  if (tokens == 0 && settings.empty == EmptySample::drop) {
    ++counts_.dropped_empty;
    return 0;
  }
  if (max_length_ == 0 || tokens <= max_length_) return 1;
  if (settings.too_long == TooLong::drop) {
    ++counts_.dropped_too_long;
    counts_.tokens_left_out += tokens;
    return 0;
  }
  if (settings.too_long == TooLong::truncate) {
    ++counts_.truncated;
    counts_.tokens_left_out += tokens - max_length_;
    return 1;
  }
  const std::int64_t pieces = tokens / max_length_ + (tokens % max_length_ != 0 ? 1 : 0);
  ++counts_.split;
  counts_.pieces += pieces;
  return pieces;
}

void Selection::add_entries(std::int64_t position, std::int64_t entries) {
  // Start storing positions only when an entry's number first differs from its sample's position.
  const bool is_apart = counts_.taken != position || entries != 1;
  if (positions_.empty() && is_apart) {
    positions_.resize(static_cast<std::size_t>(counts_.taken));
    std::iota(positions_.begin(), positions_.end(), std::int64_t{0});
  }
  if (!positions_.empty() || is_apart)
    positions_.insert(positions_.end(), static_cast<std::size_t>(entries), position);
  counts_.taken += entries;
  if (entries == 1) return;
  hash_.add(position);
  hash_.add(entries);
}

std::int64_t Selection::position_of(std::int64_t entry) const noexcept {
  EVENKEEL_PRECONDITION(cheap, 0 <= entry && entry < size(), entry, size());
  return positions_.empty() ? entry : positions_[static_cast<std::size_t>(entry)];
}

Piece Selection::piece(std::int64_t entry, std::int64_t tokens) const noexcept {
  const std::int64_t position = position_of(entry);
  if (max_length_ == 0) return {position, {0, tokens}};
  std::int64_t begin = 0;
  if (counts_.split > 0) {
    const auto here = positions_.begin() + entry;
    begin = (here - std::lower_bound(positions_.begin(), here, position)) * max_length_;
  }
  return {position, {begin, std::min(tokens, begin + max_length_)}};
}

}  // namespace evenkeel
