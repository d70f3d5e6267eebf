#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/step_plan.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/units/pack_units.hpp"
#include "plan/units/segments.hpp"

namespace evenkeel {

/// The assignment of one mini-batch. Replicated.
struct MiniBatchAssignment {
  /// Units of each group, ascending (or in the reference system's order if balance.preset determines the
  /// assignment).
  IdGroups<UnitId> units;
  JointMicroBatches joint;

  friend bool operator==(const MiniBatchAssignment&, const MiniBatchAssignment&) = default;
};

/// A step assigned to mini-batches and DP ranks. Every rank computes the same assignment from replicated
/// input, so each owner knows which ranks need its samples, and how long the samples' sequences are on these
/// ranks.
struct StepAssignment {
  std::int64_t step = 0;
  PackUnits units;
  /// The groups that run micro-batches: one group per DP rank or, with flexible CP, groups of different
  /// sizes.
  std::vector<ContextGroup> groups;
  std::vector<MiniBatchAssignment> mini_batches;
  IdGroups<EntryId> shares;  ///< entries of each group over all mini-batches
  SegmentTable segments;     ///< the sequences in the tensors, and their lengths

  /// Returns whether samples may share segments.
  [[nodiscard]] bool has_shared_prefixes() const noexcept { return units.has_shared_prefixes(); }
  /// Returns the entries of a mini-batch over all DP ranks. Precondition: the mini-batch exists.
  [[nodiscard]] std::vector<EntryId> entries_of(MiniBatchId mini_batch) const;

  friend bool operator==(const StepAssignment&, const StepAssignment&) = default;
};

/// Assigns a step: cuts it into mini-batches, assigns every unit to a DP rank, and decides which DP rank gets
/// which share, so that most tokens stay where they are (place_shares).
/// - Mini-batches that are cut first (`keep`) do not split groups of samples that share prefixes, and their
///   numbers of groups differ by at most one.
/// - Mini-batches that are cut from each DP rank's share differ by at most one unit per rank.
/// With fewer groups than mini-batches, some mini-batches are empty. Throws ConfigError for incompatible
/// settings, LimitError for a sample above a cap or work of 2^62 or more, and InputError if trees do not
/// contain each entry exactly once or a required field is missing. Pure, deterministic.
[[nodiscard]] StepAssignment assign_step(const StepProblem& problem);

/// Returns the units of each DP rank, by mini-batch. This takes most of the time of assign_step(); one rank
/// can compute the result and send it to the others. Throws ConfigError, InputError and LimitError under the
/// same conditions as assign_step().
[[nodiscard]] std::vector<IdGroups<UnitId>> assign_units(const StepProblem& problem);
/// Returns whether the result of assign_units() determines the whole assignment. This is not the case for
/// grids and for groups of different sizes.
[[nodiscard]] bool shares_are_derived_from_units(const PlanSettings& settings) noexcept;
/// Returns the result of assign_step() given the result of assign_units(). O(n log n), plus the time for
/// making units. Preconditions: shares_are_derived_from_units(); assign_units() did not throw.
[[nodiscard]] StepAssignment assign_step_by_units(const StepProblem& problem,
                                                  std::vector<IdGroups<UnitId>> units);

/// Returns the segments of a micro-batch, in packed order.
[[nodiscard]] std::vector<SegmentId> segments_of(const StepAssignment& assignment,
                                                 const MicroBatchPlan& plan);

/// Returns a 64-bit hash of the assignment: equal plans have equal hashes on every machine. `counts` has the
/// number of micro-batches of each mini-batch. Ranks compare their hashes if contract checks are enabled.
[[nodiscard]] std::uint64_t plan_hash(const IdGroups<EntryId>& shares,
                                      std::span<const std::int64_t> counts) noexcept;

/// Returns the segments of a step's units, numbered in the order of the units, with their lengths in the
/// tensors: aligned, or padded if padded micro-batches are planned. O(samples + segments).
[[nodiscard]] SegmentTable segments_of_units(const StepProblem& problem, const StepAssignment& assignment);

}  // namespace evenkeel
