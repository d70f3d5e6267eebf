#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/batch/dtype.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {

/// A named array: row-major, little-endian elements. Does not own its bytes.
struct TensorView {
  std::string name;
  DType dtype = DType::int64;
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::span<const std::byte> bytes;
};

/// Writes a safetensors file: the header's length (u64, little endian), a JSON header padded with spaces to a
/// multiple of 8 bytes, then the data without holes. Larger elements come first, then names in order, so that
/// every tensor is aligned to its elements and equal content gives equal files.
///
/// The file appears whole or not at all (AtomicFile). Throws InputError when bytes are not the shape's
/// product times the element size, a dimension is negative, a name is there twice or is "__metadata__", or
/// text is not UTF-8. Throws IoError.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata);

/// The bytes of the same file. Throws likewise.
[[nodiscard]] std::string safetensors_bytes(std::span<const TensorView> tensors,
                                            const std::map<std::string, std::string>& metadata);

/// A safetensors file, read into memory and checked. Owns the bytes its views show; moving keeps them valid.
class SafetensorsFile {
 public:
  /// Throws IoError when the file cannot be read, and InputError that names the rule it breaks: the header
  /// fits in the file and in 100,000,000 bytes, is a JSON object of well-formed entries without a name twice,
  /// each tensor's bytes are its shape's product times the element size, tensors follow each other from 0
  /// without holes or overlap, and the last one ends where the file does.
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  /// Names in the order of the data.
  [[nodiscard]] std::vector<std::string> names() const;
  /// The tensor of that name; its bytes live as long as this object. Throws InputError that lists the names
  /// there are.
  [[nodiscard]] const TensorView& at(std::string_view name) const;

 private:
  std::filesystem::path path_;
  std::vector<std::byte> bytes_;
  std::map<std::string, std::string> metadata_;
  std::vector<TensorView> tensors_;
};

/// Takes bytes of a tensor, in order.
using TensorSink = std::function<void(std::span<const std::byte>)>;

/// A named array whose elements are made while they are written: row-major and little-endian, as many bytes
/// as the shape asks for, in any number of pieces.
struct TensorStream {
  std::string name;
  DType dtype = DType::int64;
  std::vector<std::int64_t> shape;
  std::function<void(const TensorSink&)> write;
};

/// As write_safetensors() with the same tensors, the same bytes. Throws likewise, and what streams throw.
void stream_safetensors(const std::filesystem::path& path, std::span<const TensorStream> tensors,
                        const std::map<std::string, std::string>& metadata);

/// Values as a one-dimensional tensor. Not owned.
template <typename T>
[[nodiscard]] TensorView view_of(std::string name, std::span<const T> values) {
  return {std::move(name), dtype_of<T>, {static_cast<std::int64_t>(values.size())}, std::as_bytes(values)};
}

/// A column as a tensor of [rows, trailing dimensions]. Not owned.
[[nodiscard]] inline TensorView view_of(const Column& column) {
  std::vector<std::int64_t> shape{column.rows()};
  shape.insert(shape.end(), column.spec().trailing.begin(), column.spec().trailing.end());
  return {column.spec().name, column.spec().dtype, std::move(shape), column.bytes()};
}

}  // namespace evenkeel
