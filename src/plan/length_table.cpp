#include "evenkeel/plan/length_table.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace evenkeel {

LengthTable::LengthTable(std::vector<LengthEntry> entries) : entries_(std::move(entries)) {
  const auto place = [](const LengthEntry& e) { return std::tuple(e.shape.id, e.owner, e.owner_index); };
  // Owners that read one after the other bring their samples in order already.
  if (!std::ranges::is_sorted(entries_, {}, place)) std::ranges::sort(entries_, {}, place);
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

LengthTable LengthTable::part(std::span<const std::int64_t> entries) const {
  LengthTable chosen;
  chosen.entries_.reserve(entries.size());
  for (const std::int64_t entry : entries) chosen.entries_.push_back((*this)[entry]);
  return chosen;
}

}  // namespace evenkeel
