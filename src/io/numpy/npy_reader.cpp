#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/convert_integers.hpp"
#include "io/numpy/npy.hpp"
#include "io/numpy/npy_header.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t widened_at_once = std::size_t{1} << 20;

/// What stands ahead of the elements.
struct Preamble {
  npy::Header header;
  std::int64_t data_begin = 0;
};

std::string version_of(const NpyBytes& file) {
  std::array<char, npy::length_at> start{};
  if (file.size() < npy::length_at) {
    throw InputError(file.name(), "has " + std::to_string(file.size()) + " bytes; magic and version have 8",
                     std::string(npy::is_whole));
  }
  file.read(start, 0);
  if (!std::string_view(start.data(), start.size()).starts_with(npy::magic)) {
    throw InputError(file.name(), "does not start with \\x93NUMPY", std::string(npy::is_whole));
  }
  const auto number = [&](std::int64_t at) {
    return std::to_string(static_cast<unsigned char>(start[static_cast<std::size_t>(at)]));
  };
  return number(npy::version_at) + "." + number(npy::version_at + 1);
}

template <typename T>
std::int64_t header_length(const NpyBytes& file) {
  std::array<char, sizeof(T)> bytes{};
  if (file.size() < npy::length_at + std::ssize(bytes)) {
    throw InputError(file.name(),
                     "has " + std::to_string(file.size()) + " bytes and ends in the length of its header",
                     std::string(npy::is_whole));
  }
  file.read(bytes, npy::length_at);
  T length{};
  std::memcpy(&length, bytes.data(), bytes.size());
  return length;
}

Preamble read_preamble(const NpyBytes& file) {
  const std::string version = version_of(file);
  if (version != "1.0" && version != "2.0" && version != "3.0") {
    throw InputError(file.name(), "has version " + version + " (at byte 6); known are 1.0, 2.0 and 3.0",
                     "Save it with numpy.save");
  }
  const bool is_short = version == "1.0";
  const std::int64_t begin = npy::length_at + static_cast<std::int64_t>(is_short ? 2 : 4);
  const std::int64_t length =
      is_short ? header_length<std::uint16_t>(file) : header_length<std::uint32_t>(file);
  const auto refuse = [&](const std::string& limit) {
    throw InputError(file.name(),
                     "has a header of " + std::to_string(length) + " bytes (at byte 8); " + limit,
                     std::string(npy::is_whole));
  };
  if (length > npy::max_header_bytes)
    refuse("at most " + std::to_string(npy::max_header_bytes) + " are read");
  if (length > file.size() - begin) refuse(std::to_string(file.size() - begin) + " bytes follow");
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(text, begin);
  return {npy::parse_header(text, file.name(), begin), begin + length};
}

void require_row_order(const npy::Header& header, const std::string& path) {
  const auto wide = std::ranges::count_if(header.shape, [](std::int64_t size) { return size > 1; });
  if (!header.fortran_order || wide <= 1) return;
  throw InputError(path, "holds an array of shape " + npy::text_of(header.shape) + " in Fortran order",
                   "Save numpy.ascontiguousarray(array)");
}

/// Throws unless the elements of the shape take these bytes.
void require_size(const npy::Header& header, std::int64_t bytes, const std::string& path) {
  const std::size_t element = size_of(header.dtype);
  const std::optional<std::int64_t> elements = npy::elements_of(header.shape, element);
  const std::string what =
      "shape " + npy::text_of(header.shape) + " of " + std::string(name_of(header.dtype));
  if (!elements) throw InputError(path, what + " has 2^63 bytes or more", std::string(npy::is_whole));
  const std::int64_t needed = *elements * static_cast<std::int64_t>(element);
  if (needed == bytes) return;
  throw InputError(path,
                   "has " + std::to_string(bytes) + " bytes after its header; " + what + " needs " +
                       std::to_string(needed),
                   std::string(npy::is_whole));
}

}  // namespace

