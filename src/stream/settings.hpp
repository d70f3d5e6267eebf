#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/plan/filter.hpp"
#include "plan/settings/checks.hpp"

namespace evenkeel::stream {

using evenkeel::most_ahead;
using evenkeel::most_in_group;
using evenkeel::OnStale;

/// By how many versions a sample is behind, as status, report and metrics count it: `most_behind` stands for
/// itself and all that is more, so that nobody's versions make the list grow.
inline constexpr std::int64_t most_behind = 64;
[[nodiscard]] constexpr std::int64_t counted_behind(std::int64_t now, std::int64_t version) noexcept {
  if (version >= now) return 0;
  return version < now - most_behind ? most_behind : now - version;
}

/// "wait", "drop" or "mask".
[[nodiscard]] std::string_view name_of(OnStale on_stale) noexcept;
/// Nothing for any other word.
[[nodiscard]] std::optional<OnStale> on_stale_of(std::string_view word) noexcept;

/// The keys of section `stream` that decide what a step has. Replicated.
struct StreamSettings {
  std::int64_t group_size = 1;            ///< samples of a group, with the indexes 0 .. group_size - 1
  std::optional<std::int64_t> min_group;  ///< fewest samples of a group that is not whole; unset: group_size
  std::optional<double> deadline;         ///< seconds after its first sample, then a group is closed
  double ticket_deadline = 600;           ///< seconds after it was granted, then an unused ticket expires
  std::optional<double> patience;         ///< seconds without any sample, then the job ends with an error
  std::optional<std::int64_t> max_staleness;  ///< in versions, when a sample's step is formed
  OnStale on_stale = OnStale::wait;
  std::int64_t look_ahead = 0;  ///< steps; 0: first come, first served

  [[nodiscard]] std::int64_t fewest() const noexcept { return min_group.value_or(group_size); }
  /// Whether a sample of that version is too old for a step that is formed at `now`.
  [[nodiscard]] bool is_stale(std::int64_t version, std::int64_t now) const noexcept {
    return max_staleness && now - version > *max_staleness;
  }
  /// Whether tickets are granted only for groups that can be trained before they are stale. Otherwise anybody
  /// may start groups at any time, and tickets are not counted.
  [[nodiscard]] bool limits_tickets() const noexcept {
    return max_staleness.has_value() && on_stale == OnStale::wait;
  }
  /// Throws ConfigError that names the first key that is out of range.
  void validate() const;

  friend bool operator==(const StreamSettings&, const StreamSettings&) = default;
};

}  // namespace evenkeel::stream
