#include "page/arrivals.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "base/text_layout.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t bytes_of_listed_arrival_figures() {
  std::size_t bytes = 0;
  for_each_arrival_figure(
      [&](const auto& figure) { bytes += sizeof(std::invoke(figure.of, std::declval<ArrivalFigures&>())); });
  return bytes;
}
static_assert(bytes_of_listed_arrival_figures() == sizeof(ArrivalFigures),
              "a figure of arrivals is not in the list");

}  // namespace

std::string staleness_text(const std::map<std::int64_t, std::int64_t>& staleness) {
  std::string text;
  for (const auto& [versions, samples] : staleness)
    text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", format_with_commas(samples), versions);
  return text.empty() ? "none" : text + (staleness.rbegin()->first == 1 ? " version" : " versions");
}

nlohmann::json arrivals_json(const std::optional<ArrivalFigures>& arrivals) {
  if (!arrivals) return nullptr;
  nlohmann::json json;
  for_each_arrival_figure([&](const auto& figure) {
    nlohmann::json& told = json[figure.report];
    if (figure.label != nullptr) told = nlohmann::json::object();
    for_each_number_of(std::invoke(figure.of, *arrivals), [&](const std::string& key, auto number) {
      (key.empty() ? told : told[key]) = number;
    });
  });
  return json;
}

}  // namespace evenkeel
