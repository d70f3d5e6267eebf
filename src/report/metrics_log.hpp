#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "io/files/output_file.hpp"
#include "report/step_figures.hpp"

namespace evenkeel {

/// metrics.jsonl: one JSON object a pass over a step, with the keys of report.json's steps, appended as soon
/// as the pass is over. Local.
class MetricsLog {
 public:
  /// Goes on where the run's steps before `first_step` end: lines of later steps, which will come again, and
  /// a last line that was torn are dropped. With 0 the file begins anew. Throws InputError for a file that is
  /// no such log, IoError when it cannot be read or written.
  explicit MetricsLog(const std::filesystem::path& path, std::int64_t first_step = 0);

  void add(const StepFigures& figures);
  /// Call once, last.
  void close() { file_.close(); }

 private:
  AppendedFile file_;
};

}  // namespace evenkeel
