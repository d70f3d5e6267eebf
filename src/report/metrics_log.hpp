#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "io/files/output_file.hpp"
#include "report/step_figures.hpp"

namespace evenkeel {

/// Writes metrics.jsonl: one JSON object per pass over a step, with the same keys as the steps in
/// report.json. Each line is appended when its pass ends. Local.
class MetricsLog {
 public:
  /// Opens the log so that it continues at `first_step`: keeps the lines of earlier steps, and drops an
  /// incomplete last line and the lines of later steps, which will be repeated. If `first_step` is 0, starts
  /// with an empty file. Throws InputError if the file is not a metrics log, and IoError if it cannot be read
  /// or written.
  explicit MetricsLog(const std::filesystem::path& path, std::int64_t first_step = 0);

  void add(const StepFigures& figures);
  /// Closes the file. Call this only once, at the end.
  void close() { file_.close(); }

 private:
  AppendOnlyFile file_;
};

}  // namespace evenkeel
