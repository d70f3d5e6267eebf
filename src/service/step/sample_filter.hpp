#pragma once

#include <cstdint>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/filter.hpp"

namespace evenkeel {

/// Applies the rules of `filter` that hold for all samples, wherever they come from, to those that a rank
/// brings to a step: batch.too_long: error with a max_length, and batch.without_loss. Returns the number of
/// samples that it left out. Throws InputError that names the first sample that is to be an error.
/// `shared`: only response tokens are predicted. Precondition: prepare_samples(batch, shared).
[[nodiscard]] std::int64_t apply_filter(const FilterSettings& filter, bool shared, RaggedBatch& batch);

}  // namespace evenkeel
