#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel {

/// One sample's lengths, in tokens.
struct FileLengths {
  std::int64_t prompt = 0;
  std::int64_t response = 0;
  std::uint64_t group = 0;  ///< from the uid, as read_samples() does; a row without one is its own group

  friend constexpr bool operator==(const FileLengths&, const FileLengths&) = default;
};

/// The lengths in a file, a row a sample, in order; blank lines are skipped.
///
/// `.csv`: the first line names the columns: `prompt_length` and `response_length`, or `length` alone, in any
/// order, optionally `uid`; other columns are ignored. Where it is a number alone, every line is a `length`.
/// Commas separate values; a value may be quoted, on one line. `.jsonl`: an object a line with either
/// `prompt_ids` and `response_ids`, or `prompt_length` and `response_length`, or `length`, and optionally
/// `uid`. `length` alone is all response; beside the other two it must be their sum, and beside one of them
/// it is refused.
///
/// Throws InputError at "PATH:LINE" (1-based) for a missing column or key, for one that is there twice, for
/// quotation marks that do not enclose a whole value on its line, and for a length that is not an integer of
/// 0 .. 2^40; at "PATH" for any other file name ending. Throws IoError.
[[nodiscard]] std::vector<FileLengths> read_length_table(const InputFile& file);

/// The uids of a table's rows, in order; those of a .csv are texts. Throws likewise.
[[nodiscard]] std::vector<Uid> read_uids_of_table(const InputFile& file);

/// The integers of a further column or key, in order; none where the table does not have it. Throws likewise,
/// also for a row that has no integer of 0 .. 2^62 there.
[[nodiscard]] std::vector<std::int64_t> read_integers_of_table(const InputFile& file, std::string_view name);

}  // namespace evenkeel
