#include "io/numpy/npy_header.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>

#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

struct DTypeWords {
  NpyDType dtype;
  std::string_view name;
  std::string_view descr;
  std::size_t bytes;
};

constexpr std::array<DTypeWords, 12> numpy_dtypes{{
    {NpyDType::boolean, "bool", "|b1", 1},
    {NpyDType::uint8, "uint8", "|u1", 1},
    {NpyDType::int8, "int8", "|i1", 1},
    {NpyDType::int16, "int16", "<i2", 2},
    {NpyDType::uint16, "uint16", "<u2", 2},
    {NpyDType::int32, "int32", "<i4", 4},
    {NpyDType::uint32, "uint32", "<u4", 4},
    {NpyDType::int64, "int64", "<i8", 8},
    {NpyDType::uint64, "uint64", "<u8", 8},
    {NpyDType::float16, "float16", "<f2", 2},
    {NpyDType::float32, "float32", "<f4", 4},
    {NpyDType::float64, "float64", "<f8", 8},
}};

const DTypeWords& words_of(NpyDType dtype) noexcept {
  return *std::ranges::find(numpy_dtypes, dtype, &DTypeWords::dtype);
}

/// Reads the literal of a dict with three keys, and nothing else of Python.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path, std::int64_t begin)
      : text_(text), path_(path), begin_(begin) {}

  npy::Header parse() {
    expect('{');
    while (!takes('}')) {
      read_entry();
      if (!takes(',')) {
        expect('}');
        break;
      }
    }
    require(has_descr_, "descr");
    require(has_order_, "fortran_order");
    require(has_shape_, "shape");
    skip_spaces();
    if (text_.substr(at_) != "\n") fail_here("spaces and a line feed at the end");
    return header_;
  }

 private:
  void read_entry() {
    skip_spaces();
    const std::size_t place = at_;
    const std::string_view key = read_string();
    expect(':');
    if (key == "descr") {
      claim(has_descr_, key, place);
      header_.dtype = read_descr();
    } else if (key == "fortran_order") {
      claim(has_order_, key, place);
      header_.fortran_order = read_bool();
    } else if (key == "shape") {
      claim(has_shape_, key, place);
      header_.shape = read_shape();
    } else {
      fail("the header has the unknown key '" + std::string(key) + "'" + at_byte(place), npy::is_whole);
    }
  }

  void claim(bool& seen, std::string_view key, std::size_t place) const {
    if (seen) fail("the header has '" + std::string(key) + "' twice" + at_byte(place), npy::is_whole);
    seen = true;
  }

  void require(bool seen, const char* key) const {
    if (!seen) fail(std::string("the header has no '") + key + "'", npy::is_whole);
  }

  NpyDType read_descr() {
    skip_spaces();
    const std::size_t place = at_;
    if (peek() == '[') {
      fail("holds records of several fields" + at_byte(place) + "; only plain numbers are read",
           "Save each field as an array of its own");
    }
    const std::string_view descr = read_string();
    const auto found = std::ranges::find(numpy_dtypes, descr, &DTypeWords::descr);
    if (found != numpy_dtypes.end()) return found->dtype;
    const std::string what = "holds elements of '" + std::string(descr) + "'" + at_byte(place);
    if (descr.starts_with('>')) {
      fail(what + ", which are big-endian", "Save array.astype(array.dtype.newbyteorder('<'))");
    }
    fail(what + "; supported are bool, integers of 8 to 64 bits and floats of 16 to 64 bits",
         "Save it with array.astype() of one of these");
  }

  bool read_bool() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::string_view(word).size();
        return value;
      }
    }
    fail_here("True or False");
  }

  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> shape;
    expect('(');
    bool comma = true;  // one dimension alone must have one behind it
    while (!takes(')')) {
      if (!comma) fail_here("a comma or ')'");
      shape.push_back(read_integer());
      comma = takes(',');
      if (!comma && shape.size() == 1) fail_here("a comma");
    }
    return shape;
  }

  std::int64_t read_integer() {
    skip_spaces();
    const char* const first = text_.data() + at_;
    const char* const last = text_.data() + text_.size();
    if (peek() < '0' || peek() > '9') fail_here("an integer from 0 up");
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(first, last, value);
    if (error != std::errc{}) fail_here("an integer below 2^63");
    if (*first == '0' && end - first > 1) fail_here("an integer without leading zeros");
    at_ += static_cast<std::size_t>(end - first);
    return value;
  }

  /// The text between two quotation marks of the same kind.
  std::string_view read_string() {
    skip_spaces();
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail_here("a text in quotes");
    const std::size_t begin = at_ + 1;
    const std::size_t end = text_.find_first_of(quote == '"' ? "\"\\\n" : "'\\\n", begin);
    if (end == std::string_view::npos || text_[end] != quote) {
      fail("the header has a text that does not end, or contains a backslash or line feed" + at_byte(at_),
           npy::is_whole);
    }
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  void skip_spaces() { at_ = std::min(text_.find_first_not_of(' ', at_), text_.size()); }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool takes(char wanted) {
    skip_spaces();
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!takes(wanted)) fail_here(std::string("'") + wanted + "'");
  }

  [[nodiscard]] std::string at_byte(std::size_t place) const {
    return " (at byte " + std::to_string(begin_ + static_cast<std::int64_t>(place)) + ")";
  }

  [[noreturn]] void fail_here(const std::string& wanted) const {
    const std::string_view rest = text_.substr(at_, 12);
    const std::string found = rest.empty() ? "ends" : "has '" + std::string(rest) + "'";
    fail("the header " + found + at_byte(at_) + " where " + wanted + " belongs", npy::is_whole);
  }

  [[noreturn]] void fail(const std::string& message, std::string_view hint) const {
    throw InputError(path_, message, std::string(hint));
  }

  std::string_view text_;
  const std::string& path_;
  std::int64_t begin_;
  std::size_t at_ = 0;
  npy::Header header_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

}  // namespace

