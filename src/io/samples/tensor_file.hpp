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

/// A named array that a file holds, as the file tells it.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string stored;          ///< the file's word for its elements, such as "uint16" or "F8_E4M3"
  std::optional<DType> dtype;  ///< what elements are read as, without loss; none where no column holds them

  /// The first dimension; 1 for a scalar.
  [[nodiscard]] std::int64_t rows() const noexcept { return shape.empty() ? 1 : shape.front(); }
};

/// Named arrays of a safetensors file, open for reading. Headers are read and checked when it is opened,
/// elements when they are asked for; the file must stay as it is (InputFile). Reads are local and may come
/// from several threads.
class TensorFile {
 public:
  TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;
  virtual ~TensorFile() = default;

  /// What errors call it.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;
  /// The files behind it.
  [[nodiscard]] virtual std::vector<const InputFile*> files() const = 0;

  /// Fills `out` with rows along the first axis, as elements of the tensor's dtype, which it must have.
  /// Precondition: 0 <= rows.begin <= rows.end <= rows(), and `out` has as many bytes as they take. Throws
  /// InputError that names the byte of the first element that is no truth value in an array of bool, or
  /// leaves int64. Throws IoError. O(elements).
  virtual void read_rows(std::size_t tensor, RowRange rows, std::span<std::byte> out) const = 0;
  /// Takes note of where read_rows() will read, if that is in a file as it stands. Precondition: as there.
  virtual void expect_rows(std::size_t tensor, RowRange rows, ReadAhead& ahead) const {
    static_cast<void>(tensor), static_cast<void>(rows), static_cast<void>(ahead);
  }
  /// Rows of a tensor of integers as int64, whatever their dtype; also of float32 and float64, with an
  /// InputError unless all are whole numbers up to 2^24.
  [[nodiscard]] std::vector<std::int64_t> read_integers(std::size_t tensor, RowRange rows) const;
  /// Whether read_integers() does.
  [[nodiscard]] bool has_integers(std::size_t tensor) const noexcept;

 protected:
  std::string path_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Elements of a row: the product of all dimensions but the first. Precondition: the shape was checked.
[[nodiscard]] std::int64_t row_elements(const StoredTensor& tensor) noexcept;

/// Throws as SafetensorsFile does; every dtype of the format is known.
[[nodiscard]] std::unique_ptr<TensorFile> open_safetensors(const std::filesystem::path& path);
/// The same of bytes in memory, which must outlive it; errors call them `name`.
[[nodiscard]] std::unique_ptr<TensorFile> open_safetensors(const std::string& name, std::string_view content);

}  // namespace evenkeel
