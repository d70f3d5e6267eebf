#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/service/data_service.hpp"
#include "report/metrics_log.hpp"
#include "report/step_trace.hpp"

namespace evenkeel {

/// What is written about a run while it runs. Nothing is gathered or written that was not asked for.
class Watch {
 public:
  /// Paths are empty where nothing is to be written; equal on all ranks. Collective: opens the files, on rank
  /// 0, and aligns clocks for a trace. Throws on every rank.
  struct Files {
    std::filesystem::path metrics;  ///< metrics.jsonl
    std::int64_t first_step = 0;    ///< that this run makes: metrics of earlier ones stay
    std::filesystem::path trace;    ///< trace.json
  };
  Watch(const Mesh& mesh, const Files& files);

  /// The trainer asks for a pass, and gets it, made ahead or while it waited. Local.
  void asks() { times_.asked = std::chrono::steady_clock::now(); }
  void gets(bool made_ahead) {
    times_.handed = std::chrono::steady_clock::now();
    times_.made_ahead = made_ahead;
  }
  /// It has used it. `figures` are there on rank 0. Collective; throws on every rank.
  void finished(const Step& step, const std::optional<StepFigures>& figures);
  /// Closes the files. Collective; throws on every rank.
  void ends();

 private:
  const Mesh& mesh_;
  bool logs_;
  std::optional<CommonClock> clock_;
  std::optional<MetricsLog> metrics_;
  std::optional<TraceFile> trace_;
  TrainerTimes times_;
};

}  // namespace evenkeel
