#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {

using ByteHash = std::uint64_t(std::span<const std::byte>);

/// Returns, for each sample of a counted field, the first sample with the same value, which may be the sample
/// itself. Values are equal if they have the same number of rows and the same bytes. Values with equal hashes
/// are compared byte by byte, so hash collisions only cost time. Pure. O(bytes) unless hashes collide.
[[nodiscard]] std::vector<std::int64_t> first_equal_samples(const Column& column,
                                                            ByteHash* hash = hash_of_bytes);

/// Returns a copy of the column in which every sample has its own rows, one sample after another. Shared rows
/// are repeated for each of their samples, and rows that do not belong to any sample are dropped. Columns
/// without shared rows are copied unchanged. Precondition: the field is counted. O(bytes of the result).
[[nodiscard]] Column with_separate_rows(const Column& column);

}  // namespace evenkeel
