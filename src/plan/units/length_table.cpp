#include "evenkeel/plan/length_table.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "base/narrow.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

std::int64_t checked_length(std::span<const std::int64_t> lengths, std::size_t i, const char* what) {
  if (lengths[i] >= 0) return lengths[i];
  throw InputError("sample " + std::to_string(i), "has " + std::string(what) + " of " +
                                                      std::to_string(lengths[i]) +
                                                      " tokens; a length cannot be negative");
}

}  // namespace

LengthTable::LengthTable(std::vector<LengthEntry> entries) : entries_(std::move(entries)) {
  const auto place = [](const LengthEntry& e) { return std::tuple(e.shape.id, e.owner, e.owner_index); };
  // The entries are already sorted if owners read consecutive ranges of samples.
  if (!std::ranges::is_sorted(entries_, {}, place)) std::ranges::sort(entries_, {}, place);
}

LengthTable LengthTable::from_lengths(std::span<const std::int64_t> lengths) {
  return from_lengths(std::vector<std::int64_t>(lengths.size()), lengths);
}

LengthTable LengthTable::from_lengths(std::span<const std::int64_t> prompts,
                                      std::span<const std::int64_t> responses) {
  if (prompts.size() != responses.size()) {
    throw InputError("lengths",
                     format_there_are(std::ssize(prompts), "prompt") + " but " +
                         format_plain_count(std::ssize(responses), "response"),
                     "Give one of each for every sample");
  }
  std::vector<LengthEntry> entries(prompts.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].shape = {SampleId{static_cast<std::int64_t>(i)}, i, checked_length(prompts, i, "a prompt"),
                        checked_length(responses, i, "a response")};
    entries[i].owner_index = narrow<std::int32_t>(i, "the samples of a table");
  }
  return LengthTable(std::move(entries));
}

void LengthTable::set_row_counts(std::vector<RowCounts> counts) noexcept {
  EVENKEEL_PRECONDITION(
      cheap, std::ranges::all_of(counts, [&](const RowCounts& of) { return std::ssize(of.rows) == size(); }),
      counts.size(), size());
  row_counts_ = std::move(counts);
}

void LengthTable::set_field_sums(std::vector<FieldSums> sums) noexcept {
  EVENKEEL_PRECONDITION(
      cheap, std::ranges::all_of(sums, [&](const FieldSums& of) { return std::ssize(of.sums) == size(); }),
      sums.size(), size());
  field_sums_ = std::move(sums);
}

std::int64_t LengthTable::num_tokens() const noexcept {
  return std::accumulate(entries_.begin(), entries_.end(), std::int64_t{0},
                         [](std::int64_t sum, const LengthEntry& e) { return sum + e.shape.length(); });
}

std::vector<std::int64_t> LengthTable::sample_lengths() const {
  std::vector<std::int64_t> lengths;
  lengths.reserve(entries_.size());
  for (const LengthEntry& entry : entries_) lengths.push_back(entry.shape.length());
  return lengths;
}

}  // namespace evenkeel
