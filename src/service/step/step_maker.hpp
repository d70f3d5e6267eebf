#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "exchange/gather/call_key.hpp"
#include "exchange/samples/field_ranges.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/stopwatch.hpp"
#include "service/step/time_reports.hpp"
#include "service/step_record.hpp"

namespace evenkeel {

/// Who works out who gets which samples, and tells others of it.
enum class AssignedBy : std::uint8_t {
  a_rank_of_each_node,    ///< tells those of its node; all ranks have a place
  first_without_a_place,  ///< tells all ranks, which have better to do
};

/// What a DataService does, whose header has the contracts. A first pass gathers, plans and exchanges
/// (step_maker.cpp); a later one hands on what is there already (later_pass.cpp).
class StepMaker {
 public:
  /// `from` is equal on all ranks; its job was compared.
  StepMaker(const Communicator& world, const Config& config, const ServiceState& from = {},
            AssignedBy by = AssignedBy::a_rank_of_each_node);

  [[nodiscard]] const Mesh& mesh() const noexcept { return mesh_; }
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile) const;
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
  [[nodiscard]] const std::shared_ptr<const std::vector<PackedShape>>& shapes() const noexcept {
    return shapes_;
  }
  /// The number of the service, which no other has.
  [[nodiscard]] std::uint64_t service() const noexcept { return number_; }
  [[nodiscard]] std::int64_t next_step() const noexcept { return next_step_; }
  /// The serial that the next pass will have.
  [[nodiscard]] std::uint64_t next_serial() const noexcept { return passes_ + 1; }
  /// Lets the next step be this one.
  void go_to(std::int64_t step) noexcept { next_step_ = step; }

 private:
  /// A step in the making: what one part of it leaves to the next.
  struct Making {
    Step step;
    std::shared_ptr<StepRecord> record;
    std::vector<PackedMicroBatch> micro_batches;
    PlanSettings settings;
    DerivedFieldSettings derived;
    RaggedBatch nothing;
    GuardedWork work;
    Stopwatch stopwatch;
  };

  /// Makes room for a step under this profile, into `making`.
  void begin(std::optional<Making>& making, std::string_view profile, GuardedWork& work) const;
  /// What all ranks know of a step's samples, but for how fields travel.
  struct Gathered {
    std::shared_ptr<StepSamples> samples;
    std::vector<FieldSpec> fields;
    OwnRanges ranges;
  };
  [[nodiscard]] Gathered gather(const std::optional<RaggedBatch>& mine, std::string_view profile,
                                GuardedWork& work) const;
  /// What every pass is before it is planned. Nobody has failed so far.
  void number(Making& making, std::int64_t index);
  [[nodiscard]] CostInUse cost_in_use(std::string_view profile) const;
  void use_measured_cost(Making& making);
  [[nodiscard]] std::uint64_t cut_hash(const PlanSettings& settings) const;
  /// collect(); `where` tells apart calls that go on differently.
  [[nodiscard]] RaggedBatch bring_home(const Step& step, const StepResults& results, std::string_view where,
                                       const GuardedWork& error) const;
  [[nodiscard]] CallKey key_of(std::string_view action, const Step& step, std::string_view how) const;
  void plan(Making& making) const;
  void assign(const StepProblem& problem, StepAssignment& assignment, GuardedWork& work) const;
  void plan_own(Making& making, const StepProblem& problem) const;
  /// What travels of the fields that samples bring. Collective where integers are narrowed.
  [[nodiscard]] std::vector<CarriedField> carried(Making& making, std::span<const FieldSpec> fields,
                                                  OwnRanges& ranges) const;
  /// Those of the step's fields that this pass is sent: equal on all ranks.
  [[nodiscard]] static std::vector<CarriedField> sent(Making& making, std::span<const CarriedField> fields);
  /// Of `fields`, where `are_shared`, which all ranks say alike, also one that has failed.
  void require_shared_rows(const Making& making, bool are_shared, std::span<const CarriedField> fields,
                           const RaggedBatch& mine) const;
  /// Throws for a result that this rank has only a part of.
  void require_whole_results(const StepResults& results) const;
  /// Puts weights into the packed tensors, and makes room for them in the step: finish() moves them there.
  void weigh_micro_batches(Making& making) const;
  [[nodiscard]] static Step finish(Making& making) noexcept;
  [[nodiscard]] StepTransfer transfer_of(const Making& making, std::span<const CarriedField> fields,
                                         const RaggedBatch& mine,
                                         std::span<const RowCounts> row_counts) const;
  /// exchange_samples() under the settings of the pass. Collective.
  ExchangeVolume exchange(const Making& making, StepTransfer transfer, std::vector<PackedMicroBatch>& packed,
                          const std::function<void()>& finish = {}) const;
  // With micro_batch.shapes, in step_shapes.cpp.
  void prepare_shapes(const ServiceState& from);
  void choose_shapes(Making& making) const;
  void add_shapes(Making& making) const;
  void hand_out_shapes(Making& making) const;
  [[nodiscard]] DerivedFieldSettings derived_options(std::string_view profile) const;
  [[nodiscard]] TransportSettings transport_settings() const noexcept;

  void keep_samples(StepSamples& samples, RaggedBatch& mine) const;
  /// What a pass leaves on this rank to the next one.
  struct Left {
    std::vector<PackedMicroBatch> tensors;
    bool stays = false;           ///< whether sequences stay on their ranks; equal on all
    bool stays_together = false;  ///< and in their micro-batches
  };
  [[nodiscard]] Left take_left(Step& before, const Making& making,
                               std::span<const CarriedField> fields) const;
  void pass_on(Step& before, Making& making) const;
  void regroup_locally(std::span<PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
                       std::span<const CarriedField> fields, Making& making) const;
  void add_fields(Making& making, std::span<const FieldSpec> fields, OwnRanges& ranges,
                  const RaggedBatch& added) const;

  Mesh mesh_;
  AssignedBy assigned_by_;
  Config config_;
  std::vector<int> dp_of_rank_;  // where samples are, for their placement
  std::unique_ptr<TimeReports> time_reports_;
  std::unique_ptr<const StepRecord> nothing_;  // in place of what a step that was moved from has not
  std::uint64_t number_ = 0;                   // of the service, by which its steps are known
  std::uint64_t passes_ = 0;                   // made so far
  // With micro_batch.shapes: chosen in the steps made so far; nothing without.
  std::shared_ptr<const std::vector<PackedShape>> shapes_;
  std::vector<std::string> planned_profiles_;  // what shapes are chosen for, beside a step's first pass
  std::int64_t next_step_ = 0;
  bool sends_messages_ = true;  // in exchanges; equal on all ranks
};

/// The name of a step in errors: `step 3 (profile 'update')`.
[[nodiscard]] std::string name_of(const Step& step);

/// Throws InputError for a step that was moved from.
void require_made(const Step& step);

/// ` under profile 'update'`, or nothing for the job's own settings.
[[nodiscard]] std::string under_profile(std::string_view profile);

}  // namespace evenkeel
