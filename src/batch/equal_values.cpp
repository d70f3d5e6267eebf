#include "batch/equal_values.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

/// A sample's value in a counted field: the number of rows and their bytes.
struct SampleValue {
  SampleValue(const Column& column, std::int64_t sample) : rows(column.samples()[sample].size()) {
    const RowRange range = column.samples()[sample];
    bytes = {column.row(range.begin), column.row(range.end)};
  }

  [[nodiscard]] bool equals(const SampleValue& other) const {
    if (rows != other.rows) return false;
    return bytes.empty() || std::memcmp(bytes.data(), other.bytes.data(), bytes.size()) == 0;
  }

  std::int64_t rows;
  std::span<const std::byte> bytes;
};

}  // namespace

std::vector<std::int64_t> first_equal_samples(const Column& column, ByteHash* hash) {
  EVENKEEL_PRECONDITION(cheap, is_counted(column.spec().kind), column.spec().name);
  std::unordered_map<std::uint64_t, std::vector<std::int64_t>> firsts_of_hash;
  std::vector<std::int64_t> firsts;
  firsts.reserve(static_cast<std::size_t>(column.samples().size()));
  for (std::int64_t i = 0; i < column.samples().size(); ++i) {
    const SampleValue value(column, i);
    std::vector<std::int64_t>& candidates = firsts_of_hash[hash(value.bytes)];
    const auto equal = std::ranges::find_if(
        candidates, [&](std::int64_t first) { return SampleValue(column, first).equals(value); });
    firsts.push_back(equal == candidates.end() ? candidates.emplace_back(i) : *equal);
  }
  return firsts;
}

Column with_separate_rows(const Column& column) {
  EVENKEEL_PRECONDITION(cheap, is_counted(column.spec().kind), column.spec().name);
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < column.samples().size(); ++i) counts.push_back(column.samples()[i].size());
  Column own = Column::uninitialized(column.spec(), SampleRows::from_counts(counts));
  auto target = own.bytes().begin();
  for (std::int64_t i = 0; i < column.samples().size(); ++i)
    target = std::ranges::copy(SampleValue(column, i).bytes, target).out;
  return own;
}

}  // namespace evenkeel
