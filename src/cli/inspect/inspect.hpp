#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace evenkeel::cli {

/// Whether this is the address of a buffer's door, or a folder that a buffer keeps samples in.
[[nodiscard]] bool is_buffer(const std::string& place);

/// What is in a buffer and what became of its samples, in words. `token`: that its door asks for. Throws
/// IoError if it cannot be reached, or if the folder is in use: then its door tells.
[[nodiscard]] std::string explain_buffer(const std::string& place, const std::string& token);

/// What a person wants to know of a run's output folder: whose it is, whether the run is over, how many steps
/// and files there are, and whether some are missing. Throws InputError when no run wrote to the folder.
[[nodiscard]] std::string describe_run_folder(const std::filesystem::path& folder);

/// The report of a run that is over, as it stands in the folder; empty where there is none.
[[nodiscard]] std::string report_text_in(const std::filesystem::path& folder);

/// Whether a folder holds a job's state.
[[nodiscard]] bool has_state(const std::filesystem::path& folder);

/// What a job's state says, in words. Throws InputError for a file that is none, IoError.
[[nodiscard]] std::string explain_state(const std::filesystem::path& file);

/// The same of the folder of --state.
[[nodiscard]] std::string explain_state_in(const std::filesystem::path& folder);

/// Returns the mean, quantiles and a histogram of some lengths, for people. `lengths` need not be sorted.
[[nodiscard]] std::string length_statistics(std::vector<std::int64_t> lengths);

}  // namespace evenkeel::cli
