#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace evenkeel {

/// Outputs of `evenkeel run`.
enum class RunOutput : std::uint8_t { dump, results, report, trace };

/// Returns "dump", "results", "report" or "trace": the option's name without the two dashes.
[[nodiscard]] std::string_view name_of(RunOutput output) noexcept;

/// Files of a run below its output folder:
///
///     dump      step-000000/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors, or
///               step-000000/data-000/tp-000/pp-000/mb-00000.safetensors
///     results   step-000000.safetensors
///     report    report.txt, report.json, report.html, metrics.jsonl
///     trace     trace.json
///
/// With several profiles, the first two have one folder per profile. Leftovers of interrupted writes by
/// AtomicFile may be next to each file.
struct RunLayout {
  /// Marker file identifying the run that owns these files.
  static constexpr const char* marker_name = "evenkeel-run.json";
  /// File of the report that later runs of a job extend.
  static constexpr const char* metrics_name = "metrics.jsonl";

  std::set<RunOutput> outputs;
  /// Profiles with separate folders. Their names consist of letters, digits, _ and -.
  std::set<std::string> profiles;
};

/// An entry below an output folder whose name is in the layout.
struct RunEntry {
  enum class Kind : std::uint8_t {
    file,       ///< complete file of a run
    temporary,  ///< leftover of an interrupted write
    folder,     ///< folder of the layout, which may also contain other files
    /// An entry that a run cannot have written: a symbolic link, a folder in place of a file, a device, ...
    foreign,
  };
  std::filesystem::path path;
  Kind kind = Kind::file;
  /// Step to which the entry belongs; nullopt if it concerns the whole run.
  std::optional<std::int64_t> step{};
};

/// Calls `visit` with all entries of `layout` below `folder`, in an order that depends only on their names,
/// until `visit` returns false. The contents of a folder come before the folder. Returns false if `visit`
/// did, otherwise true. Does not follow symbolic links, and skips names that are not in the layout. Throws
/// IoError if a folder cannot be read.
bool visit_run_entries(const std::filesystem::path& folder, const RunLayout& layout,
                       const std::function<bool(const RunEntry&)>& visit);

/// Returns whether the name is that of a step's folder: step-000000, step-000001, ...
[[nodiscard]] bool is_step_folder(std::string_view name) noexcept;

}  // namespace evenkeel
