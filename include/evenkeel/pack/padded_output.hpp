#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// A ragged field as a right-padded tensor: one row a sample with trailing dimensions [seq, ...], `pad_row`
/// (one row's bytes; empty: zeros) after each sample's rows. A response-token field gives column j to
/// response token j: that is MindSpeed-RL's postprocess_packed_seqs with its prompt truncation. Local,
/// O(bytes written). Throws InputError when the field is not there, is a sample field, or has a sample with
/// more than `seq` rows.
[[nodiscard]] Column pad_field(const RaggedBatch& batch, std::string_view name, std::int64_t seq,
                               std::span<const std::byte> pad_row = {});

}  // namespace evenkeel
