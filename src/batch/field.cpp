#include "evenkeel/batch/field.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

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
  column.own_.resize(column.offset_of(rows));
#ifndef NDEBUG
  // New memory is zero more often than not, which would hide rows that nobody wrote.
  if (!column.own_.empty()) std::memset(column.own_.data(), 0xA5, column.own_.size());
#endif
  return column;
}

Column Column::borrowing(FieldSpec spec, std::int64_t rows, std::shared_ptr<const std::byte> first) {
  Column column(std::move(spec), 0);
  column.rows_ = rows;
  column.borrowed_ = std::move(first);
  return column;
}

void Column::resize(std::int64_t rows) {
  own();
  const std::size_t before = own_.size();
  rows_ = rows;
  own_.resize(offset_of(rows));
  if (own_.size() > before) std::memset(own_.data() + before, 0, own_.size() - before);
}

std::shared_ptr<const std::byte> Column::lend() {
  if (!borrowed_) {
    const auto lent = std::make_shared<decltype(own_)>();
    *lent = std::exchange(own_, {});  // takes no memory
    borrowed_ = {lent, lent->data()};
  }
  return borrowed_;
}

void Column::copy_borrowed() {
  own_.assign(borrowed_.get(), borrowed_.get() + offset_of(rows_));
  borrowed_.reset();
}

bool operator==(const Column& a, const Column& b) noexcept {
  return a.spec_ == b.spec_ && a.rows_ == b.rows_ && std::ranges::equal(a.bytes(), b.bytes());
}

void Column::require_dtype(DType dtype) const {
  if (dtype == spec_.dtype) return;
  throw InputError("field '" + spec_.name + "'", "has elements of " + std::string(name_of(spec_.dtype)) +
                                                     ", read as " + std::string(name_of(dtype)));
}

}  // namespace evenkeel
