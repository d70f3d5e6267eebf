#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/dtype.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel {

/// A named array in a file, as described by the file.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string stored;          ///< the file's name of its element type, such as "uint16" or "F8_E4M3"
  std::optional<DType> dtype;  ///< lossless type for reading; nullopt if columns have no such type

  /// Returns the first dimension, or 1 for a scalar.
  [[nodiscard]] std::int64_t rows() const noexcept { return shape.empty() ? 1 : shape.front(); }
};

/// Named arrays of a safetensors file, open for reading. Headers are read and checked on opening; elements
/// are read on demand. The file must not change (InputFile). Reads are local and thread-safe.
class TensorFile {
 public:
  TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;
  virtual ~TensorFile() = default;

  /// Returns the file's name in errors.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;
  /// Returns the underlying files.
  [[nodiscard]] virtual std::vector<const InputFile*> files() const = 0;

  /// Fills `out` with rows along the first axis, as elements of the tensor's dtype. Precondition: the tensor
  /// has a dtype, 0 <= rows.begin <= rows.end <= rows(), and `out` has the size of the rows. Throws
  /// InputError naming the byte of the first element that is neither 0 nor 1 in a boolean tensor, or does not
  /// fit in int64 in a uint64 tensor. Throws IoError. O(elements).
  virtual void read_rows(std::size_t tensor, RowRange rows, std::span<std::byte> out) const = 0;
  /// Adds the byte ranges that read_rows() will read to `ahead`, if they are in a file. Has the preconditions
  /// of read_rows().
  virtual void add_rows_to_read_ahead(std::size_t tensor, RowRange rows, ReadAhead& ahead) const {
    static_cast<void>(tensor), static_cast<void>(rows), static_cast<void>(ahead);
  }
  /// Returns rows of an integer tensor as int64. Also accepts float32 and float64, but throws InputError
  /// unless all elements are whole numbers with a magnitude of at most 2^24.
  [[nodiscard]] std::vector<std::int64_t> read_integers(std::size_t tensor, RowRange rows) const;
  /// Returns whether the tensor has integers or booleans, so read_integers() does not depend on its values.
  [[nodiscard]] bool has_integers(std::size_t tensor) const noexcept;

 protected:
  std::string path_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Returns the number of elements per row: the product of all dimensions except the first. Precondition: the
/// shape was checked.
[[nodiscard]] std::int64_t row_elements(const StoredTensor& tensor) noexcept;

/// Throws the errors of SafetensorsFile, but accepts every dtype of the format.
[[nodiscard]] std::unique_ptr<TensorFile> open_safetensors(const std::filesystem::path& path);
/// Opens bytes in memory, which must outlive the result. `name` is their name in errors.
[[nodiscard]] std::unique_ptr<TensorFile> open_safetensors(const std::string& name, std::string_view content);

}  // namespace evenkeel
