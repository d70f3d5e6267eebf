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

/// Subject of a page.
struct PageSubject {
  enum class Kind : std::uint8_t {
    run,
    plan,
    /// Comparison of strategies; each strategy in `ways` that has a picture is shown as a profile.
    comparison,
  };

  Kind kind = Kind::run;
  std::string version;  ///< version of the program; empty if unknown
  MeshPicture mesh{};
  std::string name{};                  ///< name of the job or of the planned lengths; empty if unknown
  std::vector<std::string> sources{};  ///< sources of the job's samples
  std::string date{};                  ///< time of the run or plan; empty if unknown
  RunCircumstances circumstances;
  std::string text;  ///< text version of the page, for readers without scripts
  /// Strategies of a comparison, as written by `evenkeel plan --compare --json`, and its conclusion.
  nlohmann::json ways{};
  std::string conclusion{};
  std::optional<ArrivalFigures> arrivals{};  ///< present if samples arrive during training
};

/// Returns the page's subject in one line.
[[nodiscard]] std::string title_of(const PageSubject& subject);

/// Returns the data for the page's script, with one entry per profile. The size of charts is limited, even
/// for long runs.
[[nodiscard]] nlohmann::json page_json(const PageSubject& subject, std::span<const RunPicture> profiles);

/// Returns a self-contained HTML file, which does not need other files or a network. Names and paths are
/// escaped, so that they cannot add code.
[[nodiscard]] std::string html_page(const PageSubject& subject, std::span<const RunPicture> profiles);

}  // namespace evenkeel
