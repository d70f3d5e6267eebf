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

}  // namespace evenkeel
