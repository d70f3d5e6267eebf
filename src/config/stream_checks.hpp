#pragma once

#include <string>

#include "evenkeel/config/config.hpp"

namespace evenkeel::config_detail {

/// Throws ConfigError, after the `file`'s name, where keys of section `stream` do not go together or with the
/// source, or where there is nothing that arrives.
void require_valid_stream(const Config& config, const std::string& file);

}  // namespace evenkeel::config_detail
