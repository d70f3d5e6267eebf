#include "evenkeel/batch/ragged_batch.hpp"

#include "base/hash.hpp"

namespace evenkeel {
namespace {

constexpr std::uint64_t below_own_groups = first_own_group - 1;

}  // namespace

std::uint64_t group_of_uid(std::string_view text) noexcept {
  return fnv1a_64(text) & below_own_groups;
}

std::uint64_t group_of_uid(std::int64_t number) noexcept {
  const auto bits = static_cast<std::uint64_t>(number);
  return number >= 0 ? bits : mix_64(bits) & below_own_groups;
}

// Mixed once more than a negative number of the same bits.
std::uint64_t group_of_uid(std::uint64_t number) noexcept {
  return number < first_own_group ? number : mix_64(mix_64(number)) & below_own_groups;
}

std::uint64_t group_of(const Uid& uid, std::int64_t sample) noexcept {
  if (const auto* text = std::get_if<std::string>(&uid)) return group_of_uid(std::string_view(*text));
  if (const auto* number = std::get_if<std::int64_t>(&uid)) return group_of_uid(*number);
  if (const auto* number = std::get_if<std::uint64_t>(&uid)) return group_of_uid(*number);
  return own_group(sample);
}

Uid uid_of_group(std::uint64_t group) {
  if (is_own_group(group)) return std::monostate{};
  return static_cast<std::int64_t>(group);
}

}  // namespace evenkeel
