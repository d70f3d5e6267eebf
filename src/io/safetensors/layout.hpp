#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"

namespace evenkeel {

/// An entry for a tensor in the header of a safetensors file. It has been checked against the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< name of the element type in the safetensors format, such as "I64"
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  ///< offset of the tensor's data in bytes, counted from the end of the header
  std::int64_t end = 0;
};

struct SafetensorsLayout {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  ///< entries of all tensors, in the order of the tensors' data
  std::int64_t data_begin = 0;            ///< offset in the file at which the header ends and the data begins
};

/// Reads only the header, and checks it against the size of the file. Throws IoError if the file cannot be
/// read. Throws InputError if the header is invalid (see TensorFile), or if the product of a shape's nonzero
/// dimensions exceeds 2^59. Accepts every dtype of the format.
[[nodiscard]] SafetensorsLayout read_safetensors_layout(const InputFile& file);

}  // namespace evenkeel
