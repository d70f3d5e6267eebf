#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/files/output_file.hpp"

namespace evenkeel {

/// Writes rollouts as JSON lines that read_samples() reads back: `uid` where there is one, then `prompt_ids`,
/// `response_ids` and every field but input_ids, in the batch's order.
///
/// Numbers come back with the value they had: real numbers keep a point or an exponent, so that they are not
/// taken for integers. Elements of uint8 and int32 come back as int64, of float64 as float32.
///
/// The file appears under its name on close(), whole; without it, nothing is left behind.
class JsonlWriter {
 public:
  /// Throws IoError when the file cannot be made.
  explicit JsonlWriter(const std::filesystem::path& path);

  /// Appends a line a sample, in order, with these uids. Throws InputError when input_ids is missing, when a
  /// field has an element type or a value (half precision, infinity, NaN, text that is not UTF-8) or a name
  /// (uid, prompt_ids, response_ids) that the format has no room for, or rows without elements, whose shape
  /// it does not tell. Throws IoError. Precondition: a uid a sample.
  void write(const RaggedBatch& batch, std::span<const Uid> uids);
  /// The same with uids_of_groups().
  void write(const RaggedBatch& batch);
  void close();

 private:
  void flush();

  AtomicFile file_;
  std::string text_;
};

/// What samples say of which nothing but their groups is known (uid_of_group()).
[[nodiscard]] std::vector<Uid> uids_of_groups(const RaggedBatch& batch);

/// Writes one batch as a whole file. Errors as of JsonlWriter.
void write_jsonl(const std::filesystem::path& path, const RaggedBatch& batch);

}  // namespace evenkeel
