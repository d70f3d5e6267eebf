#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"

namespace evenkeel {

/// A tensor as the header of a safetensors file tells it, checked against the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< the format's word, such as "I64"
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  ///< bytes after the header
  std::int64_t end = 0;
};

struct SafetensorsLayout {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  ///< in the order of the data
  std::int64_t data_begin = 0;            ///< where the header ends
};

/// Reads the header alone, and checks it against the size of the file: throws as SafetensorsFile does, and
/// for a shape whose dimensions beside 0 have 2^63 elements or more. Every dtype of the format is known.
[[nodiscard]] SafetensorsLayout read_safetensors_layout(const InputFile& file);

}  // namespace evenkeel
