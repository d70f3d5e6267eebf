#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/files/output_file.hpp"

namespace evenkeel {

/// Writes rollouts as JSON Lines for read_samples(): `uid`, if any, then `prompt_ids`, `response_ids` and all
/// other fields except input_ids, in the batch's order.
///
/// Readers get the same numbers back, except that float64 is rounded to float32 and integers of all types
/// become int64. Real numbers always have a point or an exponent, so they are not mistaken for integers. A
/// sample field with trailing dimensions is written as a list, which readers take for one row per token.
///
/// The complete file appears under its name when close() is called. Without close(), no file is left behind.
class JsonlWriter {
 public:
  /// Throws IoError if the file cannot be created.
  explicit JsonlWriter(const std::filesystem::path& path);

  /// Appends one line per sample, in order, with these uids. Throws InputError if input_ids is missing, or if
  /// a field cannot be expressed in the format: an element type (half precision), a value (infinity, NaN,
  /// text that is not UTF-8), a name (uid, prompt_ids, response_ids), or rows without elements, whose shape
  /// would be lost. Throws IoError if writing fails. Precondition: one uid per sample.
  void write(const RaggedBatch& batch, std::span<const Uid> uids);
  /// Calls write(batch, uids) with the result of uids_of_groups().
  void write(const RaggedBatch& batch);
  void close();

 private:
  void flush();

  AtomicFile file_;
  std::string text_;
};

/// Returns one uid per sample, derived from the sample's group by uid_of_group(). Used for samples without
/// known uids.
[[nodiscard]] std::vector<Uid> uids_of_groups(const RaggedBatch& batch);

}  // namespace evenkeel
