#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "evenkeel/c/prefix.h"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/pack/padded.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "evenkeel/pack/prefix/tree.hpp"

namespace evenkeel::c {

/// The next three functions convert C arguments to C++ values. They throw WrongArgument for NULL, a negative
/// number of elements or an unknown `cp_layout`, and InputError for other values that do not describe a valid
/// group, layout or tree.
[[nodiscard]] CpGroup cp_group_of(std::int32_t cp_size, std::int32_t cp_layout);
[[nodiscard]] PackedLayout layout_of(const evenkeel_layout* layout);
[[nodiscard]] PrefixTree tree_of(const evenkeel_tree* tree);
/// Converts a layout that has a tree. Throws WrongArgument if the layout does not have a tree, and the errors
/// of the functions above.
[[nodiscard]] PackedTreeLayout tree_layout_of(const evenkeel_layout* layout);

/// Adds the arrays parents, tokens and sample_ends, which describe the structure of a tree.
void add_tree_structure(evenkeel_arrays& arrays, const PrefixTree& tree);
/// Adds the arrays that evenkeel_tree_depth_first returns, with `prefix` before their names.
void add_schedule(evenkeel_arrays& arrays, const DepthFirstSchedule& schedule,
                  const std::string& prefix = "");

/// Returns the rank with this number. Throws InputError if it is outside the group.
[[nodiscard]] CpRank checked_cp_rank(CpGroup cp, std::int32_t rank);

/// The next three functions convert C arguments to C++ values. They throw WrongArgument for NULL and for
/// negative sizes.
[[nodiscard]] std::span<std::byte> bytes_of(const evenkeel_rows* rows, const char* name);
[[nodiscard]] PaddedMask mask_of(const evenkeel_mask* mask);
[[nodiscard]] std::size_t checked_row_bytes(std::int64_t row_bytes);

}  // namespace evenkeel::c
