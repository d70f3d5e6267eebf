#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/megatron/indexed_dataset.hpp"

namespace evenkeel {

/// Formats in which samples can be written.
enum class SampleFormat : std::uint8_t {
  jsonl,        ///< rollouts, one JSON object per line
  safetensors,  ///< ragged tensors: the concatenated values of all samples, and the samples' offsets
  megatron,     ///< the two files of an indexed dataset; tokens only
  lengths,      ///< a table of prompt and response lengths (.csv)
};

/// Returns the format that the path's extension denotes, or nullopt for an unknown extension.
[[nodiscard]] std::optional<SampleFormat> format_of(const std::filesystem::path& path);

/// Parts of samples that need not be written: names of fields, `prompt_lengths` (the boundaries between
/// prompts and responses), `uid` (the groups of samples), or `input_ids`. `all` means everything that the
/// format cannot express. A sample without its uid forms its own group.
using DroppedFields = std::set<std::string>;

/// Writes samples to a file, batch by batch. Throws InputError if the format cannot express a part of a
/// sample, unless the part is listed in the writer's DroppedFields. Files appear completely or not at all,
/// when close() is called. Memory: 40 bytes per sample and a few MiB. For safetensors, the values are stored
/// in unlinked files in the same folder until the writer is destroyed, so the disk temporarily needs space
/// for twice the size of the file.
class SampleWriter {
 public:
  SampleWriter() = default;
  SampleWriter(const SampleWriter&) = delete;
  SampleWriter& operator=(const SampleWriter&) = delete;
  virtual ~SampleWriter() = default;

  /// Appends samples with these uids, in order. All batches must have the same fields. Throws InputError
  /// naming the sample and the field if the format cannot express a part that must not be dropped. Throws
  /// IoError if writing fails. Precondition: one uid per sample.
  virtual void write(const RaggedBatch& batch, std::span<const Uid> uids) = 0;
  /// Calls write() with the result of uids_of_groups().
  void write(const RaggedBatch& batch);
  /// Completes the files. Call this only once, at the end.
  virtual void close() = 0;
};

/// Returns a writer. `tokens` is the element type of an indexed dataset.
[[nodiscard]] std::unique_ptr<SampleWriter> make_sample_writer(SampleFormat format,
                                                               const std::filesystem::path& path,
                                                               const DroppedFields& dropped,
                                                               IndexedDType tokens = IndexedDType::int32);

/// Returns the paths of the files that a writer creates for this path.
[[nodiscard]] std::vector<std::filesystem::path> files_of(SampleFormat format,
                                                          const std::filesystem::path& path);

/// Returns the writer for safetensors. Used by make_sample_writer().
[[nodiscard]] std::unique_ptr<SampleWriter> make_ragged_writer(const std::filesystem::path& path,
                                                               const DroppedFields& dropped);

}  // namespace evenkeel
