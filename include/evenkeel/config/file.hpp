#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.hpp"

namespace evenkeel {

/// Reads a configuration: the defaults, then the file, then `overrides` in order. An override is
/// "section.key=value", its value read as YAML (the command line's --set). No MPI: a job reads it on one rank
/// and broadcasts the result.
///
/// The file is read once, from its beginning to its end, so that it may be a pipe. Throws IoError when it
/// cannot be read or has more than 1 MiB, ConfigError when it holds no key at all (`{}` says that it means
/// to), else as parse_config.
[[nodiscard]] Config load_config(const std::filesystem::path& file,
                                 std::span<const std::string> overrides = {});

/// The same from YAML text; `name` stands for the file in messages. Deterministic.
///
/// Throws ConfigError for the first thing that is wrong: malformed YAML, a key that is unknown, given twice
/// or of the wrong type, a value out of range, not among the allowed ones or not available in this version,
/// or settings that do not fit each other. `where` is "NAME:LINE: key" or "--set key=value".
[[nodiscard]] Config parse_config(const std::string& yaml, std::string_view name,
                                  std::span<const std::string> overrides = {});

/// One of several texts that make up a configuration.
struct ConfigText {
  std::string yaml;
  std::string
      name;  ///< stands for a file in messages; empty: nobody wrote lines, and `where` is the key alone
};

/// The defaults, then these texts in order, then `overrides`: a later one changes what an earlier one says.
/// What profiles say comes last all the same, so that they start from the final settings. For programs that
/// have settings of their own beside a file. Throws as above.
[[nodiscard]] Config parse_config(std::span<const ConfigText> texts,
                                  std::span<const std::string> overrides = {});

/// The text of a configuration file, Evenkeel's or another system's. Throws IoError that names it when it
/// cannot be read or has more than 1 MiB.
[[nodiscard]] std::string read_config_text(const std::filesystem::path& file);

/// The configuration as YAML, one line a key; parse_config gives back an equal one. Keys that have only one
/// value in this version are left out. A cost made from a model is written as its two coefficients. Throws
/// ConfigError that names the key when a value is none that the key has words for; so below.
[[nodiscard]] std::string to_yaml(const Config& config);

/// One key of a configuration and its value as YAML.
struct ConfigSetting {
  std::string path;  ///< "micro_batch.max_tokens", or "profiles.NAME.micro_batch.max_tokens"
  std::string value;

  friend bool operator==(const ConfigSetting&, const ConfigSetting&) = default;
};

/// Every key that has a place in Config, in the order of the reference page, then those of each profile in
/// full: configurations that mean the same have equal lists, and no others.
[[nodiscard]] std::vector<ConfigSetting> list_settings(const Config& config);

}  // namespace evenkeel
