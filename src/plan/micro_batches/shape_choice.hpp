#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// The few shapes in which a run's micro-batches are handed out (`micro_batch.shapes`): a list that only
/// grows, up to the number that is set. First come the largest of each kind of pass, into which whatever a
/// plan may hold fits; the others are added where steps show that they save rows. All here are pure functions
/// of what all ranks have, whatever the order in which it comes.

/// What a planned micro-batch needs before it is padded to a shape, filler counted. Local. O(its samples).
[[nodiscard]] PackedShape needed_shape(const LengthTable& table, const MicroBatchPlan& plan,
                                       const PlanSettings& settings);

/// The shape that holds every micro-batch which can be planned under these settings on a group of so many
/// ranks: as many rows as the cap has, aligned; as many sequences as a micro-batch may have samples
/// (max_samples or, of fixed ones, their size), and one for filler and one for padding. Preconditions: shapes
/// and max_samples are set.
[[nodiscard]] PackedShape largest_shape(const PlanSettings& settings, int group_size);

/// The shapes of a run before its first step: the largest of each of these kinds of passes on each size of
/// group that it may have, each once, falling. Throws ConfigError when the passes do not have one number of
/// shapes, or it is too small for these.
[[nodiscard]] std::vector<PackedShape> first_shapes(std::span<const PlanSettings> passes);

/// The shape to pad to: of those that hold `needed` and have no more rows than the cap, the one with fewest
/// rows, then fewest sequences, then the smallest max_seqlen. Throws InputError when there is none, which
/// cannot be where largest_shape(settings) is among them. O(shapes).
[[nodiscard]] PackedShape smallest_shape(const PackedShape& needed, std::span<const PackedShape> shapes,
                                         const PlanSettings& settings);

/// Whether a step may add shapes, while there are fewer than there may be: the first eight may, then every
/// eighth. It follows from the step's number, so that a job that was resumed chooses as it would have.
[[nodiscard]] constexpr bool may_add_shapes(std::int64_t step) noexcept {
  return step < 8 || step % 8 == 0;
}

/// What one pass's micro-batches need, of all DP ranks.
struct PassNeeds {
  const PlanSettings* settings = nullptr;  ///< not null
  std::vector<PackedShape> needed;
};

/// Shapes to add to `shapes`, for all passes of a step together. A third of what is free is added at most,
/// rounded up, so that later steps have some left, and each shape only where it saves at least
/// 1 / rows_saved_at_least of the rows that the micro-batches need. Rows are counted on all ranks of a group.
///
/// Of all choices of so many numbers of rows the one is taken that leaves least padding, by dynamic
/// programming over sorted rows, and then over sizes of groups, each of which has shapes of its own. Rows are
/// multiples of a 128th of the cap, so that later micro-batches of about that size fit too, and so do twice
/// as many sequences, as far as there can be so many, and twice as long ones, as any micro-batch here has:
/// these two cost no rows. O(needs * shapes + sizes * (128 passes)^2 * (shapes + passes)).
inline constexpr std::int64_t rows_saved_at_least = 400;
[[nodiscard]] std::vector<PackedShape> shapes_to_add(std::span<const PassNeeds> passes,
                                                     std::span<const PackedShape> shapes);

}  // namespace evenkeel