std::string_view name_of(NpyDType dtype) noexcept {
  return words_of(dtype).name;
}

std::size_t size_of(NpyDType dtype) noexcept {
  return words_of(dtype).bytes;
}

DType column_dtype(NpyDType dtype) noexcept {
  switch (dtype) {
    case NpyDType::boolean:
      return DType::boolean;
    case NpyDType::uint8:
      return DType::uint8;
    case NpyDType::int8:
      return DType::int8;
    case NpyDType::int16:
      return DType::int16;
    case NpyDType::uint16:
      return DType::uint16;
    case NpyDType::int32:
      return DType::int32;
    case NpyDType::uint32:
      return DType::uint32;
    case NpyDType::int64:
    case NpyDType::uint64:
      return DType::int64;
    case NpyDType::float16:
      return DType::float16;
    case NpyDType::float32:
      return DType::float32;
    case NpyDType::float64:
      return DType::float64;
  }
  return DType::boolean;
}

bool is_lossless(NpyDType from, DType to) noexcept {
  const DType own = column_dtype(from);
  if (to == own) return true;
  if (to != DType::int32 && to != DType::int64) return false;
  return is_integer(own) && range_of(to).contains(range_of(own));
}

namespace npy {

Header parse_header(std::string_view text, const std::string& path, std::int64_t begin) {
  return HeaderParser(text, path, begin).parse();
}

std::string_view descr_of(NpyDType dtype) noexcept {
  return words_of(dtype).descr;
}

std::optional<NpyDType> npy_dtype(DType dtype) noexcept {
  const auto found = std::ranges::find(numpy_dtypes, name_of(dtype), &DTypeWords::name);
  return found == numpy_dtypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (const std::int64_t dimension : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(dimension);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::optional<std::int64_t> elements_of(std::span<const std::int64_t> shape,
                                        std::size_t element_bytes) noexcept {
  std::int64_t most = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(element_bytes);
  std::int64_t elements = 1;
  bool is_empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || dimension > most) return std::nullopt;
    is_empty = is_empty || dimension == 0;
    if (dimension == 0) continue;
    elements *= dimension;
    most /= dimension;
  }
  return is_empty ? 0 : elements;
}

}  // namespace npy
}  // namespace evenkeel
