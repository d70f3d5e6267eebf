#pragma once

#include <string>

namespace evenkeel::testing_support {

/// The dict and line feed of an array of one dimension, without padding.
inline std::string npy_dict(const std::string& descr, std::size_t elements) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + std::to_string(elements) +
         ",), }\n";
}

/// A file of version 1.0 with this header and these elements.
inline std::string npy_text(const std::string& header, const std::string& data) {
  std::string text("\x93NUMPY\1\0", 8);
  text += {static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
  return text + header + data;
}

}  // namespace evenkeel::testing_support
