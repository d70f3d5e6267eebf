#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/dtype.hpp"

namespace evenkeel {

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
void write_safetensors(const std::filesystem::path& path, std::span<const TensorStream> tensors,
                       const std::map<std::string, std::string>& metadata);

/// Writes a .npz file that numpy.load reads: a zip file of stored members, in this order, which may be larger
/// than 4 GiB. Equal content gives equal files. The file appears whole or not at all (AtomicFile).
///
/// Throws InputError when bytes are not the shape's product times the element size, where a shape or dtype is
/// refused as write_npy() does, and for names that are there twice. Throws IoError, and what streams throw.
void write_npz(const std::filesystem::path& path, std::span<const TensorStream> tensors);

}  // namespace evenkeel
