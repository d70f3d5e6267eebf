#include "evenkeel/batch/field.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace evenkeel {

std::string_view name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::uint8:
      return "uint8";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
  }
  return "unknown dtype";
}

std::string_view name_of(FieldKind kind) noexcept {
  switch (kind) {
    case FieldKind::token:
      return "token";
    case FieldKind::response_token:
      return "response_token";
    case FieldKind::sample:
      return "sample";
  }
  return "unknown kind";
}

std::int64_t FieldSpec::row_elements() const noexcept {
  return std::accumulate(trailing.begin(), trailing.end(), std::int64_t{1}, std::multiplies<>{});
}

std::size_t FieldSpec::row_bytes() const noexcept {
  return static_cast<std::size_t>(row_elements()) * size_of(dtype);
}

Column::Column(FieldSpec spec, std::int64_t rows) : spec_(std::move(spec)), row_bytes_(spec_.row_bytes()) {
  resize(rows);
}

Column Column::unwritten(FieldSpec spec, std::int64_t rows) {
  Column column(std::move(spec), 0);
  column.rows_ = rows;
  column.bytes_.resize(column.offset_of(rows));
#ifndef NDEBUG
  // New memory is zero more often than not, which would hide rows that nobody wrote.
  std::ranges::fill(column.bytes_, std::byte{0xA5});
#endif
  return column;
}

void Column::resize(std::int64_t rows) {
  const std::size_t before = bytes_.size();
  rows_ = rows;
  bytes_.resize(offset_of(rows));
  if (bytes_.size() > before) std::ranges::fill(std::span(bytes_).subspan(before), std::byte{0});
}

void Column::require_dtype(DType dtype) const {
  if (dtype == spec_.dtype) return;
  throw InputError("field '" + spec_.name + "'", "has elements of " + std::string(name_of(spec_.dtype)) +
                                                     ", read as " + std::string(name_of(dtype)));
}

bool is_set(const Column& column, std::int64_t row) noexcept {
  return std::any_of(column.row(row), column.row(row + 1),
                     [](std::byte byte) { return byte != std::byte{0}; });
}

}  // namespace evenkeel
