#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "config/schema.hpp"
#include "config/value.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::config_detail {

/// A key with the ways into and out of a Config. `write` is empty for a section of named entries.
struct KeySpec {
  ConfigKey key;
  std::function<void(const ConfigValue&, Config&)> read;
  std::function<std::string(const Config&)> write;
};

/// The one table of keys. Lives as long as the program.
[[nodiscard]] std::span<const KeySpec> key_specs();

/// The part of a key before its first dot.
[[nodiscard]] std::string_view section_of(std::string_view path);

/// The sections whose keys a profile may have of its own.
[[nodiscard]] bool is_profile_section(std::string_view section);

/// One sentence about a section, for the reference page. Precondition: there is such a section.
[[nodiscard]] std::string_view section_meaning(std::string_view section);

}  // namespace evenkeel::config_detail
