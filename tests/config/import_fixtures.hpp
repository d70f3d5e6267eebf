#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "config/import.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::test {

using Outcomes = std::map<std::string, std::string>;

/// Imports a file and checks what holds for every import: the configuration it gives is a valid one.
inline ImportedConfig imported(const std::string& yaml, const ImportSettings& options = {}) {
  ImportedConfig result = import_config(yaml, "job.yaml", options);
  EXPECT_NO_THROW(static_cast<void>(parse_config(result.yaml, "imported"))) << result.yaml;
  return result;
}

/// What each key of the file became: its Evenkeel keys, "-" when nothing has to be set, "unused: why".
inline Outcomes outcomes(const ImportedConfig& config) {
  Outcomes all;
  for (const ImportedKey& key : config.keys) {
    std::string became;
    for (const std::string& setting : key.evenkeel) became += (became.empty() ? "" : ", ") + setting;
    all[key.foreign] = became.empty() ? "-" : became;
  }
  for (const ImportedKey& key : config.unused) all[key.foreign] = "unused: " + key.note;
  return all;
}

inline std::string outcome(const ImportedConfig& config, const std::string& key) {
  const Outcomes all = outcomes(config);
  const auto found = all.find(key);
  return found == all.end() ? "no such key" : found->second;
}

/// The value of "section.key" in the imported YAML; "(not set)" when it is not there.
inline std::string setting(const ImportedConfig& config, const std::string& path) {
  YAML::Node node = YAML::Load(config.yaml);
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const YAML::Node below = node.IsMap() ? node[path.substr(begin, end - begin)] : YAML::Node();
    if (!below.IsDefined()) return "(not set)";
    node.reset(below);
    begin = end + 1;
  }
  return node.IsScalar() ? node.Scalar() : node.IsNull() ? "null" : "(a section)";
}

inline std::string note_of(const ImportedConfig& config, const std::string& key) {
  for (const auto& list : {config.keys, config.unused}) {
    for (const ImportedKey& it : list) {
      if (it.foreign == key) return it.note;
    }
  }
  return "no such key";
}

/// What is missing, one "foreign key -> what Evenkeel would use" each.
inline std::vector<std::string> missing(const ImportedConfig& config) {
  std::vector<std::string> all;
  for (const MissingSetting& it : config.missing) {
    for (const std::string& setting : it.evenkeel) all.push_back(it.foreign + " -> " + setting);
  }
  return all;
}

}  // namespace evenkeel::test
