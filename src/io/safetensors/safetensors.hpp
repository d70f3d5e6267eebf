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

/// A named array of row-major, little-endian elements. Does not own its bytes.
struct TensorView {
  std::string name;
  DType dtype = DType::int64;
  std::vector<std::int64_t> shape;  ///< dimensions, outermost first; empty for a scalar
  std::span<const std::byte> bytes;
};

/// Writes a safetensors file: the length of the header (u64, little-endian), a JSON header padded with spaces
/// to a multiple of 8 bytes, and the data without gaps. Tensors are in descending order of element size, then
/// in ascending order of name, so every tensor is aligned to its element size, and files with the same
/// content are identical.
///
/// The file appears completely or not at all (AtomicFile). Throws InputError if the bytes do not match shape
/// and element size, a dimension is negative, a name is repeated or is "__metadata__", a name or metadata
/// string is not UTF-8, or the header exceeds 100,000,000 bytes. Throws IoError if writing fails.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata);

/// Returns the bytes that write_safetensors() would write. Throws InputError in the same cases.
[[nodiscard]] std::string safetensors_bytes(std::span<const TensorView> tensors,
                                            const std::map<std::string, std::string>& metadata);

/// Receives the bytes of a tensor, piece by piece and in order.
using TensorSink = std::function<void(std::span<const std::byte>)>;

/// A named array whose elements are produced while they are written. `write` passes row-major, little-endian
/// elements to the sink in any number of pieces. Their total size must match the shape.
struct TensorStream {
  std::string name;
  DType dtype = DType::int64;
  std::vector<std::int64_t> shape;
  std::function<void(const TensorSink&)> write;
};

/// Writes the same bytes as write_safetensors() would for the same tensors. Throws InputError and IoError in
/// the same cases, and propagates exceptions from TensorStream::write.
void stream_safetensors(const std::filesystem::path& path, std::span<const TensorStream> tensors,
                        const std::map<std::string, std::string>& metadata);

/// Returns a view of values as a one-dimensional tensor.
template <typename T>
[[nodiscard]] TensorView view_of(std::string name, std::span<const T> values) {
  return {std::move(name), dtype_of<T>, {static_cast<std::int64_t>(values.size())}, std::as_bytes(values)};
}

/// Returns a view of a column as a tensor of [rows, trailing dimensions].
[[nodiscard]] inline TensorView view_of(const Column& column) {
  std::vector<std::int64_t> shape{column.rows()};
  shape.insert(shape.end(), column.spec().trailing.begin(), column.spec().trailing.end());
  return {column.spec().name, column.spec().dtype, std::move(shape), column.bytes()};
}

}  // namespace evenkeel
