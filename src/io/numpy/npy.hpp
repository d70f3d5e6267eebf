#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/dtype.hpp"
#include "io/numpy/npy_bytes.hpp"

namespace evenkeel {

/// Element types of NumPy arrays that are read.
enum class NpyDType : std::uint8_t {
  boolean,
  uint8,
  int8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  float32,
  float64,
};

/// NumPy's name, such as "uint16".
[[nodiscard]] std::string_view name_of(NpyDType dtype) noexcept;
/// Bytes of one element.
[[nodiscard]] std::size_t size_of(NpyDType dtype) noexcept;

/// The column type that holds every element: int64 for uint64, if its values fit, else the type of the same
/// name.
[[nodiscard]] DType column_dtype(NpyDType dtype) noexcept;
/// Whether elements can be read as `to`: as the type of the same name, and integers as int32 or int64 where
/// that is as wide or wider. uint64 is read as int64, if its values fit.
[[nodiscard]] bool is_lossless(NpyDType from, DType to) noexcept;

/// A NumPy array, open for reading: what `numpy.save` writes, versions 1.0, 2.0 and 3.0 of the format. Rows
/// are along the first axis. Elements are read when they are asked for; those of a file must stay as they are
/// (InputFile). Reads are local and may come from several threads.
class NpyArray {
 public:
  /// Throws IoError when the file cannot be read, and InputError that says what is wrong with it and at which
  /// byte: magic, version, a header that is no dict of descr, fortran_order and shape, or has more than
  /// 10,000 bytes (NumPy's limit); a dtype that is big-endian or none of NpyDType; an array in Fortran order
  /// with more than one dimension larger than 1; a file with more or fewer bytes than the shape says.
  explicit NpyArray(const std::filesystem::path& path) : NpyArray(NpyBytes(path)) {}
  /// Of bytes that may have come from elsewhere. Throws likewise.
  explicit NpyArray(NpyBytes bytes);

  [[nodiscard]] NpyDType dtype() const noexcept { return dtype_; }
  /// Empty for a scalar.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// The first dimension; 1 for a scalar.
  [[nodiscard]] std::int64_t num_rows() const noexcept { return num_rows_; }
  /// The product of all dimensions but the first.
  [[nodiscard]] std::int64_t row_elements() const noexcept { return row_elements_; }

  /// The file that the array is; null where it is a part of one, or in memory.
  [[nodiscard]] const InputFile* file() const noexcept { return bytes_.file(); }

  /// Fills `out` with rows as elements of `dtype`. Precondition: 0 <= rows.begin <= rows.end <= num_rows(),
  /// and `out` has as many bytes as they take. Throws InputError when is_lossless() says no, and for the
  /// first element that is neither 0 nor 1 in an array of bool, or leaves int64. Throws IoError. O(elements),
  /// with a buffer of at most 1 MiB where elements change their type.
  void read_rows(RowRange rows, DType dtype, std::span<std::byte> out) const;

  /// Where rows are in what the array was read from. Precondition: as read_rows().
  [[nodiscard]] ByteRange bytes_of(RowRange rows) const noexcept;

 private:
  void convert_rows(std::int64_t first, DType dtype, std::span<std::byte> out) const;

  NpyBytes bytes_;
  NpyDType dtype_ = NpyDType::boolean;
  std::vector<std::int64_t> shape_;
  std::int64_t num_rows_ = 1;
  std::int64_t row_elements_ = 1;
  std::int64_t data_begin_ = 0;
};

/// Writes an array in C order, `bytes` row-major and little-endian, with the bytes that `numpy.save` of
/// NumPy 1.24 writes (format 1.0). The file appears whole or not at all (AtomicFile).
///
/// Throws InputError when bytes are not the shape's product times the element size, a dimension is negative,
/// there are more than 32 (NumPy's limit), or the dtype is bfloat16, which NumPy does not have. Throws
/// IoError.
void write_npy(const std::filesystem::path& path, DType dtype, std::span<const std::int64_t> shape,
               std::span<const std::byte> bytes);

}  // namespace evenkeel
