#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// What the elements of a field of `batch` add up to in each sample: of one number a sample that number, of
/// rows or tokens the sum over all of them, and over trailing dimensions. Throws InputError that names the
/// field, and the sample and the element that is no whole number of 0 or more; or the field's type, for
/// texts, bytes and half-precision numbers. LimitError for a sum of 2^62 or more. O(elements).
[[nodiscard]] std::vector<std::int64_t> sums_of_samples(const RaggedBatch& batch, const Column& field);

}  // namespace evenkeel
