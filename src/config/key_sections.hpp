#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/keys.hpp"
#include "config/value.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::config_detail {

// What the sections of the table of keys are made of.

using Int64 = std::int64_t;
using Keys = std::vector<KeySpec>;

inline constexpr Int64 largest_multiple = Int64{1} << 20;
/// That any step has, however few its samples are: PlanSettings::validate() counts those of all mini-batches.
inline constexpr Int64 most_forced_micro_batches = Int64{1} << 16;
/// Cumulative lengths are 32-bit, so no number of tokens, samples or alignment may pass this.
inline constexpr Int64 largest_int32 = (Int64{1} << 31) - 1;
inline constexpr Int64 smallest_int32 = -largest_int32 - 1;

/// A key that is a member of a section of Config, or of a base of the section; its default is the member's.
template <class Section, class Base, class Member, class Format>
KeySpec key(std::string path, Section Config::*section, Member Base::*member, Format format,
            std::string meaning) {
  return {{std::move(path), format.type(), format.write(Config{}.*section.*member), format.values(),
           std::move(meaning)},
          [=](const ConfigValue& value, Config& config) { config.*section.*member = format.read(value); },
          [=](const Config& config) { return format.write(config.*section.*member); }};
}

/// The same of a member of Config itself.
template <class Member, class Format>
KeySpec key(std::string path, Member Config::*member, Format format, std::string meaning) {
  return {
      {std::move(path), format.type(), format.write(Config{}.*member), format.values(), std::move(meaning)},
      [=](const ConfigValue& value, Config& config) { config.*member = format.read(value); },
      [=](const Config& config) { return format.write(config.*member); }};
}

/// The sections that say which samples a step takes.
[[nodiscard]] Keys source_keys();
[[nodiscard]] Keys named_source_keys();
[[nodiscard]] Keys stream_keys();
[[nodiscard]] Keys batch_keys();

/// The sections about fields that samples bring.
[[nodiscard]] Keys field_keys();
[[nodiscard]] Keys named_field_keys();

/// Throws ConfigError, after the `file`'s name, where keys of section `stream` do not go together or with the
/// source, or where there is nothing that arrives.
void require_valid_stream(const Config& config, const std::string& file);

}  // namespace evenkeel::config_detail
