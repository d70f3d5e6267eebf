#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "config/import/value.hpp"

namespace evenkeel::config_import {

/// What ${name:arguments} stands for, of the resolvers that are plain arithmetic: mul, div, int_div, add,
/// sub, mod, max, min, if and eval, under the names that projects give them. Nothing for any other resolver,
/// and for arguments that it cannot take. Integers stay integers; div is Python's true division.
[[nodiscard]] std::optional<Value> resolve_arithmetic(std::string_view name,
                                                      const std::vector<Value>& arguments);

}  // namespace evenkeel::config_import
