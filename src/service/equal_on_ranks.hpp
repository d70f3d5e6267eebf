#pragma once

#include <string_view>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// Collective over `comm`: throws the same ConfigError on every rank unless all bring the same settings. It
/// names the lowest rank that differs from rank 0, the first settings in which they differ, with both values,
/// and how many more there are. One all-reduce of 16 bytes while all are equal.
void require_equal_on_ranks(const Communicator& comm, const std::vector<ConfigSetting>& mine,
                            std::string_view hint);

}  // namespace evenkeel
