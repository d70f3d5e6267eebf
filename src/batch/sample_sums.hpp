#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Returns, for each sample of `batch`, the sum of the elements of `field` over the sample's rows and over
/// trailing dimensions. Throws InputError naming the field, the sample and the element if an element is not a
/// non-negative integer, and InputError naming the field's type if elements are text, bytes or half-precision
/// numbers. Throws LimitError if a sum is 2^62 or more. O(elements).
[[nodiscard]] std::vector<std::int64_t> sum_by_sample(const RaggedBatch& batch, const Column& field);

}  // namespace evenkeel
