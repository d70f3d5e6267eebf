#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace evenkeel {

/// What `evenkeel run` writes to a folder on demand.
enum class RunOutput : std::uint8_t { dump, results, report, trace };

/// dump, results, report or trace; an option's name is this after two dashes.
[[nodiscard]] std::string_view name_of(RunOutput output) noexcept;

/// Which files a run has below its output folder:
///
///     dump      step-000000/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors, or
///               step-000000/data-000/tp-000/pp-000/mb-00000.safetensors
///     results   step-000000.safetensors
///     report    report.txt, report.json, report.html, metrics.jsonl
///     trace     trace.json
///
/// with several profiles, the first two in a folder a profile. Beside each may lie what AtomicFile wrote when
/// it was interrupted.
struct RunLayout {
  /// The file that says whose they are.
  static constexpr const char* marker_name = "evenkeel-run.json";
  /// The file of the report that later runs of a job go on with.
  static constexpr const char* metrics_name = "metrics.jsonl";

  std::set<RunOutput> outputs;
  std::set<std::string>
      profiles;  ///< names of the profiles that have a folder each; letters, digits, _ and -
};

/// Something below an output folder that has a name of the layout.
struct RunEntry {
  enum class Kind : std::uint8_t {
    file,       ///< a file of a run, whole
    temporary,  ///< what an interrupted write left
    folder,     ///< a folder of the layout; whether anything else lies in it is not said
    foreign,    ///< no run makes this: a symbolic link, a folder in place of a file, a device, ...
  };
  std::filesystem::path path;
  Kind kind = Kind::file;
  std::optional<std::int64_t> step{};  ///< whose it is; none of what is of the whole run
};

/// Shows `visit` all entries of `layout` below `folder`, by name, the contents of a folder before the folder,
/// until it returns false; returns whether it never did. Symbolic links are not followed. What has no name of
/// the layout is passed over. Throws IoError when a folder cannot be read.
bool visit_run_entries(const std::filesystem::path& folder, const RunLayout& layout,
                       const std::function<bool(const RunEntry&)>& visit);

/// Whether a run names a step's folder so: step-000000, step-000001, ...
[[nodiscard]] bool is_step_folder(std::string_view name) noexcept;

}  // namespace evenkeel
