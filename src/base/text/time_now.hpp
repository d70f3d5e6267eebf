#pragma once

#include <string>

namespace evenkeel {

/// The time in UTC, such as 2026-11-22T02:17:08Z.
[[nodiscard]] std::string time_now();

}  // namespace evenkeel
