#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace evenkeel {

/// What a sample says its group is called: nothing, an integer (the unsigned one from 2^63 on), or a text.
using Uid = std::variant<std::monostate, std::int64_t, std::uint64_t, std::string>;

/// The group (SampleShape::group) of samples that say so. Integers of 0 .. 2^63 - 1 are their own; others and
/// texts become a hash below 2^63, the same on every platform: two of them share one by chance alone.
[[nodiscard]] std::uint64_t group_of_uid(std::string_view text) noexcept;
[[nodiscard]] std::uint64_t group_of_uid(std::int64_t number) noexcept;
[[nodiscard]] std::uint64_t group_of_uid(std::uint64_t number) noexcept;

/// The groups of samples that say nothing begin here, above all that samples may say.
inline constexpr std::uint64_t first_own_group = std::uint64_t{1} << 63;

/// The group of a sample that says nothing, known by its number in its source: no other sample's.
[[nodiscard]] constexpr std::uint64_t own_group(std::int64_t sample) noexcept {
  return first_own_group + static_cast<std::uint64_t>(sample);
}
[[nodiscard]] constexpr bool is_own_group(std::uint64_t group) noexcept {
  return group >= first_own_group;
}

/// The group of a sample with this number and this uid.
[[nodiscard]] std::uint64_t group_of(const Uid& uid, std::int64_t sample) noexcept;

/// What a sample of that group says, where nothing but the group is known: its number, or nothing.
[[nodiscard]] Uid uid_of_group(std::uint64_t group);

}  // namespace evenkeel
