#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// A [batch, seq] mask of a padded tensor, row-major, 1 where a token is real. Only the mask says which
/// columns have tokens; padding may be on the left, on the right, or in between.
struct PaddedMask {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::span<const std::uint8_t> mask;  ///< batch * seq entries; not owned
};

/// True length of each row. Throws InputError if the mask has the wrong size or an entry other than 0 and
/// 1.
[[nodiscard]] std::vector<std::int64_t> lengths_of(const PaddedMask& mask);

/// Padded rows [batch, seq, row_bytes] -> ragged rows back to back. `ragged` has sum(lengths) * row_bytes
/// bytes.
void remove_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> padded,
                    std::span<std::byte> ragged);

/// The inverse: ragged rows -> padded rows where the mask is 1; other places get `pad_row` (empty:
/// zeros).
void restore_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> ragged,
                     std::span<const std::byte> pad_row, std::span<std::byte> padded);

/// Ragged rows -> right-padded rows [lengths.size(), seq, row_bytes]: the rows `kept[i]` of sequence i (an
/// empty span means all of every sequence), then `pad_row` (empty: zeros). A kept range may begin at -1, a
/// row that does not exist and is filled with `pad_row`, too.
///
/// Packed rows of a layout without context parallelism are ragged rows of the aligned lengths, so they can be
/// restored directly: this is MindSpeed-RL's postprocess_packed_seqs. Throws InputError if a kept range
/// leaves -1..length or has more than `seq` rows. Work is proportional to the bytes written.
void pad_right(std::span<const std::int64_t> lengths, std::span<const RowRange> kept, std::int64_t seq,
               std::size_t row_bytes, std::span<const std::byte> ragged, std::span<const std::byte> pad_row,
               std::span<std::byte> padded);

/// The rows at which a model predicts each sequence's response tokens, for pad_right: the log-prob of token t
/// is at row t-1, so a sequence of n tokens with a prompt of p keeps rows [p-1, n-1), n-p of them, and column
/// j of the result belongs to response token j. Without a prompt nothing predicts the first token: its row is
/// -1. Throws InputError if a prompt is negative or longer than its sequence.
[[nodiscard]] std::vector<RowRange> response_prediction_rows(std::span<const std::int64_t> lengths,
                                                             std::span<const std::int64_t> prompt_lengths);

/// A ragged field as a right-padded tensor: one row a sample with trailing dimensions [seq, ...], `pad_row`
/// (one row's bytes; empty: zeros) after each sample's rows. A response-token field gives column j to
/// response token j: that is MindSpeed-RL's postprocess_packed_seqs with its prompt truncation. Local,
/// O(bytes written). Throws InputError if the field does not exist, is a sample field, or has a sample with
/// more than `seq` rows.
[[nodiscard]] Column pad_field(const RaggedBatch& batch, std::string_view name, std::int64_t seq,
                               std::span<const std::byte> pad_row = {});

}  // namespace evenkeel
