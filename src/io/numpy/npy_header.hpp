#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/numpy/npy.hpp"

/// A .npy file: magic, version (2 x u8), length of the header (u16; from version 2.0 on u32), the header,
/// which is the literal of a Python dict, spaces and a line feed, then the elements.
namespace evenkeel::npy {

static_assert(std::endian::native == std::endian::little, "arrays are read as little-endian numbers");

inline constexpr std::string_view magic{"\x93NUMPY", 6};
inline constexpr std::int64_t version_at = 6;
inline constexpr std::int64_t length_at = 8;
inline constexpr std::int64_t max_header_bytes = 10'000;
inline constexpr std::size_t max_dimensions = 32;
inline constexpr std::string_view is_whole = "Is this a complete .npy file? numpy.save writes one";

/// What the header says.
struct Header {
  NpyDType dtype = NpyDType::boolean;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads the dict, the spaces and the line feed. `begin` is the place of the text in the file. Throws
/// InputError about the file `path`.
[[nodiscard]] Header parse_header(std::string_view text, const std::string& path, std::int64_t begin);

/// NumPy's word for a dtype, such as "<i8".
[[nodiscard]] std::string_view descr_of(NpyDType dtype) noexcept;

/// The dtype of the same name; none for bfloat16.
[[nodiscard]] std::optional<NpyDType> npy_dtype(DType dtype) noexcept;

/// What stands ahead of an array's elements, and how many bytes those have.
struct Preamble {
  std::string text;
  std::size_t data_bytes = 0;
};

/// The preamble that NumPy 1.24 writes. Throws as write_npy() does for a dtype or a shape, about `path`.
[[nodiscard]] Preamble preamble_for(DType dtype, std::span<const std::int64_t> shape,
                                    const std::string& path);

/// Throws InputError unless there are as many bytes as are needed.
void require_bytes(DType dtype, std::span<const std::int64_t> shape, std::size_t bytes, std::size_t needed,
                   const std::string& path);

/// As Python writes a tuple: "()", "(3,)", "(3, 4)".
[[nodiscard]] std::string text_of(std::span<const std::int64_t> shape);

/// Elements of a shape; none when a dimension is negative, or when they would have 2^63 bytes or more even if
/// the dimensions of 0 were left out, as NumPy has it.
[[nodiscard]] std::optional<std::int64_t> elements_of(std::span<const std::int64_t> shape,
                                                      std::size_t element_bytes) noexcept;

}  // namespace evenkeel::npy
