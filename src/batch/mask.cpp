#include "evenkeel/batch/mask.hpp"

#include <algorithm>
#include <cstring>

namespace evenkeel {
namespace {

/// Calls visit(i, whether row i of the range is set). A row that is a machine word is compared as one, so
/// that the loops over them are loops of vector instructions.
template <typename Word, typename Visit>
void visit_words(const std::byte* first, std::int64_t size, const Visit& visit) noexcept {
  for (std::int64_t i = 0; i < size; ++i) {
    Word word;
    std::memcpy(&word, first + static_cast<std::size_t>(i) * sizeof(Word), sizeof(Word));
    visit(i, word != 0);
  }
}

template <typename Visit>
void visit_rows(const Column& mask, RowRange rows, const Visit& visit) noexcept {
  const std::byte* const first = mask.row(rows.begin);
  const std::int64_t size = rows.size();
  switch (mask.spec().row_bytes()) {
    case 1:
      return visit_words<std::uint8_t>(first, size, visit);
    case 2:
      return visit_words<std::uint16_t>(first, size, visit);
    case 4:
      return visit_words<std::uint32_t>(first, size, visit);
    case 8:
      return visit_words<std::uint64_t>(first, size, visit);
    default:
      break;
  }
  for (std::int64_t i = 0; i < size; ++i) {
    visit(i, std::any_of(mask.row(rows.begin + i), mask.row(rows.begin + i + 1),
                         [](std::byte byte) { return byte != std::byte{0}; }));
  }
}

}  // namespace

std::int64_t count_set(const Column& mask, RowRange rows) noexcept {
  std::int64_t count = 0;
  visit_rows(mask, rows, [&](std::int64_t, bool is_set) { count += is_set ? 1 : 0; });
  return count;
}

void write_where_set(const Column& mask, RowRange rows, float value, std::span<float> out) noexcept {
  visit_rows(mask, rows,
             [&](std::int64_t i, bool is_set) { out[static_cast<std::size_t>(i)] = is_set ? value : 0; });
}

}  // namespace evenkeel
