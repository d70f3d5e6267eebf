#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.hpp"

namespace evenkeel::cli {

/// Returns whether `place` is the address of a server.
[[nodiscard]] bool is_url(const std::string& place);

/// Returns whether `place` is the address of a buffer or a folder in which a buffer keeps samples.
[[nodiscard]] bool is_buffer(const std::string& place);

/// Describes the content of a buffer and the outcomes of its samples. `token` is the token that the buffer's
/// server requires. Throws IoError if the server cannot be reached, or if a server is using the folder; in
/// the latter case, use the server's address instead.
[[nodiscard]] std::string explain_buffer(const std::string& place, const std::string& token);

/// Describes a run's output folder: the run that owns it, whether the run has ended, the numbers of steps and
/// files, and missing files. Throws InputError if no run has written to the folder.
[[nodiscard]] std::string describe_run_folder(const std::filesystem::path& folder);

/// Returns the text of the report in the folder of a run that has ended; empty if there is no report.
[[nodiscard]] std::string report_text_in(const std::filesystem::path& folder);

/// Returns whether a folder contains a job's state.
[[nodiscard]] bool has_state(const std::filesystem::path& folder);

/// Describes a job's state. Throws InputError if the file is not a state, and IoError if it cannot be read.
[[nodiscard]] std::string explain_state(const std::filesystem::path& file);

/// Describes the state in the folder given to --state. Throws InputError if the folder's state file is not a
/// state, and IoError if it cannot be read.
[[nodiscard]] std::string explain_state_in(const std::filesystem::path& folder);

/// Returns the mean, quantiles and a histogram of some lengths, as human-readable text. `lengths` need not be
/// sorted.
[[nodiscard]] std::string length_statistics(std::vector<std::int64_t> lengths);

/// Builds the output of `inspect`: lines that consist of a name and a value.
class LabeledLines {
 public:
  void add_line(std::string_view name, const std::string& value) {
    text_ += fmt::format("  {:<14} {}\n", name, printable(value));
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace evenkeel::cli
