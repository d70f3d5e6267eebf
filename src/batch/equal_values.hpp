#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {

using ByteHash = std::uint64_t(std::span<const std::byte>);

/// For each sample of a counted field the first one with the same value: as many rows, of the same bytes.
/// That may be the sample itself. Values of one hash are compared byte by byte, so that a collision of hashes
/// costs time and nothing else. Pure; O(bytes) as long as hashes differ.
[[nodiscard]] std::vector<std::int64_t> first_equal_samples(const Column& column,
                                                            ByteHash* hash = hash_of_bytes);

/// The column with rows of each sample's own, back to back, where they lie in common: as many times as
/// samples have them, and none that no sample has. Others are copied as they are. O(bytes of the result).
[[nodiscard]] Column with_rows_of_their_own(const Column& column);

}  // namespace evenkeel
