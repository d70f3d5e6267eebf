#pragma once

#include <filesystem>
#include <string>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/atomic_file.hpp"

namespace evenkeel {

/// Writes rollouts as JSON lines that read_samples() reads back: `uid` is the group as an integer, then
/// `prompt_ids`, `response_ids` and every field but input_ids, in the batch's order.
///
/// Numbers come back with the value they had: real numbers keep a point or an exponent, so that they are not
/// taken for integers. Elements of uint8 and int32 come back as int64, of float64 as float32.
///
/// The file appears under its name on close(), whole; without it, nothing is left behind.
class JsonlWriter {
 public:
  /// Throws IoError when the file cannot be made.
  explicit JsonlWriter(const std::filesystem::path& path);

  /// Appends a line a sample, in order. Throws InputError when input_ids is missing, or when a field has an
  /// element type or a value (half precision, infinity, NaN) or a name (uid, prompt_ids, response_ids) that
  /// the format has no room for. Throws IoError.
  void write(const RaggedBatch& batch);
  void close();

 private:
  void flush();

  AtomicFile file_;
  std::string text_;
};

/// Writes one batch as a whole file. Errors as of JsonlWriter.
void write_jsonl(const std::filesystem::path& path, const RaggedBatch& batch);

}  // namespace evenkeel
