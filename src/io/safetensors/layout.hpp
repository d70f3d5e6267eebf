#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"

namespace evenkeel {

/// A tensor listed in the header of a safetensors file, checked against the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< name in the format, such as "I64"
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  ///< offset in bytes from the end of the header
  std::int64_t end = 0;
};

struct SafetensorsLayout {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  ///< in the order of the data
  std::int64_t data_begin = 0;            ///< offset of the end of the header
};

/// Reads only the header, and checks it against the size of the file. Throws the errors of TensorFile, and
/// InputError for a shape whose nonzero dimensions have 2^63 elements or more. Accepts every dtype of the
/// format.
[[nodiscard]] SafetensorsLayout read_safetensors_layout(const InputFile& file);

}  // namespace evenkeel
