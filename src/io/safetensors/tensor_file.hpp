#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/dtype.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel {

/// A named array in a file, as described by the file's header.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string stored;          ///< name of the element type in the file, such as "U16" or "F8_E4M3"
  std::optional<DType> dtype;  ///< type in which elements are read without loss; nullopt if there is none

  /// Returns the first dimension, or 1 for a scalar.
  [[nodiscard]] std::int64_t rows() const noexcept { return shape.empty() ? 1 : shape.front(); }
};

/// Named arrays of a safetensors file, open for reading. The header is read and checked on opening; elements
/// are read on demand. The file must not change (see InputFile). Reads are local and thread-safe.
class TensorFile {
 public:
  /// Throws IoError if the file cannot be read, and InputError naming the violated rule: the header fits in
  /// the file and in 100,000,000 bytes, and is a JSON object of well-formed entries with unique names; each
  /// tensor's bytes match its shape and element size; tensors are adjacent, starting at offset 0, and the
  /// last one ends at the end of the file. Accepts every dtype of the format.
  explicit TensorFile(const std::filesystem::path& path);
  /// Opens bytes in memory, which must outlive this object. `name` is their name in errors.
  TensorFile(const std::string& name, std::string_view content);

  /// Returns the file's name in errors.
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;
  /// Returns the underlying file.
  [[nodiscard]] const InputFile& input() const noexcept { return file_; }

  /// Fills `out` with rows along the first axis, as elements of the tensor's dtype. Precondition: the tensor
  /// has a dtype, 0 <= rows.begin <= rows.end <= rows(), and `out` has the size of the rows. Throws
  /// InputError naming the byte of the first element that is neither 0 nor 1 in a boolean tensor, or does not
  /// fit in int64 in a uint64 tensor. Throws IoError if reading fails. O(elements).
  void read_rows(std::size_t tensor, RowRange rows, std::span<std::byte> out) const;
  /// Adds the byte ranges that read_rows() will read to `ahead`. Preconditions: see read_rows().
  void add_rows_to_read_ahead(std::size_t tensor, RowRange rows, ReadAhead& ahead) const;
  /// Returns rows of an integer or boolean tensor as int64. Also accepts float32 and float64, but throws
  /// InputError unless all elements are whole numbers with a magnitude of at most 2^24. Preconditions:
  /// the tensor has one of these dtypes, and `rows` is as for read_rows().
  [[nodiscard]] std::vector<std::int64_t> read_integers(std::size_t tensor, RowRange rows) const;
  /// Returns whether the dtype of the tensor is bool or an integer type.
  [[nodiscard]] bool has_integers(std::size_t tensor) const noexcept;

 private:
  void read_header();
  [[nodiscard]] std::int64_t byte_offset_of(std::size_t tensor, std::int64_t element) const;
  void require_valid_booleans(std::size_t tensor, std::int64_t first,
                              std::span<const std::byte> values) const;
  void require_below_2_to_63(std::size_t tensor, std::int64_t first, std::span<const std::byte> values) const;
  [[noreturn]] void fail(std::size_t tensor, std::int64_t element, const std::string& what) const;

  InputFile file_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::int64_t> begins_;  // offset of each tensor's data, in bytes from the start of the file
  std::map<std::string, std::string> metadata_;
};

/// Returns the number of elements per row: the product of all dimensions except the first. Precondition: the
/// shape was checked.
[[nodiscard]] std::int64_t row_elements(const StoredTensor& tensor) noexcept;

}  // namespace evenkeel
