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

/// Content of a report page, apart from its profiles (see RunPicture).
struct PageSubject {
  enum class Kind : std::uint8_t {
    run,
    plan,
    /// Comparison of the strategies in `ways`. Each strategy for which there is a RunPicture is shown as a
    /// profile.
    comparison,
  };

  Kind kind = Kind::run;
  std::string version;  ///< version of the program; empty if unknown
  MeshPicture mesh{};
  std::string name{};                  ///< name of the job or of the planned lengths; empty if unknown
  std::vector<std::string> sources{};  ///< sources of the job's samples
  std::string date{};                  ///< time of the run or plan; empty if unknown
  RunCircumstances circumstances;
  std::string text;  ///< text version of the page, for readers without JavaScript
  /// Strategies of a comparison, in the format of `evenkeel plan --compare --json`; `conclusion` summarizes
  /// them.
  nlohmann::json ways{};
  std::string conclusion{};
  /// Figures of the buffer; nullopt unless samples arrive during training.
  std::optional<ArrivalFigures> arrivals{};
};

/// Returns a one-line title for the page, such as "Report of a run: NAME".
[[nodiscard]] std::string title_of(const PageSubject& subject);

/// Returns the data for the page's script, with one entry per profile. The number of data points per chart is
/// limited, even for long runs.
[[nodiscard]] nlohmann::json page_json(const PageSubject& subject, std::span<const RunPicture> profiles);

/// Returns a self-contained HTML file that needs neither other files nor a network. Escapes names and paths
/// to prevent script injection.
[[nodiscard]] std::string html_page(const PageSubject& subject, std::span<const RunPicture> profiles);

}  // namespace evenkeel
