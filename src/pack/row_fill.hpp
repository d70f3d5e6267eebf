#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

/// Bytes of `rows` rows. Precondition: rows >= 0.
[[nodiscard]] constexpr std::size_t bytes_of(std::int64_t rows, std::size_t row_bytes) noexcept {
  EVENKEEL_PRECONDITION(cheap, rows >= 0, rows);
  return static_cast<std::size_t>(rows) * row_bytes;
}

/// Throws InputError naming `what` when a buffer does not have the bytes it needs.
void require_bytes(std::size_t actual, std::size_t needed, const char* what);
/// The same where the product of `factors`, which need not fit into 64 bits, are needed.
void require_bytes(std::size_t actual, std::initializer_list<std::size_t> factors, const char* what);

/// Writes copies of one pad row. Does not own the row, which must outlive it.
class RowFill {
 public:
  /// `pad_row` has row_bytes bytes, or none for zeros. Throws InputError otherwise.
  RowFill(std::span<const std::byte> pad_row, std::size_t row_bytes);

  [[nodiscard]] std::size_t bytes(std::int64_t rows) const noexcept { return bytes_of(rows, row_bytes_); }

  /// As many pad rows as fit into `bytes`, but one at least; nothing when rows have no bytes.
  [[nodiscard]] std::vector<std::byte> repeated(std::size_t bytes) const;

  /// Fills `count` rows from `rows` on.
  void operator()(std::byte* rows, std::int64_t count) const noexcept;

 private:
  std::span<const std::byte> pad_row_;
  std::size_t row_bytes_;
  bool uniform_;  // every byte of the row is the same, so that one memset does
};

}  // namespace evenkeel
