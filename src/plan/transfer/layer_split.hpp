#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/plan/field_settings.hpp"

namespace evenkeel {

/// Throws ConfigError that names the key, such as fields.NAME.layers, where the settings of the field `name`
/// do not go together (requirements) or fit a pipeline of `pp` ranks with `vpp` parts each.
void require_valid(const FieldSettings& field, const std::string& name, int pp, int vpp);

/// For each pipeline rank the layers, of `layers` in all, that it is handed: those of its first part, then of
/// its second, and so on. Throws InputError about `where` for an even split of a number of layers that is no
/// multiple of pp * vpp, and for a map that names a layer which is not there or leaves one out. Precondition:
/// require_valid() accepts the map.
[[nodiscard]] std::vector<std::vector<std::int64_t>> layers_of_ranks(const LayerMap& map, std::int64_t layers,
                                                                     int pp, int vpp,
                                                                     const std::string& where);

}  // namespace evenkeel
