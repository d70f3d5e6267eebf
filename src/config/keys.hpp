#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "config/schema.hpp"
#include "config/value.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::config_detail {

/// A key, and the functions that read its value into a Config and write it from a Config. Both functions are
/// empty for a section of named entries.
struct KeySpec {
  ConfigKey key;
  std::function<void(const ConfigValue&, Config&)> read;
  std::function<std::string(const Config&)> write;
};

/// Returns the table of all keys. It lives as long as the program.
[[nodiscard]] std::span<const KeySpec> key_specs();

/// Returns the part of a path before its first dot.
[[nodiscard]] std::string_view section_of(std::string_view path);

/// Returns whether a profile may have its own keys of this section.
[[nodiscard]] bool is_profile_section(std::string_view section);

/// Returns one sentence about a section, for the reference page. Precondition: the section exists.
[[nodiscard]] std::string_view section_meaning(std::string_view section);

}  // namespace evenkeel::config_detail
