#pragma once

#include <string>
#include <system_error>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Returns an IoError about `path` with `what` and the system's description of `code`, an errno value.
[[nodiscard]] inline IoError system_error(const std::string& path, const std::string& what, int code) {
  return {path, what + ": " + std::generic_category().message(code)};
}

}  // namespace evenkeel
