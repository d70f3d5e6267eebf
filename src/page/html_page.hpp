#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "page/advice.hpp"
#include "page/mesh_picture.hpp"
#include "page/run_picture.hpp"

namespace evenkeel {

/// What the page is about.
struct PageSubject {
  enum class Kind : std::uint8_t { run, plan };

  Kind kind = Kind::run;
  std::string version;  ///< of the program; empty: not said
  MeshPicture mesh{};
  RunCircumstances circumstances;
  std::string text;  ///< the same as a table, for those who have no script
};

/// What the page's script draws from, for each profile: charts of bounded size, whatever the run's.
[[nodiscard]] nlohmann::json page_json(const PageSubject& subject, std::span<const RunPicture> profiles);

/// One HTML file that needs nothing else: no other file, no network. Whatever names and paths hold, it stays
/// data.
[[nodiscard]] std::string html_page(const PageSubject& subject, std::span<const RunPicture> profiles);

}  // namespace evenkeel
