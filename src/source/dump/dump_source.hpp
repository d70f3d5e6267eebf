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

/// What a job delivered and dumped: each sample with the fields that it brought, by step and then by its
/// index in the source of that job. Every file says what it holds (DumpSchema); files of all ranks and
/// pipeline stages are put together. Opening reads headers and what is small, each rank a share of the
/// micro-batches; after that a rank reads its own share of each step. Keeps 72 bytes a sample on every rank,
/// and 8 for each field whose rows samples count.
class DumpSource : public SampleSource {
 public:
  /// Collective over `comm`. Throws the same error on every rank: as steps_of_dump(), list_dumped_step() and
  /// DumpedMicroBatch do, or where fields differ from file to file or samples are missing.
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
  /// The size of each file that is read, and 64 places of it.
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  /// Numbers of groups: a dump has no texts of uids.
  [[nodiscard]] std::vector<Uid> uids(std::span<const std::int64_t> positions) const override;
  [[nodiscard]] std::string left_out() const override;

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
  [[nodiscard]] RaggedBatch batch_for(std::span<const std::int64_t> positions) const;
  [[nodiscard]] Column column_for(std::size_t field, const RaggedBatch& batch,
                                  std::span<const std::int64_t> positions) const;
  [[nodiscard]] std::int64_t num_micro_batches() const noexcept {
    return static_cast<std::int64_t>(first_parts_.size()) - 1;
  }
  [[nodiscard]] std::int64_t step_of(const DumpedSample& sample) const {
    return parts_[first_parts_[static_cast<std::size_t>(sample.micro_batch)]].step;
  }

  std::filesystem::path folder_;
  DumpedSteps steps_;
  std::vector<DumpedPart> parts_;         // of all micro-batches
  std::vector<std::size_t> first_parts_;  // of each micro-batch, and the end
  std::vector<DumpedField> fields_;       // their layers are of one stage
  std::string fields_from_;               // the file that they are of
  std::vector<std::size_t> counted_;      // of fields_, those whose rows samples count
  std::vector<DumpedSample> samples_;
  std::vector<std::int64_t> counts_;  // rows of each sample in each of counted_
};

}  // namespace evenkeel
