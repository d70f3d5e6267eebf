#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/import.hpp"
#include "config/import/references.hpp"
#include "config/import/value.hpp"

namespace evenkeel::config_import {

/// One key of a foreign configuration, with all the maps around it: a scalar, a list, or an empty map.
struct ForeignKey {
  std::string path;     ///< "rl_config.use_dynamic_bsz"
  std::string where;    ///< "FILE:LINE: PATH", for messages
  std::string text;     ///< what it stands for, on one line
  std::string written;  ///< as the file has it, on one line
  Value value;          ///< what it stands for, references followed
};

/// All that a foreign configuration says.
struct Document {
  std::vector<ForeignKey> keys;    ///< in order
  std::vector<std::string> files;  ///< read besides the first
  std::vector<LostPart> lost;      ///< named in a defaults list, and not found
};

/// Puts the configuration together, lays the overrides on it and follows its references. Throws ConfigError
/// for malformed YAML, a key given twice, anything but a map, and an override that cannot be applied.
[[nodiscard]] Document read_document(const std::string& yaml, std::string_view name,
                                     const ImportSettings& options);

}  // namespace evenkeel::config_import
