#pragma once

#include <filesystem>
#include <string>

namespace evenkeel::cli {

/// Whether a folder holds a job's state.
[[nodiscard]] bool has_state(const std::filesystem::path& folder);

/// What a job's state says, in words. Throws InputError for a file that is none, IoError.
[[nodiscard]] std::string explain_state(const std::filesystem::path& file);

/// The same of the folder of --state.
[[nodiscard]] std::string explain_state_in(const std::filesystem::path& folder);

}  // namespace evenkeel::cli
