#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "evenkeel/service/config.hpp"

namespace evenkeel {

/// Reads a configuration: the defaults, then the file, then `overrides` in order. An override is
/// "section.key=value", its value read as YAML (the command line's --set). No MPI: a job reads it on one rank
/// and broadcasts the result.
///
/// Throws IoError when the file cannot be read, else as parse_config.
[[nodiscard]] Config load_config(const std::filesystem::path& file,
                                 std::span<const std::string> overrides = {});

/// The same from YAML text; `name` stands for the file in messages. Deterministic.
///
/// Throws ConfigError for the first thing that is wrong: malformed YAML, a key that is unknown, given twice
/// or of the wrong type, a value out of range, not among the allowed ones or not available in this version,
/// or settings that do not fit each other. `where` is "NAME:LINE: key" or "--set key=value".
[[nodiscard]] Config parse_config(const std::string& yaml, std::string_view name,
                                  std::span<const std::string> overrides = {});

/// The text of a configuration file, Evenkeel's or another system's. Throws IoError that names it.
[[nodiscard]] std::string read_config_text(const std::filesystem::path& file);

/// The configuration as YAML, one line a key; parse_config gives back an equal one. Keys that have only one
/// value in this version are left out. A cost made from a model is written as its two coefficients.
[[nodiscard]] std::string to_yaml(const Config& config);

}  // namespace evenkeel
