#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/import/references.hpp"
#include "config/import/value.hpp"

namespace evenkeel::config_import {

/// One of Hydra's overrides: key=value, +key=value, ++key=value, ~key, ~key=value.
struct Override {
  enum class Kind : std::uint8_t { change, add, force, remove };

  Kind kind = Kind::change;
  std::string key;    ///< "a.b", or a group: "optim", "actor@actor_rollout_ref.actor"
  Value value;        ///< null where there is none
  std::string place;  ///< "--override KEY=VALUE"

  [[nodiscard]] bool names_group() const { return key.find_first_of("@/") != std::string::npos; }
};

/// Throws ConfigError for a text that is no override, and for a sweep (key=1,2).
[[nodiscard]] Override parse_override(const std::string& text);

/// Sets, adds or removes the value. As with Hydra, a key that is changed or removed must be there (or below a
/// part whose file is not found), and one that is added must not. Throws ConfigError otherwise.
void apply_override(Value& root, const Override& change, const std::vector<LostPart>& lost);

}  // namespace evenkeel::config_import
