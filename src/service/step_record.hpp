#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/shared_groups.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "exchange/samples/exchange_figures.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/settings/measured_cost.hpp"
#include "plan/strategies/automatic.hpp"
#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

/// Samples of a step, with the fields added so far. All passes over the step have the same samples.
/// Replicated, except for `left_out` and `names_in_errors`.
struct StepSamples {
  LengthTable table;
  /// Fields of the samples, in the form in which they are transferred. Fields added by later passes are last.
  std::vector<CarriedField> fields;
  std::vector<SharedGroup> trees;  ///< prefixes that samples share; empty unless prefix.share: tree
  std::int64_t left_out = 0;       ///< number of this rank's samples dropped by batch.without_loss
  /// Names of this rank's samples for error messages; provided by the samples' source.
  NamesInErrors names_in_errors;
};

/// Identifies the pass that made a Step. Equal on all ranks and in copies of the step.
struct StepOrigin {
  std::uint64_t service = 0;  ///< number of the service that made the step
  std::uint64_t serial = 0;   ///< sequence number of the pass within the service
  std::uint64_t cut = 0;      ///< hash of how samples are cut for the ranks of the mesh
};

/// Data that a Step keeps for reports, for returning its results, and for later passes.
struct StepRecord {
  std::shared_ptr<const StepSamples> samples;
  /// This rank's samples and added fields, which later passes may assign to other ranks. The columns are
  /// borrowed. Null if the configuration does not have profiles.
  std::shared_ptr<const RaggedBatch> mine;
  StepAssignment assignment;  ///< assignment of samples to ranks, and shared segments; replicated
  DpRankPlan plan;            ///< plan of this rank's DP rank
  /// Shapes of the step, used by all passes over the step. Each micro-batch of the plan has one of these
  /// shapes. Null without micro_batch.shapes. Replicated.
  std::shared_ptr<const std::vector<PackedShape>> shapes;
  std::optional<StrategyChoice> strategy;  ///< set if the strategy was chosen by comparing plans
  /// Cost model with which the plan was balanced: configured, or fitted to measurements from all ranks.
  CostInUse cost;
  StepOrigin origin;
  std::chrono::steady_clock::time_point made_at;  ///< time at which the step was complete
  /// Bytes that this rank sent to each rank; empty if samples were not moved.
  std::vector<std::int64_t> bytes_to;
  /// Bytes of each field that this rank received or copied; empty if samples were not moved.
  std::vector<FieldVolume> volumes;

  [[nodiscard]] const LengthTable& table() const noexcept { return samples->table; }
};

}  // namespace evenkeel
