#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// A [batch, seq] mask of a padded tensor, row-major, 1 where a token is real. The mask decides which columns
/// hold tokens, whatever side the padding is on (left, right, or holes in between), and nothing else does.
struct PaddedMask {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::span<const std::uint8_t> mask;  ///< batch * seq entries; not owned
};

/// True length of each row. Throws InputError when the mask has the wrong size or an entry other than 0
/// and 1.
[[nodiscard]] std::vector<std::int64_t> lengths_of(const PaddedMask& mask);

/// Padded rows [batch, seq, row_bytes] -> ragged rows back to back. `ragged` has sum(lengths) * row_bytes
/// bytes.
void remove_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> padded,
                    std::span<std::byte> ragged);

/// The inverse: ragged rows -> padded rows at the places the mask names; other places get `pad_row` (empty:
/// zeros).
void restore_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> ragged,
                     std::span<const std::byte> pad_row, std::span<std::byte> padded);

/// Ragged rows -> right-padded rows [lengths.size(), seq, row_bytes]: sequence i's rows from `first_rows[i]`
/// on (an empty span means from 0), then `pad_row`. This is MindSpeed-RL's postprocess_packed_seqs with
/// prompt truncation: the log-prob of token t sits at row t-1, so a prompt of p tokens is cut by starting at
/// row p-1. Throws InputError when a first row lies outside 0..length, or what is left is longer than `seq`.
void pad_right(std::span<const std::int64_t> lengths, std::span<const std::int64_t> first_rows,
               std::int64_t seq, std::size_t row_bytes, std::span<const std::byte> ragged,
               std::span<const std::byte> pad_row, std::span<std::byte> padded);

}  // namespace evenkeel
