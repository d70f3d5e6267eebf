#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace evenkeel {

/// What a rank means by a collective call, so that ranks that mean different things find out before they wait
/// for each other.
struct CallKey {
  std::array<std::uint64_t, 3> words{};  ///< equal on ranks that mean the same
  std::string text;                      ///< for people: "collects step 3"

  friend bool operator==(const CallKey&, const CallKey&) = default;
};

}  // namespace evenkeel
