#pragma once

#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::test {

/// Returns the line that a user sees when this configuration is rejected with a ConfigError.
inline std::string refusal(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    static_cast<void>(parse_config(yaml, "job.yaml", overrides));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace evenkeel::test
