#include "exchange/samples/field_ranges.hpp"

#include <algorithm>
#include <cstddef>

#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

OwnRanges::OwnRanges(const RaggedBatch& mine,
                     const std::map<std::string, FieldSettings, std::less<>>& settings, bool sends_messages) {
  for (const auto& [name, field] : settings) {
    if (!travels_narrow(field, sends_messages)) continue;
    const Column* const column = mine.find(name);
    // Whether fields are what is needed is said of those that ranks have agreed on.
    const bool has_integers = column != nullptr && is_integer(column->spec().dtype);
    ranges_[name] = has_integers ? range_of_values(*column) : IntegerRange{};
  }
  words_.resize(2 * ranges_.size());
}

std::map<std::string, IntegerRange, std::less<>>& OwnRanges::agree(const Communicator& comm,
                                                                   std::span<const FieldSpec> fields) {
  const auto is_narrow = [&](const FieldSpec& field) { return ranges_.contains(field.name); };
  if (std::ranges::none_of(fields, is_narrow)) return ranges_;
  std::size_t next = 0;
  for (const auto& [name, range] : ranges_) {
    words_[next++] = ~range.least;  // falls where that rises, and no integer is without
    words_[next++] = range.most;
  }
  comm.all_reduce(words_, Extreme::largest);
  next = 0;
  for (auto& [name, range] : ranges_) {
    range.least = ~words_[next++];
    range.most = words_[next++];
  }
  return ranges_;
}

}  // namespace evenkeel
