#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "source/dump/dumped_micro_batch.hpp"

namespace evenkeel {

/// Samples from the dump of a job, with all fields of the job's sources. They are ordered by step and then by
/// sample_index, the position of the sample in the job's source. Every file describes itself (DumpSchema);
/// the files of all ranks and pipeline stages are merged. When the source is opened, each rank reads the
/// headers and small tensors of a share of the micro-batches. Afterwards, each rank reads only its own share
/// of each step. Keeps 72 bytes per sample on every rank, and 8 bytes per sample for each field with its own
/// row counts.
class DumpSource : public SampleSource {
 public:
  /// Collective over `comm`. Throws on every rank: IoError if the folder does not exist, a file cannot be
  /// read, or ranks see different folders; and InputError if the dump is incomplete, its files contradict
  /// each other, or it has shared prefixes.
  [[nodiscard]] static std::unique_ptr<DumpSource> open(const Communicator& comm,
                                                        const std::filesystem::path& folder);

  [[nodiscard]] std::int64_t num_samples() const override {
    return static_cast<std::int64_t>(samples_.size());
  }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override {
    return samples_[static_cast<std::size_t>(position)].tokens;
  }
  [[nodiscard]] std::vector<SourceField> fields() const override {
    std::vector<SourceField> fields;
    for (const DumpedField& field : fields_) fields.push_back({field.spec});
    return fields;
  }
  /// Hashes 64 sampled blocks of each file that read() uses.
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  /// Returns uids made from group numbers, since a dump does not store the original uids.
  [[nodiscard]] std::vector<Uid> uids(std::span<const std::int64_t> positions) const override;
  [[nodiscard]] std::string ignored_content() const override;

 private:
  explicit DumpSource(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void find_micro_batches(const Communicator& comm);
  void find_fields(const Communicator& comm);
  void find_samples(const Communicator& comm);
  [[nodiscard]] DumpedMicroBatch open_micro_batch(std::int64_t number) const;
  void require_same_fields(const DumpedMicroBatch& micro_batch) const;
  void require_all_samples(std::span<const DumpedSample> samples) const;
  void require_unchanged(const DumpedMicroBatch& now, const DumpedSample& sample,
                         std::span<const DumpedSample> samples) const;
  void sort_samples(std::span<const DumpedSample> samples, std::span<const std::int64_t> counts);
  [[nodiscard]] RaggedBatch allocate_batch(std::span<const std::int64_t> positions) const;
  [[nodiscard]] Column allocate_column(std::size_t field, const RaggedBatch& batch,
                                       std::span<const std::int64_t> positions) const;
  [[nodiscard]] std::int64_t num_micro_batches() const noexcept {
    return static_cast<std::int64_t>(first_parts_.size()) - 1;
  }
  [[nodiscard]] std::int64_t step_of(const DumpedSample& sample) const {
    return parts_[first_parts_[static_cast<std::size_t>(sample.micro_batch)]].step;
  }

  std::filesystem::path folder_;
  DumpedSteps steps_;
  std::vector<DumpedPart> parts_;  // parts of all micro-batches, in the order of list_dumped_parts()
  // Index of each micro-batch's first part in parts_, followed by the size of parts_.
  std::vector<std::size_t> first_parts_;
  std::vector<DumpedField> fields_;  // fields of the samples; each has only the layers of one pipeline stage
  std::string path_of_fields_;       // file from which fields_ were read
  std::vector<std::size_t> counted_fields_;  // positions, in fields_, of the fields with their own row counts
  std::vector<DumpedSample> samples_;
  std::vector<std::int64_t> counts_;  // numbers of rows, by sample and then by field of counted_fields_
};

}  // namespace evenkeel
