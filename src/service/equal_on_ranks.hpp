#pragma once

#include <string_view>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// Collective over `comm`: throws the same ConfigError on every rank unless all ranks pass the same settings.
/// The error names the lowest rank that differs from rank 0, the first differing settings with both values,
/// and the number of further differences. `hint` becomes the error's hint. Costs one all-reduce of 16 bytes
/// if all settings are equal.
void require_equal_on_ranks(const Communicator& comm, const std::vector<ConfigSetting>& mine,
                            std::string_view hint);

}  // namespace evenkeel
