#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "evenkeel/base/ids.hpp"

namespace evenkeel {

/// The first place at or after `from` where the mask holds `value`, or the mask's end.
inline std::int64_t find_in_mask(std::span<const std::uint8_t> mask, std::int64_t from, int value) {
  const auto rest = mask.subspan(static_cast<std::size_t>(from));
  if (rest.empty()) return from;
  const void* found = std::memchr(rest.data(), value, rest.size());
  if (found == nullptr) return static_cast<std::int64_t>(mask.size());
  return static_cast<const std::uint8_t*>(found) - mask.data();
}

/// Calls visit(gap, run) for every maximal run of ones, with the zeros in front of it; the last run may be
/// empty. The mask is one stretch: a [batch, seq] mask is visited as if its rows were one.
template <typename Visit>
void for_each_mask_run(std::span<const std::uint8_t> mask, Visit visit) {
  const auto size = static_cast<std::int64_t>(mask.size());
  for (std::int64_t at = 0; at < size;) {
    const std::int64_t begin = find_in_mask(mask, at, 1);
    const std::int64_t end = find_in_mask(mask, begin, 0);
    visit(RowRange{at, begin}, RowRange{begin, end});
    at = end;
  }
}

}  // namespace evenkeel
