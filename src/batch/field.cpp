#include "evenkeel/batch/field.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/dtype.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_bytes = std::numeric_limits<std::int64_t>::max();

}  // namespace

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
    case DType::int8:
      return "int8";
    case DType::int16:
      return "int16";
    case DType::uint16:
      return "uint16";
    case DType::uint32:
      return "uint32";
  }
  return "unknown dtype";
}

std::int64_t FieldSpec::row_elements() const {
  const std::string where = "field '" + name + "'";
  if (std::ranges::any_of(trailing, [](std::int64_t dimension) { return dimension < 0; }))
    throw InputError(where, "has rows of shape " + shape_text(trailing) + "; a dimension cannot be negative");
  if (std::ranges::find(trailing, 0) != trailing.end()) return 0;
  const std::int64_t most = max_bytes / static_cast<std::int64_t>(size_of(dtype));
  std::int64_t elements = 1;
  for (const std::int64_t dimension : trailing) {
    if (dimension > most / elements) {
      throw InputError(where, "has rows of shape " + shape_text(trailing) + ", which have 2^63 bytes or more",
                       "Check the shape");
    }
    elements *= dimension;
  }
  return elements;
}

std::size_t FieldSpec::row_bytes() const {
  return static_cast<std::size_t>(row_elements()) * size_of(dtype);
}

std::size_t FieldSpec::bytes_of(std::int64_t rows) const {
  const std::size_t bytes = row_bytes();
  const auto where = [&] { return "field '" + name + "'"; };
  if (rows < 0)
    throw InputError(where(), "has " + std::to_string(rows) + " rows; a number of rows cannot be negative");
  if (rows > 0 && bytes > static_cast<std::size_t>(max_bytes / rows)) {
    throw InputError(where(), "has " + format_plain_count(rows, "row") + " of " +
                                  format_plain_count(static_cast<std::int64_t>(bytes), "byte") +
                                  "; a column must have fewer than 2^63 bytes");
  }
  return static_cast<std::size_t>(rows) * bytes;
}

Column::Column(const Column& other)
    : spec_(other.spec_),
      row_bytes_(other.row_bytes_),
      rows_(other.rows_),
      samples_(other.samples_),
      own_(other.own_),
      elsewhere_(other.elsewhere_) {
  if (other.elsewhere_ && other.is_placed_) copy_to_own_memory();
}

Column& Column::operator=(const Column& other) {
  if (this != &other) *this = Column(other);
  return *this;
}

// Not inline: in callers that are compiled without optimization, inlined code would destroy the old elements
// byte by byte.
Column& Column::operator=(Column&& other) noexcept = default;

Column::~Column() = default;

Column::Column(FieldSpec spec, std::int64_t rows) : spec_(std::move(spec)), row_bytes_(spec_.row_bytes()) {
  EVENKEEL_PRECONDITION(cheap, rows == 0 || !is_counted(spec_.kind), spec_.name, rows);
  resize_rows(rows);
}

Column::Column(FieldSpec spec, SampleRows samples)
    : spec_(std::move(spec)), row_bytes_(spec_.row_bytes()), samples_(std::move(samples)) {
  EVENKEEL_PRECONDITION(cheap, is_counted(spec_.kind), spec_.name, name_of(spec_.kind));
  resize_rows(samples_.rows());
}

Column Column::uninitialized(FieldSpec spec, std::int64_t rows) {
  return uninitialized(std::move(spec), rows, nullptr);
}

Column Column::uninitialized(FieldSpec spec, SampleRows samples) {
  return uninitialized(std::move(spec), std::move(samples), nullptr);
}

Column Column::uninitialized(FieldSpec spec, std::int64_t rows, std::shared_ptr<std::byte> place) {
  EVENKEEL_PRECONDITION(cheap, rows == 0 || !is_counted(spec.kind), spec.name, rows);
  return uninitialized_rows(std::move(spec), rows, std::move(place));
}

Column Column::uninitialized(FieldSpec spec, SampleRows samples, std::shared_ptr<std::byte> place) {
  EVENKEEL_PRECONDITION(cheap, is_counted(spec.kind), spec.name, name_of(spec.kind));
  Column column = uninitialized_rows(std::move(spec), samples.rows(), std::move(place));
  column.samples_ = std::move(samples);
  return column;
}

Column Column::uninitialized_rows(FieldSpec spec, std::int64_t rows, std::shared_ptr<std::byte> place) {
  Column column(std::move(spec), 0);
  const std::size_t bytes = column.spec_.bytes_of(rows);
  if (place) {
    column.elsewhere_ = std::move(place);
    column.is_placed_ = true;
  } else {
    column.own_.resize(bytes);
  }
  column.rows_ = rows;
  if constexpr (EVENKEEL_ASSERTS(thorough)) {
    // Fill with a pattern: new memory is usually zero, which would hide rows that are never written.
    std::ranges::fill(column.bytes(), std::byte{0xA5});
  }
  return column;
}

Column Column::borrowing(FieldSpec spec, std::int64_t rows, std::shared_ptr<const std::byte> first) {
  EVENKEEL_PRECONDITION(cheap, rows == 0 || !is_counted(spec.kind), spec.name, rows);
  return borrowing_rows(std::move(spec), rows, std::move(first));
}

Column Column::borrowing(FieldSpec spec, SampleRows samples, std::shared_ptr<const std::byte> first) {
  EVENKEEL_PRECONDITION(cheap, is_counted(spec.kind), spec.name, name_of(spec.kind));
  Column column = borrowing_rows(std::move(spec), samples.rows(), std::move(first));
  column.samples_ = std::move(samples);
  return column;
}

