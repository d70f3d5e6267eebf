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

/// What a DataService does, whose header has the contracts: it takes samples through the stages of a step,
/// each of which is a function of what the one before has made.
///
///   first pass   gather_brought -> plan_pass, choose_shapes -> exchange_pass       -> finish
///   later pass   gather_added   -> plan_pass, with_shapes   -> pass_on, add_fields -> finish
class StepMaker {
 public:
  /// `from` is equal on all ranks; its job was compared.
  StepMaker(const Communicator& world, const Config& config, const ServiceState& from = {});

  [[nodiscard]] const Mesh& mesh() const noexcept { return context_.mesh; }
  [[nodiscard]] const Config& config() const noexcept { return context_.config; }
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile) const {
    return context_.plan_settings(profile);
  }
  /// A step of what `read` brings, which runs as this rank's own work.
  [[nodiscard]] Step first_pass(const std::function<RaggedBatch()>& read, std::string_view profile);
  /// `error` is what this rank brings instead of its part; so below.
  [[nodiscard]] Step later_pass(Step before, std::string_view profile, const RaggedBatch& added,
                                const GuardedWork& error = {});
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results,
                                    const GuardedWork& error = {}) const;
  [[nodiscard]] RaggedBatch collect_on(const Step& step, const StepResults& results, int root,
                                       const GuardedWork& error = {}) const;
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const;
  [[nodiscard]] ServiceState state() const;
  /// What does not change while steps are made; without costs. Any thread.
  [[nodiscard]] ServiceState state_at(std::int64_t step) const;
  /// With micro_batch.shapes: those chosen so far; nothing without.
  [[nodiscard]] const ChosenShapes& shapes() const noexcept { return shapes_; }
  /// Lets the next step be this one.
  void go_to(std::int64_t step) noexcept { next_step_ = step; }

 private:
  void number(Gathered& gathered);

  StepContext context_;
  ChosenShapes shapes_;  // in the steps made so far
  std::uint64_t passes_ = 0;
  std::int64_t next_step_ = 0;
};

}  // namespace evenkeel