void NpyBytes::read(std::span<char> out, std::int64_t offset) const {
  if (file_) {
    file_->read(out, offset);
    return;
  }
  if (ranges_) return ranges_(out, offset);
  assert(0 <= offset && offset <= std::ssize(memory_) && std::ssize(out) <= std::ssize(memory_) - offset);
  std::ranges::copy(std::span(memory_).subspan(static_cast<std::size_t>(offset), out.size()), out.begin());
}

NpyArray::NpyArray(NpyBytes bytes) : bytes_(std::move(bytes)) {
  Preamble preamble = read_preamble(bytes_);
  require_row_order(preamble.header, bytes_.name());
  require_size(preamble.header, bytes_.size() - preamble.data_begin, bytes_.name());
  dtype_ = preamble.header.dtype;
  shape_ = std::move(preamble.header.shape);
  data_begin_ = preamble.data_begin;
  if (shape_.empty()) return;
  num_rows_ = shape_.front();
  row_elements_ = *npy::elements_of(std::span(shape_).subspan(1), size_of(dtype_));
}

void NpyArray::read_rows(RowRange rows, DType dtype, std::span<std::byte> out) const {
  assert(0 <= rows.begin && rows.begin <= rows.end && rows.end <= num_rows_);
  assert(static_cast<std::int64_t>(out.size()) ==
         rows.size() * row_elements_ * static_cast<std::int64_t>(evenkeel::size_of(dtype)));
  if (!is_lossless(dtype_, dtype)) {
    throw InputError(bytes_.name(),
                     "holds " + std::string(name_of(dtype_)) + ", which cannot be read as " +
                         std::string(name_of(dtype)) + " without loss",
                     "Read it as " + std::string(name_of(column_dtype(dtype_))) +
                         ", or save it with array.astype() of another type");
  }
  const std::int64_t first = rows.begin * row_elements_;
  if (npy::npy_dtype(dtype) != dtype_) {
    convert_rows(first, dtype, out);
    return;
  }
  const std::int64_t place = data_begin_ + first * static_cast<std::int64_t>(size_of(dtype_));
  bytes_.read({reinterpret_cast<char*>(out.data()), out.size()}, place);
  if (dtype != DType::boolean) return;
  const auto bad = std::ranges::find_if(out, [](std::byte value) { return value > std::byte{1}; });
  if (bad == out.end()) return;
  throw InputError(bytes_.name(),
                   "element " + std::to_string(first + (bad - out.begin())) + " (at byte " +
                       std::to_string(place + (bad - out.begin())) + ") of an array of bool is " +
                       std::to_string(std::to_integer<int>(*bad)) + "; it is 0 or 1",
                   "Save (array != 0)");
}

ByteRange NpyArray::bytes_of(RowRange rows) const noexcept {
  const std::int64_t row_bytes = row_elements_ * static_cast<std::int64_t>(size_of(dtype_));
  return {data_begin_ + rows.begin * row_bytes, data_begin_ + rows.end * row_bytes};
}

void NpyArray::convert_rows(std::int64_t first, DType dtype, std::span<std::byte> out) const {
  const std::size_t element = size_of(dtype_);
  const std::size_t wide = evenkeel::size_of(dtype);
  std::vector<char> block(std::min(widened_at_once, out.size() / wide * element));
  while (!out.empty()) {
    const std::span<char> part = std::span(block).first(std::min(block.size(), out.size() / wide * element));
    const std::int64_t place = data_begin_ + first * static_cast<std::int64_t>(element);
    bytes_.read(part, place);
    const std::size_t elements = part.size() / element;
    const std::size_t right = convert_integers(dtype_, dtype, part, out.data());
    if (right < elements) {
      std::uint64_t value = 0;
      std::memcpy(&value, part.data() + right * element, element);
      throw InputError(bytes_.name(),
                       "element " + std::to_string(first + static_cast<std::int64_t>(right)) + " (at byte " +
                           std::to_string(place + static_cast<std::int64_t>(right * element)) + ") is " +
                           std::to_string(value) + "; int64 holds at most " +
                           std::to_string(std::numeric_limits<std::int64_t>::max()),
                       "Save numbers that int64 holds");
    }
    first += static_cast<std::int64_t>(elements);
    out = out.subspan(elements * wide);
  }
}

}  // namespace evenkeel
