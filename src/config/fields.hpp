#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/value.hpp"
#include "evenkeel/base/error.hpp"

/// Helpers for keys whose values are maps with fields.
namespace evenkeel::config_detail {

template <class Settings>
struct Field {
  std::string name;
  std::function<void(Settings&, const ConfigValue&)> read;
};

template <class Settings>
Field<Settings> number(std::string name, std::int64_t Settings::*member, std::int64_t min, std::int64_t max,
                       IntegerOf of = IntegerOf::things) {
  const Integer<std::int64_t> format{min, max, of};
  return {std::move(name),
          [=](Settings& settings, const ConfigValue& value) { settings.*member = format.read(value); }};
}

template <class Settings>
std::vector<std::string> names_of(const std::vector<Field<Settings>>& fields) {
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.name);
  return names;
}

template <class Settings>
Settings read_fields(const ConfigValue& value, const std::vector<Field<Settings>>& fields,
                     Settings settings) {
  if (!value.node.IsMap()) throw_wrong_type(value, "a map");
  const auto where_of = [&](const std::string& name, const YAML::Mark& /*mark*/) {
    return value.where + ": " + name;
  };
  for (const auto& [name, field_value] : map_entries(value.node, where_of)) {
    const auto field = std::ranges::find(fields, name, &Field<Settings>::name);
    if (field == fields.end()) {
      throw ConfigError(field_value.where, "unknown key", "Valid keys: " + join(names_of(fields)));
    }
    field->read(settings, field_value);
  }
  return settings;
}

}  // namespace evenkeel::config_detail
