#pragma once

#include <filesystem>
#include <string>

namespace evenkeel::cli {

/// What a person wants to know of a run's output folder: whose it is, whether the run is over, how many steps
/// and files there are, and whether some are missing. Throws InputError when no run wrote to the folder.
[[nodiscard]] std::string describe_run_folder(const std::filesystem::path& folder);

/// The report of a run that is over, as it stands in the folder; empty where there is none.
[[nodiscard]] std::string report_text_in(const std::filesystem::path& folder);

}  // namespace evenkeel::cli
