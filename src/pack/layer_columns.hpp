#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/batch/field.hpp"

namespace evenkeel {

/// Where some layers of a column's rows go.
struct LayerPart {
  /// Numbers along the first dimension of a row, in the order in which the target's rows have them; none:
  /// rows go whole.
  std::optional<std::vector<std::int64_t>> layers;
  Column* target = nullptr;
};

/// Splits rows [layers, ...] over targets [its layers, ...], in one pass over the source. All targets have
/// elements of one dtype: the source's or, where both are integers, another one that holds every element.
/// Preconditions: targets have the source's rows and, but for their own layers, its shape; nothing overlaps.
/// O(bytes), local.
void copy_layers(const Column& source, std::span<const LayerPart> parts);

/// The same rows with elements of another integer type. Precondition: it holds every element.
[[nodiscard]] Column with_dtype(const Column& column, DType dtype);

}  // namespace evenkeel
