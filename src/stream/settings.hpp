#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/plan/filter.hpp"
#include "plan/settings/checks.hpp"

namespace evenkeel::stream {

/// Maximum result of versions_behind(). It limits the length of lists of counts even if versions differ
/// widely.
inline constexpr std::int64_t max_behind = 64;
/// Returns how many versions a sample is behind the current version `now`, clamped to [0, max_behind], for
/// the counts in status, reports and metrics.
[[nodiscard]] constexpr std::int64_t versions_behind(std::int64_t now, std::int64_t version) noexcept {
  if (version >= now) return 0;
  return version < now - max_behind ? max_behind : now - version;
}

/// Returns "wait", "drop" or "mask".
[[nodiscard]] std::string_view name_of(OnStale on_stale) noexcept;
/// Returns the value with this name, or nullopt for any other word.
[[nodiscard]] std::optional<OnStale> parse_on_stale(std::string_view word) noexcept;

/// Settings of a stream: keys of the configuration's section `stream`.
struct StreamSettings {
  std::int64_t group_size = 1;            ///< number of samples per group; indexes are 0 to group_size - 1
  std::optional<std::int64_t> min_group;  ///< minimum size of a trained group; group_size if unset
  std::optional<double> deadline;  ///< time from a group's first sample until the group is closed, in seconds
  double ticket_deadline = 600;    ///< time from the grant until an unused ticket expires, in seconds
  /// Time without any new sample until the job ends with an error, in seconds.
  std::optional<double> patience;
  /// Maximum number of versions that a sample may be behind when its step is formed; unlimited if unset.
  std::optional<std::int64_t> max_staleness;
  OnStale on_stale = OnStale::wait;
  /// Number of later steps that are considered when a step is formed (form_step()); 0 means first come, first
  /// served.
  std::int64_t look_ahead = 0;
  /// Names of the fields that producers add after a sample was stored. A group is ready when all of its
  /// samples have all of these fields.
  std::vector<std::string> late_fields = {};

  /// Returns the minimum number of samples with which a closed group is trained.
  [[nodiscard]] std::int64_t min_trained_samples() const noexcept { return min_group.value_or(group_size); }
  /// Returns whether a sample of this version is too old for a step that is formed at version `now`.
  [[nodiscard]] bool is_stale(std::int64_t version, std::int64_t now) const noexcept {
    return max_staleness && now - version > *max_staleness;
  }
  /// Returns whether tickets are granted only for groups that can be trained before they become stale. If
  /// not, producers may start groups at any time, and tickets are not counted.
  [[nodiscard]] bool limits_tickets() const noexcept {
    return max_staleness.has_value() && on_stale == OnStale::wait;
  }
  /// Throws ConfigError naming the first key that is out of range.
  void validate() const;

  friend bool operator==(const StreamSettings&, const StreamSettings&) = default;
};

}  // namespace evenkeel::stream
