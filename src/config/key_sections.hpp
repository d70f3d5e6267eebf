#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/keys.hpp"
#include "config/value.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::config_detail {

// Building blocks for the sections in the table of keys.

using Int64 = std::int64_t;
using Keys = std::vector<KeySpec>;

inline constexpr Int64 largest_multiple = Int64{1} << 20;
/// Upper limit on settings that force a minimum number of micro-batches, even if a step has only a few
/// samples. PlanSettings::validate() applies the limit to all mini-batches together.
inline constexpr Int64 most_forced_micro_batches = Int64{1} << 16;
/// Largest possible number of tokens or samples, and largest alignment, since cumulative lengths are 32-bit
/// integers.
inline constexpr Int64 largest_int32 = (Int64{1} << 31) - 1;
inline constexpr Int64 smallest_int32 = -largest_int32 - 1;

/// Returns the spec of a key whose value is a member of a section of Config, or of the section's base class.
/// The key's default is the member's default.
template <class Section, class Base, class Member, class Format>
KeySpec key(std::string path, Section Config::*section, Member Base::*member, Format format,
            std::string meaning) {
  return {{std::move(path), format.type(), format.write(Config{}.*section.*member), format.values(),
           std::move(meaning)},
          [=](const ConfigValue& value, Config& config) { config.*section.*member = format.read(value); },
          [=](const Config& config) { return format.write(config.*section.*member); }};
}

/// Same as the previous function, but for a direct member of Config.
template <class Member, class Format>
KeySpec key(std::string path, Member Config::*member, Format format, std::string meaning) {
  return {
      {std::move(path), format.type(), format.write(Config{}.*member), format.values(), std::move(meaning)},
      [=](const ConfigValue& value, Config& config) { config.*member = format.read(value); },
      [=](const Config& config) { return format.write(config.*member); }};
}

/// Return the keys of the sections that determine which samples a step takes.
[[nodiscard]] Keys source_keys();
[[nodiscard]] Keys named_source_keys();
[[nodiscard]] Keys stream_keys();
[[nodiscard]] Keys batch_keys();

/// Return the keys of the sections for fields of samples.
[[nodiscard]] Keys field_keys();
[[nodiscard]] Keys named_field_keys();

/// Throws ConfigError if keys of section `stream` conflict with each other, with the source or with section
/// `batch`, or if any of them is set although source.kind is not stream. The location in the error begins
/// with `file`.
void require_valid_stream(const Config& config, const std::string& file);

}  // namespace evenkeel::config_detail
