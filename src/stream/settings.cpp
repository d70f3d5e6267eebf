#include "stream/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel::stream {
namespace {

/// Returns the shortest string that parses to this number; for example, 1e308 does not get 309 digits.
template <typename Number>
std::string short_text(Number value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

template <typename Number>
void require_range(const char* key, Number value, Number least, Number most, const char* unit = "") {
  if (value >= least && value <= most) return;
  throw ConfigError(std::string("stream.") + key, "is " + short_text(value) + "; it must be from " +
                                                      short_text(least) + " to " + short_text(most) + unit);
}

/// Throws ConfigError if the name is empty or is that of a key that every sample has from the start.
void require_valid_late_field(const std::string& name) {
  constexpr std::array<std::string_view, 7> keys{"uid",        "index",        "version",  "versions",
                                                 "prompt_ids", "response_ids", "input_ids"};
  if (name.empty()) throw ConfigError("stream.late_fields", "lists an empty name", "Remove it");
  if (std::ranges::find(keys, name) == keys.end()) return;
  throw ConfigError("stream.late_fields",
                    "lists '" + name + "', which belongs to the sample itself and cannot be added later",
                    "Remove it");
}

constexpr std::array<std::pair<OnStale, std::string_view>, 3> on_stale_words{
    {{OnStale::wait, "wait"}, {OnStale::drop, "drop"}, {OnStale::mask, "mask"}}};

}  // namespace

std::string_view name_of(OnStale on_stale) noexcept {
  return std::ranges::find(on_stale_words, on_stale, &std::pair<OnStale, std::string_view>::first)->second;
}

std::optional<OnStale> parse_on_stale(std::string_view word) noexcept {
  for (const auto& [value, its_word] : on_stale_words) {
    if (its_word == word) return value;
  }
  return std::nullopt;
}

void StreamSettings::validate() const {
  constexpr double year = 366 * 86400;
  require_range<std::int64_t>("group_size", group_size, 1, max_in_group);
  if (min_group && *min_group > group_size) {
    throw ConfigError(
        "stream.min_group",
        "is " + short_text(*min_group) + ", above the group size, which is " + short_text(group_size),
        "Lower it, or raise the group size");
  }
  require_range<std::int64_t>("min_group", min_trained_samples(), 1, group_size);
  if (deadline) require_range("deadline", *deadline, 0.0, year, " seconds");
  require_range("ticket_deadline", ticket_deadline, 0.0, year, " seconds");
  if (patience) require_range("patience", *patience, 0.0, year, " seconds");
  if (max_staleness) require_range<std::int64_t>("max_staleness", *max_staleness, 0, std::int64_t{1} << 30);
  require_range<std::int64_t>("look_ahead", look_ahead, 0, max_ahead);
  for (std::size_t i = 0; i < late_fields.size(); ++i) {
    require_valid_late_field(late_fields[i]);
    if (std::find(late_fields.begin(), late_fields.begin() + static_cast<std::ptrdiff_t>(i),
                  late_fields[i]) != late_fields.begin() + static_cast<std::ptrdiff_t>(i))
      throw ConfigError("stream.late_fields", "lists '" + late_fields[i] + "' twice", "Name each field once");
  }
}

}  // namespace evenkeel::stream
