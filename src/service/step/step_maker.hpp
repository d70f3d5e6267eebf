#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/step_context.hpp"

namespace evenkeel {

struct Gathered;

/// Implements DataService; see its header for the contracts. Takes samples through the stages of a step; each
/// stage is a function of the previous stage's result.
///
///   first pass   gather_first_pass -> plan_pass, choose_shapes -> exchange_pass               -> make_step
///   later pass   gather_later_pass -> plan_pass, with_shapes   -> reuse_or_resend, add_fields -> make_step
class StepMaker {
 public:
  /// `from` must be equal on all ranks, and the caller must have checked that it belongs to this job.
  StepMaker(const Communicator& world, const Config& config, const ServiceState& from = {});

  [[nodiscard]] const Mesh& mesh() const noexcept { return context_.mesh; }
  [[nodiscard]] const Config& config() const noexcept { return context_.config; }
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile) const {
    return context_.plan_settings(profile);
  }
  /// Makes a step from the samples that `read` returns. `read` may throw on a single rank.
  [[nodiscard]] Step make_first_pass(const std::function<RaggedBatch()>& read, std::string_view profile);
  /// Makes a later pass. Here and below, `error` is an error that has already occurred on this rank.
  [[nodiscard]] Step make_later_pass(Step before, std::string_view profile, const RaggedBatch& added,
                                     const GuardedWork& error = {});
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results,
                                    const GuardedWork& error = {}) const;
  [[nodiscard]] RaggedBatch collect_on(const Step& step, const StepResults& results, int root,
                                       const GuardedWork& error = {}) const;
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const;
  [[nodiscard]] ServiceState state() const;
  /// Returns a state with `step` as its next step. Omits costs and shapes, which change while steps are made.
  /// Thread-safe.
  [[nodiscard]] ServiceState state_at(std::int64_t step) const;
  /// Returns the shapes chosen so far; null without micro_batch.shapes.
  [[nodiscard]] const ChosenShapes& shapes() const noexcept { return shapes_; }
  /// Sets the number that the next first pass uses for its step.
  void set_next_step(std::int64_t step) noexcept { next_step_ = step; }

 private:
  void assign_pass_number(Gathered& gathered);

  StepContext context_;
  ChosenShapes shapes_;  // shapes of the steps made so far
  std::uint64_t passes_ = 0;
  std::int64_t next_step_ = 0;
};

}  // namespace evenkeel
