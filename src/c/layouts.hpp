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

/// The values of C structures. Throw WrongArgument for NULL, InputError for arrays that are not a layout or a
/// tree.
[[nodiscard]] CpGroup group_of(std::int32_t cp_size, std::int32_t cp_layout);
[[nodiscard]] PackedLayout layout_of(const evenkeel_layout* layout);
[[nodiscard]] PrefixTree tree_of(const evenkeel_tree* tree);
/// Also throws for a layout without a tree.
[[nodiscard]] PackedTreeLayout tree_layout_of(const evenkeel_layout* layout);

/// Adds parents, tokens and sample_ends of a tree.
void add_structure(evenkeel_arrays& arrays, const PrefixTree& tree);
/// Adds the arrays of evenkeel_tree_depth_first, under names that begin with `prefix`.
void add_schedule(evenkeel_arrays& arrays, const DepthFirstSchedule& schedule,
                  const std::string& prefix = "");

/// Throws InputError for a rank outside the group.
[[nodiscard]] CpRank rank_of(CpGroup cp, std::int32_t rank);

/// The memory that C structures name. Throw WrongArgument for NULL and for negative sizes.
[[nodiscard]] std::span<std::byte> bytes_of(const evenkeel_rows* rows, const char* name);
[[nodiscard]] PaddedMask mask_of(const evenkeel_mask* mask);
[[nodiscard]] std::size_t row_bytes_of(std::int64_t row_bytes);

}  // namespace evenkeel::c
