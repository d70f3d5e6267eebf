#include "exchange/samples/field_ranges.hpp"

#include <algorithm>

#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

OwnRanges::OwnRanges(const RaggedBatch& mine,
                     const std::map<std::string, FieldSettings, std::less<>>& settings, bool sends_messages) {
  for (const auto& [name, field] : settings) {
    if (!is_sent_narrow(field, sends_messages)) continue;
    const Column* const column = mine.find(name);
    // Fields that are missing or do not contain integers get an empty range here. For fields that do not
    // contain integers, an error is thrown after the ranks have agreed on the fields.
    const bool has_integers = column != nullptr && is_integer(column->spec().dtype);
    ranges_[name] = has_integers ? range_of_values(*column) : IntegerRange{};
  }
}

std::map<std::string, IntegerRange, std::less<>> OwnRanges::agree(const Communicator& comm,
                                                                  std::span<const FieldSpec> fields) const {
  const auto is_narrow = [&](const FieldSpec& field) { return ranges_.contains(field.name); };
  if (std::ranges::none_of(fields, is_narrow)) return ranges_;
  std::vector<std::int64_t> words;
  // Compute minima in the same all-reduce: a minimum is the complement of the maximum of the complements.
  for (const auto& [name, range] : ranges_) words.insert(words.end(), {~range.least, range.most});
  comm.all_reduce(words, ReduceOp::max);
  auto ranges = ranges_;
  auto word = words.begin();
  for (auto& [name, range] : ranges) {
    range.least = ~*word++;
    range.most = *word++;
  }
  return ranges;
}

}  // namespace evenkeel
