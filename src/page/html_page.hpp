#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/plan/filter.hpp"
#include "page/advice.hpp"
#include "page/run_picture.hpp"

namespace evenkeel {

/// What the page is about.
struct PageSubject {
  enum class Kind : std::uint8_t {
    run,
    plan,
    comparison,  ///< of ways to plan: each of those in `ways` that has a picture is a profile
  };

  Kind kind = Kind::run;
  std::string version;  ///< of the program; empty: not said
  MeshPicture mesh{};
  std::string name{};                  ///< of the job, or of the lengths that were planned; empty: not said
  std::vector<std::string> sources{};  ///< of the job's samples
  std::string date{};                  ///< when it ran or was planned; empty: not said
  RunCircumstances circumstances;
  std::string text;  ///< the same as a table, for those who have no script
  /// Of a comparison, as evenkeel plan --compare --json writes it, and what follows from it.
  nlohmann::json ways{};
  std::string conclusion{};
  std::optional<ArrivalFigures> arrivals{};  ///< of a run whose samples arrive while it trains
};

/// What the page is about, in a line.
[[nodiscard]] std::string title_of(const PageSubject& subject);

/// What the page's script draws from, for each profile: charts of bounded size, whatever the run's.
[[nodiscard]] nlohmann::json page_json(const PageSubject& subject, std::span<const RunPicture> profiles);

/// One HTML file that needs nothing else: no other file, no network. Whatever names and paths hold, it stays
/// data.
[[nodiscard]] std::string html_page(const PageSubject& subject, std::span<const RunPicture> profiles);

}  // namespace evenkeel
