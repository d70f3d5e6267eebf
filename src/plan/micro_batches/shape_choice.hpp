#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// The small set of shapes to which a run's micro-batches are padded (`micro_batch.shapes`): a list that only
/// grows, up to the configured number. The list starts with the largest shapes of all passes, which hold any
/// planned micro-batch. Smaller shapes are added when a step shows that they save rows. All functions here
/// are pure, and their input is replicated; results do not depend on the order of lists in the input.

/// Returns the shape that a planned micro-batch needs, including filler, before it is padded to a shape of
/// the list. Local. O(its samples).
[[nodiscard]] PackedShape needed_shape(const LengthTable& table, const MicroBatchPlan& plan,
                                       const PlanSettings& settings);

/// Returns the shape that holds every micro-batch that can be planned with these settings on a group of
/// `group_size` ranks. Its number of rows per rank is the aligned cap divided by `group_size`; its number of
/// sequences is the maximum number of samples in a micro-batch (max_samples or, if it is smaller, the size of
/// fixed micro-batches), plus one for filler and one for padding. Preconditions: shapes and max_samples are
/// set.
[[nodiscard]] PackedShape largest_shape(const PlanSettings& settings, int group_size);

/// Returns the shapes of a run before its first step: the largest shape of each pass for each possible group
/// size, without duplicates, descending. Throws ConfigError if micro_batch.shapes differs between passes or
/// is too small.
[[nodiscard]] std::vector<PackedShape> initial_shapes(std::span<const PlanSettings> passes);

/// Returns the shape to pad to: among the shapes that hold `needed` and do not exceed the cap, the one with
/// the fewest rows, then the fewest sequences, then the smallest max_seqlen. Throws InputError if there is no
/// such shape, which cannot happen if largest_shape(settings) is in the list. O(shapes).
[[nodiscard]] PackedShape smallest_fitting_shape(const PackedShape& needed,
                                                 std::span<const PackedShape> shapes,
                                                 const PlanSettings& settings);

/// Returns whether a step may add shapes while the list is not full: the first eight steps may, then every
/// eighth step. Depends only on the step's number, so a resumed job makes the same choices.
[[nodiscard]] constexpr bool may_add_shapes(std::int64_t step) noexcept {
  return step < 8 || step % 8 == 0;
}

/// The shapes that one pass's micro-batches need, over all DP ranks.
struct PassNeeds {
  const PlanSettings* settings = nullptr;  ///< not null
  std::vector<PackedShape> needed;
};

/// Each added shape must save at least 1 / min_saving_divisor of the needed rows (see shapes_to_add()).
inline constexpr std::int64_t min_saving_divisor = 400;

/// Returns shapes to add to `shapes`, for all passes of a step together. Fills at most a third of the free
/// places in the list, rounded up, to leave some for later steps. Each added shape must save at least 1 /
/// min_saving_divisor of the rows that the step's micro-batches need, counted on all ranks of their groups.
///
/// For each number of shapes, chooses the row counts that leave the least padding. This uses dynamic
/// programming, first over the sorted row counts, then over the sizes of groups, since each size has its own
/// shapes. Shapes have a margin for later micro-batches: rows are multiples of about 1/128 of the cap; the
/// number of sequences (up to its limit) and max_seqlen (up to the number of rows) allow for twice the maxima
/// over these micro-batches, since doubling them costs no rows. O(needs * shapes + sizes * (128 * passes)^2 *
/// (shapes + passes)).
[[nodiscard]] std::vector<PackedShape> shapes_to_add(std::span<const PassNeeds> passes,
                                                     std::span<const PackedShape> shapes);

}  // namespace evenkeel
