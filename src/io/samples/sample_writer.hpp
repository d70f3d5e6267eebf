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

/// Formats that samples can be written in.
enum class SampleFormat : std::uint8_t {
  jsonl,        ///< rollouts, one JSON object a line
  safetensors,  ///< ragged: values and offsets
  megatron,     ///< the two files of an indexed dataset: tokens alone
  lengths,      ///< a table of prompt and response lengths (.csv)
};

/// The format whose files end like this; none for any other name.
[[nodiscard]] std::optional<SampleFormat> format_of(const std::filesystem::path& path);

/// What of samples is not to be written: names of fields, `prompt_lengths` (where prompts end), `uid` (which
/// samples are a group), `input_ids`; `all` is whatever a format has no room for. A sample whose uid is left
/// out is a group of its own.
using Dropped = std::set<std::string>;

/// Writes samples to a file, batch after batch. Nothing is lost that was not dropped: a format that has no
/// room for something refuses it. Files appear whole or not at all, on close(). Memory: 40 bytes a sample and
/// a few MiB. safetensors takes the room of the file twice while it is closed, in an unlinked file in its
/// folder.
class SampleWriter {
 public:
  SampleWriter() = default;
  SampleWriter(const SampleWriter&) = delete;
  SampleWriter& operator=(const SampleWriter&) = delete;
  virtual ~SampleWriter() = default;

  /// Appends samples with these uids, in order; all batches have the same fields. Throws InputError that
  /// names the sample and the field of what the format has no room for. Throws IoError. Precondition: a uid a
  /// sample.
  virtual void write(const RaggedBatch& batch, std::span<const Uid> uids) = 0;
  /// The same with uids_of_groups().
  void write(const RaggedBatch& batch);
  /// Call once, last.
  virtual void close() = 0;
};

/// `tokens` is the element type of an indexed dataset.
[[nodiscard]] std::unique_ptr<SampleWriter> make_sample_writer(SampleFormat format,
                                                               const std::filesystem::path& path,
                                                               const Dropped& dropped,
                                                               IndexedDType tokens = IndexedDType::int32);

/// Files that a writer makes under this path.
[[nodiscard]] std::vector<std::filesystem::path> files_of(SampleFormat format,
                                                          const std::filesystem::path& path);

/// The writer of safetensors, for make_sample_writer().
[[nodiscard]] std::unique_ptr<SampleWriter> make_ragged_writer(const std::filesystem::path& path,
                                                               const Dropped& dropped);

}  // namespace evenkeel
