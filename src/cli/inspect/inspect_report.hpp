#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace evenkeel::cli {

/// Whether a .jsonl file begins with metrics of a run.
[[nodiscard]] bool names_metrics(const std::filesystem::path& path);

/// What a report.json says, in words; of metrics.jsonl, what it says so far, without a last line that is
/// torn. Throws InputError for a file that is neither, IoError.
[[nodiscard]] std::string explain_report(const std::filesystem::path& path, std::size_t width);

/// The report in a run's folder, as far as it is written; empty where there is none.
[[nodiscard]] std::string explain_report_in(const std::filesystem::path& folder, std::size_t width);

}  // namespace evenkeel::cli