Column Column::borrowing_rows(FieldSpec spec, std::int64_t rows, std::shared_ptr<const std::byte> first) {
  Column column(std::move(spec), 0);
  static_cast<void>(column.spec_.bytes_of(rows));
  column.rows_ = rows;
  column.elsewhere_ = std::move(first);
  return column;
}

Column Column::make_counted(Column rows, FieldKind kind, SampleRows samples) {
  EVENKEEL_PRECONDITION(cheap, is_counted(kind) && !is_counted(rows.spec_.kind), name_of(kind));
  if (rows.rows_ != samples.rows()) {
    throw InputError("field '" + rows.spec_.name + "'",
                     "has " + format_plain_count(rows.rows_, "row") + ", but its samples have " +
                         std::to_string(samples.rows()) + " in total",
                     "Make the numbers of rows of the samples add up to the rows of the field");
  }
  rows.spec_.kind = kind;
  rows.samples_ = std::move(samples);
  return rows;
}

void Column::resize(std::int64_t rows) {
  EVENKEEL_PRECONDITION(cheap, !is_counted(spec_.kind), spec_.name, rows);
  resize_rows(rows);
}

void Column::resize_rows(std::int64_t rows) {
  const std::size_t bytes = spec_.bytes_of(rows);
  if (is_borrowed() || (elsewhere_ && rows > rows_)) copy_to_own_memory();
  const std::size_t before = own_.size();
  // A column that still uses memory placed elsewhere does not grow here (see above), so that memory is large
  // enough.
  if (!elsewhere_) own_.resize(bytes);
  rows_ = rows;
  if (own_.size() > before) std::memset(own_.data() + before, 0, own_.size() - before);
}

std::shared_ptr<const std::byte> Column::lend() {
  if (!elsewhere_) {
    const auto lent = std::make_shared<decltype(own_)>();
    *lent = std::exchange(own_, {});
    elsewhere_ = {lent, lent->data()};
  }
  is_placed_ = false;
  return elsewhere_;
}

Column Column::make_borrowing_copy() {
  std::shared_ptr<const std::byte> first = lend();
  return is_counted(spec_.kind) ? borrowing(spec_, samples_, std::move(first))
                                : borrowing(spec_, rows_, std::move(first));
}

Column Column::make_borrowing_copy(SampleRows samples) {
  EVENKEEL_PRECONDITION(cheap, samples.rows() == rows(), spec_.name, samples.rows(), rows());
  return borrowing(spec_, std::move(samples), lend());
}

void Column::copy_to_own_memory() {
  own_.assign(elsewhere_.get(), elsewhere_.get() + offset_of(rows_));
  elsewhere_.reset();
  is_placed_ = false;
}

bool operator==(const Column& a, const Column& b) noexcept {
  return a.spec_ == b.spec_ && a.rows_ == b.rows_ && a.samples_ == b.samples_ &&
         std::ranges::equal(a.bytes(), b.bytes());
}

void Column::require_dtype(DType dtype) const {
  if (dtype == spec_.dtype) return;
  throw InputError("field '" + spec_.name + "'",
                   "has elements of " + std::string(name_of(spec_.dtype)) + ", but they are read as " +
                       std::string(name_of(dtype)),
                   "Read them as " + std::string(name_of(spec_.dtype)));
}

SampleRows SampleRows::from_counts(std::span<const std::int64_t> counts) {
  if (counts.empty()) return {};
  SampleRows made;
  made.offsets_.reserve(counts.size() + 1);
  made.offsets_.push_back(0);
  for (const std::int64_t count : counts) {
    const std::int64_t before = made.offsets_.back();
    const auto where = [&] { return "sample " + std::to_string(made.size()) + " of the batch"; };
    if (count < 0)
      throw InputError(where(),
                       "has " + std::to_string(count) + " rows; a number of rows cannot be negative");
    if (count > std::numeric_limits<std::int64_t>::max() - before) {
      throw InputError(where(), "has " + format_plain_count(count, "row") +
                                    "; together with the samples before it, which have " +
                                    std::to_string(before) + ", the field has 2^63 rows or more");
    }
    made.offsets_.push_back(before + count);
  }
  return made;
}

SampleRows SampleRows::from_offsets(std::vector<std::int64_t> offsets) {
  if (offsets.empty() || offsets.front() != 0 || !std::ranges::is_sorted(offsets)) {
    throw InputError("offsets", "are not prefix sums: they must start at 0 and never decrease",
                     "Begin with 0, and add each sample's number of rows to the previous offset");
  }
  if (offsets.size() == 1) return {};
  SampleRows made;
  made.offsets_ = std::move(offsets);
  return made;
}

SampleRows SampleRows::shared(std::vector<RowRange> ranges, std::int64_t rows) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const RowRange& range = ranges[i];
    if (0 <= range.begin && range.begin <= range.end && range.end <= rows) continue;
    throw InputError("sample " + std::to_string(i) + " of the batch",
                     "has the rows [" + std::to_string(range.begin) + ", " + std::to_string(range.end) +
                         "), which are not a range within the " + format_plain_count(rows, "shared row"));
  }
  SampleRows made;
  made.ranges_ = std::move(ranges);
  made.rows_in_common_ = rows;
  return made;
}

std::string_view name_of(LineFormat format) noexcept {
  switch (format) {
    case LineFormat::rows:
      return "rows";
    case LineFormat::text:
      return "text";
    case LineFormat::bytes:
      return "bytes";
    case LineFormat::axes:
      return "axes";
    case LineFormat::runs:
      return "runs";
  }
  return "unknown format";
}

}  // namespace evenkeel
