#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "evenkeel/plan/filter.hpp"

namespace evenkeel {

/// Describes one member of ArrivalFigures: its accessor, whether its value only grows, and its names in
/// outputs.
template <typename Of>
struct ArrivalFigure {
  Of of;
  bool grows;
  const char* report;  ///< key in `arrivals` of report.json, metrics.jsonl and report.html
  const char* metric;  ///< name of the Prometheus metric without the prefix
  /// Prometheus label that distinguishes the values of the figure; null if the figure has only one value.
  const char* label;
  const char* help;  ///< Prometheus help text
};

inline constexpr std::tuple figures_of_arrivals{
    ArrivalFigure{&ArrivalFigures::received, true, "received", "received_samples_total", nullptr,
                  "Samples that the buffer has accepted since it began."},
    ArrivalFigure{&ArrivalFigures::duplicates, true, "duplicates", "duplicate_samples_total", nullptr,
                  "Samples that came again."},
    ArrivalFigure{&ArrivalFigures::trained, true, "trained", "trained_samples_total", nullptr,
                  "Samples of steps that are trained."},
    ArrivalFigure{&ArrivalFigures::formed, false, "formed", "formed_samples", nullptr,
                  "Samples of steps that are not trained yet."},
    ArrivalFigure{&ArrivalFigures::waiting, false, "waiting", "waiting_samples", nullptr,
                  "Samples that wait for a step."},
    ArrivalFigure{&ArrivalFigures::dropped, true, "dropped", "dropped_samples_total", "reason",
                  "Samples that were not trained."},
    ArrivalFigure{&ArrivalFigures::received_tokens, true, "received_tokens", "received_response_tokens_total",
                  nullptr, "Response tokens of samples that were accepted."},
    ArrivalFigure{&ArrivalFigures::trained_tokens, true, "trained_tokens", "trained_response_tokens_total",
                  nullptr, "Response tokens of samples that are trained."},
    ArrivalFigure{&ArrivalFigures::staleness, true, "staleness", "samples_behind_policy_total", "versions",
                  "Samples of this run's steps, by the versions that they were behind."},
    ArrivalFigure{&ArrivalFigures::waited_seconds, true, "waited_seconds", "waited_seconds_total", nullptr,
                  "Seconds that this run's steps waited for samples."}};

/// Calls `visit` with each element of figures_of_arrivals.
template <typename Visit>
constexpr void for_each_arrival_figure(Visit&& visit) {
  std::apply([&](const auto&... figure) { (visit(figure), ...); }, figures_of_arrivals);
}

/// Calls visit(label_value, number) for each number of a figure. The label value is empty if the figure is a
/// single number.
template <typename Value, typename Visit>
void for_each_number_of(const Value& value, Visit&& visit) {
  if constexpr (std::is_arithmetic_v<Value>) {
    visit(std::string(), value);
  } else {
    for (const auto& [key, number] : value) {
      if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(key)>>) {
        visit(std::to_string(key), number);
      } else {
        visit(key, number);
      }
    }
  }
}

/// Formats the number of samples per staleness (number of versions behind the policy), such as "96 by 0, 32
/// by 2 versions"; "none" if the map is empty.
[[nodiscard]] std::string staleness_text(const std::map<std::int64_t, std::int64_t>& staleness);

/// Returns a JSON object with all figures, keyed by `report`. A figure with a label becomes a nested object.
/// Returns null if `arrivals` is nullopt.
[[nodiscard]] nlohmann::json arrivals_json(const std::optional<ArrivalFigures>& arrivals);

}  // namespace evenkeel
