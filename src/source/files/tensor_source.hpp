#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/samples/sample_tensors.hpp"

namespace evenkeel {

/// Samples in tensors of safetensors files (all files that the paths and patterns of a source name), ragged
/// or padded. When the source is opened, all ranks check that they see the same content, and each rank reads
/// the offsets or masks of a share of the samples. Afterwards, a rank reads only its own share of each step.
/// Keeps 16 bytes per sample on every rank. Samples are numbered over all files, and these numbers are their
/// ids.
class TensorSource : public SampleSource {
 public:
  /// Collective over `comm`. Throws on every rank: InputError if samples cannot be determined from the
  /// tensors or files have different fields, and IoError if a file cannot be read or the files differ between
  /// ranks.
  [[nodiscard]] static std::unique_ptr<TensorSource> open(const Communicator& comm,
                                                          const SourceSettings& settings);

  [[nodiscard]] std::int64_t num_samples() const override {
    return static_cast<std::int64_t>(tokens_.size()) - 1;
  }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override {
    const auto at = static_cast<std::size_t>(position);
    return tokens_[at + 1] - tokens_[at];
  }
  [[nodiscard]] std::int64_t file_bytes() const override;
  /// Calls fingerprint_of() with `whole` = false.
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  [[nodiscard]] std::vector<SourceField> fields() const override { return fields_; }
  [[nodiscard]] std::vector<Uid> uids(std::span<const std::int64_t> positions) const override;
  void prefetch(std::span<const std::int64_t> positions) const override;
  [[nodiscard]] std::string ignored_content() const override;
  [[nodiscard]] std::string undecided_fields() const override;

 private:
  explicit TensorSource(std::string name) : name_(std::move(name)) {}
  void open_files(const std::vector<std::filesystem::path>& paths);
  void merge_fields_of_files();
  [[nodiscard]] std::vector<const InputFile*> files() const;
  void gather_lengths(const Communicator& comm);
  [[nodiscard]] Column allocate_column(std::size_t field, const RaggedBatch& batch,
                                       std::span<const std::int64_t> positions) const;
  [[nodiscard]] std::size_t file_of(std::int64_t position) const;
  [[nodiscard]] TensorSample lengths_of(std::int64_t position) const;
  [[nodiscard]] TensorPlace place_of(std::int64_t position, std::size_t file) const;

  std::string name_;  // path or pattern of the source, as configured
  std::vector<std::unique_ptr<const SampleTensors>> files_;
  std::vector<SourceField> fields_;          // agreed fields of all files, sorted by name
  std::vector<std::int64_t> first_samples_;  // number of each file's first sample
  std::vector<std::int64_t> tokens_{0};      // number of tokens before each sample, followed by the total
  std::vector<std::int64_t> responses_{0};
};

}  // namespace evenkeel
