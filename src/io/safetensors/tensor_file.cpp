#include "io/safetensors/tensor_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"
#include "io/safetensors/header.hpp"
#include "io/safetensors/layout.hpp"

namespace evenkeel {
namespace {

/// float32 represents all whole numbers up to this one exactly.
constexpr double largest_whole_real = 1 << 24;

/// An element type that columns do not support. Its values are read as int64.
constexpr std::string_view unsigned_64 = "U64";

std::optional<DType> supported_dtype(std::string_view stored) {
  const auto* const same = std::ranges::find(all_dtypes, stored, safetensors::name_of);
  if (same != all_dtypes.end()) return *same;
  return stored == unsigned_64 ? std::optional(DType::int64) : std::nullopt;
}

}  // namespace

TensorFile::TensorFile(const std::filesystem::path& path) : file_(path) {
  read_header();
}

TensorFile::TensorFile(const std::string& name, std::string_view content) : file_(name, content) {
  read_header();
}

void TensorFile::read_header() {
  SafetensorsLayout layout = read_safetensors_layout(file_);
  metadata_ = std::move(layout.metadata);
  for (SafetensorsEntry& entry : layout.entries) {
    begins_.push_back(layout.data_begin + entry.begin);
    const std::optional<DType> dtype = supported_dtype(entry.dtype);
    tensors_.push_back({std::move(entry.name), std::move(entry.shape), std::move(entry.dtype), dtype});
  }
}

void TensorFile::read_rows(std::size_t tensor, RowRange rows, std::span<std::byte> out) const {
  const DType dtype = *tensors_[tensor].dtype;
  const std::int64_t first = rows.begin * row_elements(tensors_[tensor]);
  file_.read({reinterpret_cast<char*>(out.data()), out.size()}, byte_offset_of(tensor, first));
  if (dtype == DType::boolean) return require_valid_booleans(tensor, first, out);
  if (tensors_[tensor].stored == unsigned_64) require_below_2_to_63(tensor, first, out);
}

void TensorFile::add_rows_to_read_ahead(std::size_t tensor, RowRange rows, ReadAhead& ahead) const {
  const std::int64_t elements = row_elements(tensors_[tensor]);
  ahead.add(file_,
            {byte_offset_of(tensor, rows.begin * elements), byte_offset_of(tensor, rows.end * elements)});
}

std::int64_t TensorFile::byte_offset_of(std::size_t tensor, std::int64_t element) const {
  return begins_[tensor] + element * static_cast<std::int64_t>(size_of(*tensors_[tensor].dtype));
}

void TensorFile::require_valid_booleans(std::size_t tensor, std::int64_t first,
                                        std::span<const std::byte> values) const {
  const auto bad = std::ranges::find_if(values, [](std::byte value) { return value > std::byte{1}; });
  if (bad == values.end()) return;
  fail(tensor, first + (bad - values.begin()),
       std::to_string(std::to_integer<int>(*bad)) + "; a boolean must be 0 or 1");
}

void TensorFile::require_below_2_to_63(std::size_t tensor, std::int64_t first,
                                       std::span<const std::byte> values) const {
  for (std::size_t i = 0; i < values.size() / sizeof(std::uint64_t); ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, values.data() + i * sizeof value, sizeof value);
    if (std::in_range<std::int64_t>(value)) continue;
    fail(tensor, first + static_cast<std::int64_t>(i),
         std::to_string(value) + "; int64 holds at most " +
             std::to_string(std::numeric_limits<std::int64_t>::max()));
  }
}

void TensorFile::fail(std::size_t tensor, std::int64_t element, const std::string& what) const {
  throw InputError(path(), "tensor '" + tensors_[tensor].name + "' element " + std::to_string(element) +
                               " (at byte " + std::to_string(byte_offset_of(tensor, element)) + ") is " +
                               what);
}

std::optional<std::size_t> TensorFile::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(tensors_, name, &StoredTensor::name);
  if (found == tensors_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tensors_.begin());
}

bool TensorFile::has_integers(std::size_t tensor) const noexcept {
  const std::optional<DType> dtype = tensors_[tensor].dtype;
  return dtype == DType::boolean || (dtype && is_integer(*dtype));
}

std::vector<std::int64_t> TensorFile::read_integers(std::size_t tensor, RowRange rows) const {
  const DType dtype = *tensors_[tensor].dtype;
  const auto count = static_cast<std::size_t>(rows.size() * row_elements(tensors_[tensor]));
  std::vector<std::int64_t> integers(count);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(integers));
  const std::size_t narrow = size_of(dtype);
  // Narrow elements are read into the end of the buffer and then widened into place, starting at its
  // beginning.
  const std::span<std::byte> elements = bytes.last(count * narrow);
  read_rows(tensor, rows, elements);
  const auto widen_reals = [&]<typename T>(T element) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&element, elements.data() + i * sizeof element, sizeof element);
      if (std::trunc(element) != element || std::abs(element) > largest_whole_real) {
        std::array<char, 32> digits;
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), element).ptr;
        fail(tensor, rows.begin * row_elements(tensors_[tensor]) + static_cast<std::int64_t>(i),
             std::string(digits.data(), end) + "; it must be a whole number from -16777216 to 16777216");
      }
      integers[i] = static_cast<std::int64_t>(element);
    }
  };
  if (dtype == DType::float32) {
    widen_reals(float{});
    return integers;
  }
  if (dtype == DType::float64) {
    widen_reals(double{});
    return integers;
  }
  with_integer_type(dtype == DType::boolean ? DType::uint8 : dtype, [&]<typename T>(T element) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&element, elements.data() + i * sizeof element, sizeof element);
      integers[i] = element;
    }
  });
  return integers;
}

std::int64_t row_elements(const StoredTensor& tensor) noexcept {
  std::int64_t elements = 1;
  for (std::size_t d = 1; d < tensor.shape.size(); ++d) elements *= tensor.shape[d];
  return elements;
}

}  // namespace evenkeel
