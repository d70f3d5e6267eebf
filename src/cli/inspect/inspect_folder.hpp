#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace evenkeel::cli {

/// What a person wants to know of a run's output folder: whose it is, whether the run is over, how many steps
/// and files there are, and whether some are missing, in lines of at most `width` characters where words
/// permit. Throws InputError when no run wrote to the folder.
[[nodiscard]] std::string describe_run_folder(const std::filesystem::path& folder, std::size_t width);

}  // namespace evenkeel::cli
