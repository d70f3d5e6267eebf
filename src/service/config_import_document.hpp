#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <vector>

namespace evenkeel::config_import {

/// One key of a foreign configuration, with all the maps around it: a scalar, a list, or an empty map.
struct ForeignKey {
  std::string path;     ///< "rl_config.use_dynamic_bsz"
  std::string where;    ///< "FILE:LINE: PATH", for messages
  std::string text;     ///< the value as the file has it, on one line
  YAML::Node value;     ///< what it stands for, references followed
  std::string missing;  ///< the reference that leads nowhere in this file; empty when there is none
};

/// All keys of a document, in order. References ${a.b} and ${oc.select:a.b,DEFAULT} that are a whole value
/// are followed. Throws ConfigError for malformed YAML, a key given twice, and anything but a map.
[[nodiscard]] std::vector<ForeignKey> read_foreign_keys(const std::string& yaml, std::string_view name);

}  // namespace evenkeel::config_import
