#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/step_plan.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/units/pack_units.hpp"
#include "plan/units/segments.hpp"

namespace evenkeel {

/// One mini-batch of a step as every rank works it out alike.
struct MiniBatchAssignment {
  IdGroups<UnitId> units;  ///< of each group, ascending (in the reference's order where a preset assigns)
  JointMicroBatches joint;

  friend bool operator==(const MiniBatchAssignment&, const MiniBatchAssignment&) = default;
};

/// A step assigned to mini-batches and DP ranks: the part of planning that every rank does alike, on
/// replicated input, so that owners know where each sample goes and how long its sequence will be there.
struct StepAssignment {
  std::int64_t step = 0;
  PackUnits units;
  std::vector<ContextGroup> groups;  ///< to which it is assigned: one a DP rank, its places, unless flexible
  std::vector<MiniBatchAssignment> mini_batches;
  IdGroups<EntryId> shares;  ///< table entries of each group over all mini-batches
  SegmentTable segments;     ///< what stands in the tensors, and how long it is there

  /// Whether samples may share segments.
  [[nodiscard]] bool shared() const noexcept { return units.shared(); }
  /// The table entries of a mini-batch over all DP ranks. Precondition: there is such a mini-batch.
  [[nodiscard]] std::vector<EntryId> entries_of(MiniBatchId mini_batch) const;

  friend bool operator==(const StepAssignment&, const StepAssignment&) = default;
};

/// Assigns a step: cuts it into mini-batches, gives every unit to a DP rank, and puts the shares where most
/// of their tokens are. Mini-batches that are cut first (`keep`) differ by one group of samples that share
/// something at most, and none tears a group; those that are cut from each DP rank's share differ by one unit
/// on each. With fewer groups than mini-batches some are empty. Throws ConfigError for settings that do not
/// fit, LimitError for a sample above a cap, and as make_units does. Pure, deterministic.
[[nodiscard]] StepAssignment assign_step(const StepProblem& problem);

/// The units of each DP rank, mini-batch after mini-batch: what one rank can work out, which takes most of
/// assign_step's time, and tell others. Throws as assign_step does.
[[nodiscard]] std::vector<IdGroups<UnitId>> assign_units(const StepProblem& problem);
/// Whether everything in a step's assignment follows from that. Not so for a grid, nor for groups of their
/// own sizes.
[[nodiscard]] bool follows_from_units(const PlanSettings& settings) noexcept;
/// What assign_step makes, from its assign_units. Takes time linear in the samples, but for making units.
/// Preconditions: follows_from_units; assign_units did not throw.
[[nodiscard]] StepAssignment assign_step_by_units(const StepProblem& problem,
                                                  std::vector<IdGroups<UnitId>> units);

/// The segments that a micro-batch holds, in packed order.
[[nodiscard]] std::vector<SegmentId> segments_of(const StepAssignment& assignment,
                                                 const MicroBatchPlan& plan);

/// One 64-bit hash of who gets what: equal plans have equal hashes on every machine. `counts` has the
/// micro-batches of each mini-batch. Where contracts are checked, ranks compare it.
[[nodiscard]] std::uint64_t plan_hash(const IdGroups<EntryId>& shares,
                                      std::span<const std::int64_t> counts) noexcept;

/// The segments of a step's units, numbered unit after unit, with the lengths that they have in the tensors:
/// aligned, or padded where padded micro-batches are planned. O(samples + segments).
[[nodiscard]] SegmentTable segments_of_units(const StepProblem& problem, const StepAssignment& assignment);

}  // namespace evenkeel
