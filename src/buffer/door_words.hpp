#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/unpacking.hpp"

namespace evenkeel {

/// What requests say, and the door's settings, taken from their words.
[[nodiscard]] bool is_loopback(const std::string& address);
/// Whether these are the same, in a time that does not tell how much of it is.
[[nodiscard]] bool is_token(std::string_view given, std::string_view token);
/// The integer of that name. Throws InputError unless it is there and at least `least`.
[[nodiscard]] std::int64_t number_at(const nlohmann::json& in, const char* name, std::int64_t least);
/// The list 'arrivals'. Throws InputError unless it is there, of integers.
[[nodiscard]] std::vector<std::int64_t> arrivals_of(const nlohmann::json& asked);
/// What Content-Encoding says. Throws InputError for others than the door takes.
[[nodiscard]] Packing packing_of(const std::string& encoding);

}  // namespace evenkeel
