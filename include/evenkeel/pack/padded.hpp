#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// A row-major [batch, seq] mask of a padded tensor, which is 1 at real tokens. Only the mask determines
/// which columns have tokens; padding may be on the left, on the right, or in between.
struct PaddedMask {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::span<const std::uint8_t> mask;  ///< batch * seq entries; not owned
};

/// Returns the true length of each row. Throws InputError if the mask has the wrong size or an entry other
/// than 0 and 1.
[[nodiscard]] std::vector<std::int64_t> lengths_of(const PaddedMask& mask);

/// Converts padded rows [batch, seq, row_bytes] to ragged rows, back to back. `ragged` has sum(lengths) *
/// row_bytes bytes.
void remove_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> padded,
                    std::span<std::byte> ragged);

/// Inverse of remove_padding(): writes ragged rows to the padded rows at which the mask is 1, and `pad_row`
/// (zeros if empty) to the other places.
void restore_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> ragged,
                     std::span<const std::byte> pad_row, std::span<std::byte> padded);

/// Converts ragged rows to right-padded rows [lengths.size(), seq, row_bytes]: the rows `kept[i]` of sequence
/// i (all rows of every sequence if the span is empty), then `pad_row` (zeros if empty). A kept range may
/// begin at -1; this row does not exist and is also filled with `pad_row`.
///
/// Packed rows of a layout without context parallelism are ragged rows of the aligned lengths, so they can be
/// restored directly: this is MindSpeed-RL's postprocess_packed_seqs. Throws InputError if a kept range is
/// not within -1..length or has more than `seq` rows. Work is proportional to the bytes written.
void pad_right(std::span<const std::int64_t> lengths, std::span<const RowRange> kept, std::int64_t seq,
               std::size_t row_bytes, std::span<const std::byte> ragged, std::span<const std::byte> pad_row,
               std::span<std::byte> padded);

/// Returns the rows at which a model predicts each sequence's response tokens, for pad_right(). The log-prob
/// of token t is at row t-1, so a sequence of n tokens with a prompt of p keeps the n-p rows [p-1, n-1), and
/// column j of the result belongs to response token j. Without a prompt, the first token is not predicted,
/// and its row is -1. Throws InputError if a prompt is negative or longer than its sequence.
[[nodiscard]] std::vector<RowRange> response_prediction_rows(std::span<const std::int64_t> lengths,
                                                             std::span<const std::int64_t> prompt_lengths);

/// Returns a ragged field as a right-padded tensor: one row per sample with trailing dimensions [seq, ...],
/// and `pad_row` (the bytes of one row; zeros if empty) after each sample's rows. A response-token field
/// gives column j to response token j: that is MindSpeed-RL's postprocess_packed_seqs with its prompt
/// truncation. Local, O(bytes written). Throws InputError if the field does not exist, is a sample field, or
/// has a sample with more than `seq` rows.
[[nodiscard]] Column pad_field(const RaggedBatch& batch, std::string_view name, std::int64_t seq,
                               std::span<const std::byte> pad_row = {});

}  // namespace evenkeel
