#include "job/watch.hpp"

#include "mesh/fail_together.hpp"

namespace evenkeel {

Watch::Watch(const Mesh& mesh, const Files& files) : mesh_(mesh), logs_(!files.metrics.empty()) {
  if (!files.trace.empty()) clock_.emplace(mesh.world());
  if (!logs_ && !clock_) return;
  together(mesh.world(), [&] {
    if (mesh.world().rank() != 0) return;
    if (logs_) metrics_.emplace(files.metrics, files.first_step);
    if (clock_) trace_.emplace(files.trace, mesh.grid());
  });
}

void Watch::finished(const Step& step, const std::optional<StepFigures>& figures) {
  if (!logs_ && !clock_) return;
  std::vector<RankTrace> ranks;
  if (clock_) ranks = gather_trace(mesh_.world(), *clock_, times_, step);
  together(mesh_.world(), [&] {
    if (metrics_ && figures) metrics_->add(*figures);
    if (trace_) trace_->add(step.index, step.profile, ranks);
  });
}

void Watch::ends() {
  if (!logs_ && !clock_) return;
  together(mesh_.world(), [&] {
    if (metrics_) metrics_->close();
    if (trace_) trace_->close();
  });
}

}  // namespace evenkeel
