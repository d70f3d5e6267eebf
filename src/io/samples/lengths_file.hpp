#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel {

/// Lengths of a sample, in tokens.
struct FileLengths {
  std::int64_t prompt = 0;
  std::int64_t response = 0;
  /// The group of the sample's uid, as in read_samples(). A row without a uid forms its own group.
  std::uint64_t group = 0;

  friend constexpr bool operator==(const FileLengths&, const FileLengths&) = default;
};

/// Returns the lengths in a file with one row per sample, in order. Blank lines are skipped.
///
/// `.csv`: the first line names the columns `prompt_length` and `response_length`, or only `length`, in any
/// order, and optionally `uid`; other columns are ignored. If the first line is a single number, every line
/// is a `length`. Values are separated by commas. They may be quoted, but not contain line breaks.
///
/// `.jsonl`: one object per line with `prompt_ids` and `response_ids`, or `prompt_length` and
/// `response_length`, or `length`, and optionally `uid`.
///
/// If only `length` is present, the sample is a response without a prompt. If `prompt_length` and
/// `response_length` are also present, `length` must be their sum. It is an error if only one of these two is
/// present.
///
/// Throws InputError at "PATH:LINE" (1-based) for a missing or repeated column or key, for a row with another
/// number of values than the first line, for quotation marks that do not enclose a whole value on its line,
/// and for a length that is not an integer from 0 to 2^40; at "PATH" for any other file name extension, for a
/// .csv without lines, and for lengths that add up to more than 2^62. Throws IoError if reading fails.
[[nodiscard]] std::vector<FileLengths> read_length_table(const InputFile& file);

/// Returns the uids of a table's rows, in order; uids in a .csv are strings. Throws InputError and IoError in
/// the same cases as read_length_table().
[[nodiscard]] std::vector<Uid> read_uids_of_table(const InputFile& file);

/// Returns the integers in the column or key `name`, in order; empty if the table does not have it. Throws
/// InputError and IoError in the same cases as read_length_table(), and InputError for a row without an
/// integer from 0 to 2^62 in this column.
[[nodiscard]] std::vector<std::int64_t> read_integers_of_table(const InputFile& file, std::string_view name);

}  // namespace evenkeel
