#pragma once

#include "evenkeel/plan/field_settings.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// Returns the formats that the configuration declares for fields in JSON Lines (FieldSettings::read_as).
[[nodiscard]] inline DeclaredFormats declared_formats(const NamedFields& fields) {
  DeclaredFormats formats;
  for (const auto& [name, settings] : fields) {
    if (settings.read_as) formats.emplace(name, *settings.read_as);
  }
  return formats;
}

}  // namespace evenkeel
