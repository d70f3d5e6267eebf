#pragma once

#include "evenkeel/plan/field_settings.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// How the configuration says that JSON Lines write fields.
[[nodiscard]] inline ToldFormats told_formats(const NamedFields& fields) {
  ToldFormats formats;
  for (const auto& [name, settings] : fields) {
    if (settings.read_as) formats.emplace(name, *settings.read_as);
  }
  return formats;
}

}  // namespace evenkeel
