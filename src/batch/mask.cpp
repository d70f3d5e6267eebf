#include "batch/mask.hpp"

#include <algorithm>
#include <cstring>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

bool contains_rows(const Column& mask, RowRange rows) noexcept {
  return 0 <= rows.begin && rows.begin <= rows.end && rows.end <= mask.rows();
}

/// Calls visit(i, is_set) for row i of the `size` rows that start at `first` and consist of one Word each. A
/// row is set if a bit outside `ignored` is 1. Comparing words instead of bytes allows the compiler to
/// vectorize the loop.
template <typename Word, typename Visit>
void visit_words(const std::byte* first, std::int64_t size, Word ignored, const Visit& visit) noexcept {
  for (std::int64_t i = 0; i < size; ++i) {
    Word word;
    std::memcpy(&word, first + static_cast<std::size_t>(i) * sizeof(Word), sizeof(Word));
    visit(i, (word & static_cast<Word>(~ignored)) != 0);
  }
}

/// Returns the sign bit of a floating-point mask, which is ignored because -0 counts as 0. Returns 0 for
/// other types, and for rows of several elements.
template <typename Word>
Word sign_bit(const FieldSpec& mask) noexcept {
  const bool is_real = mask.dtype == DType::float16 || mask.dtype == DType::bfloat16 ||
                       mask.dtype == DType::float32 || mask.dtype == DType::float64;
  if (!is_real || size_of(mask.dtype) != sizeof(Word)) return 0;
  return static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
}

template <typename Visit>
void visit_rows(const Column& mask, RowRange rows, const Visit& visit) noexcept {
  const std::byte* const first = mask.row(rows.begin);
  const std::int64_t size = rows.size();
  const auto visit_as = [&]<typename Word>(Word) {
    visit_words<Word>(first, size, sign_bit<Word>(mask.spec()), visit);
  };
  switch (mask.row_bytes()) {
    case 1:
      return visit_as(std::uint8_t{});
    case 2:
      return visit_as(std::uint16_t{});
    case 4:
      return visit_as(std::uint32_t{});
    case 8:
      return visit_as(std::uint64_t{});
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
  EVENKEEL_PRECONDITION(cheap, contains_rows(mask, rows), rows.begin, rows.end, mask.rows());
  std::int64_t count = 0;
  visit_rows(mask, rows, [&](std::int64_t, bool is_set) { count += is_set ? 1 : 0; });
  return count;
}

void write_mask(const Column& mask, RowRange rows, float value, std::span<float> out) noexcept {
  EVENKEEL_PRECONDITION(cheap, contains_rows(mask, rows), rows.begin, rows.end, mask.rows());
  EVENKEEL_PRECONDITION(cheap, std::ssize(out) == rows.size(), std::ssize(out), rows.size());
  visit_rows(mask, rows,
             [&](std::int64_t i, bool is_set) { out[static_cast<std::size_t>(i)] = is_set ? value : 0; });
}

}  // namespace evenkeel
