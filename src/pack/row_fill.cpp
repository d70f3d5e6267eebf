#include "row_fill.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

void require_bytes(std::size_t actual, std::size_t needed, const char* what) {
  if (actual == needed) return;
  throw InputError(what,
                   "has " + std::to_string(actual) + " bytes; " + std::to_string(needed) + " are needed");
}

RowFill::RowFill(std::span<const std::byte> pad_row, std::size_t row_bytes)
    : pad_row_(pad_row),
      row_bytes_(row_bytes),
      uniform_(std::ranges::adjacent_find(pad_row, std::not_equal_to{}) == pad_row.end()) {
  if (!pad_row.empty()) require_bytes(pad_row.size(), row_bytes, "pad row");
}

void RowFill::operator()(std::byte* rows, std::int64_t count) const noexcept {
  const std::size_t bytes = bytes_of(count, row_bytes_);
  if (bytes == 0) return;
  if (uniform_) {
    std::memset(rows, pad_row_.empty() ? 0 : std::to_integer<int>(pad_row_.front()), bytes);
    return;
  }
  std::memcpy(rows, pad_row_.data(), row_bytes_);
  for (std::size_t filled = row_bytes_; filled < bytes;) {
    const std::size_t block = std::min(filled, bytes - filled);
    std::memcpy(rows + filled, rows, block);
    filled += block;
  }
}

}  // namespace evenkeel
