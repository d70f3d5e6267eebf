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

/// The samples of a step: the same in every pass over them, with the fields that were added so far.
/// Replicated, except for `left_out`.
struct StepSamples {
  LengthTable table;
  std::vector<CarriedField> fields;  ///< what samples bring, as it travels, added fields last
  std::vector<SharedGroup> trees;    ///< with prefix trees: what samples have in common
  std::int64_t left_out = 0;         ///< samples of this rank that batch.without_loss dropped
  NamesInErrors names_in_errors;     ///< of their source
};

/// Where a step comes from, so that one is not taken for another: equal on all ranks, and on copies of it.
struct StepOrigin {
  std::uint64_t service = 0;  ///< the number of the service that made it
  std::uint64_t serial = 0;   ///< its sequence number there
  std::uint64_t cut = 0;      ///< hash of how samples are cut for the ranks of its mesh
};

/// What a Step keeps for reports, for returning its results and for later passes.
struct StepRecord {
  std::shared_ptr<const StepSamples> samples;
  /// With profiles: what this rank brought and added, to be assigned again. Columns are borrowed. Else null.
  std::shared_ptr<const RaggedBatch> mine;
  StepAssignment assignment;  ///< who gets which samples, and what they share, replicated
  DpRankPlan plan;            ///< of this rank's DP rank
  /// With micro_batch.shapes: those of this step, for all passes over it; its plan has one each. Replicated.
  std::shared_ptr<const std::vector<PackedShape>> shapes;
  std::optional<StrategyChoice> strategy;  ///< where its plan decided that
  CostInUse cost;  ///< what it was balanced by: configured, or measured on all ranks alike
  StepOrigin origin;
  std::chrono::steady_clock::time_point made_at;  ///< when all phases were over
  std::vector<std::int64_t> bytes_to;  ///< that this rank sent to each rank; none where nothing moved
  std::vector<FieldVolume> volumes;    ///< what this rank got of each field; none where nothing moved

  [[nodiscard]] const LengthTable& table() const noexcept { return samples->table; }
};

}  // namespace evenkeel
