#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "source/dumped_micro_batch.hpp"

namespace evenkeel {

/// What a job handed out and dumped: each sample with the fields it was handed out with, by step and then by
/// its index in the source of that job. Opening reads all of the dump that this needs, each rank a share of
/// the micro-batches; after that a rank reads its own share of each step. Keeps 56 bytes a sample on every
/// rank, and 8 for each field whose rows samples count.
///
/// A dump knows neither prompts nor what has one row a response token: fields are of one row a token or a
/// sample, the loss mask comes along as one of them, and a prompt is what stands ahead of the first token
/// with loss. So the same tensors are handed out again.
class DumpSource : public SampleSource {
 public:
  /// Collective over `comm`. Throws the same error on every rank: as list_dump() and DumpedMicroBatch do, or
  /// where nothing tells what a tensor is, or how sequences were cut.
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
    for (const FieldSpec& spec : fields_) fields.push_back({spec});
    return fields;
  }
  /// 64 places of each file of the first context-parallel rank.
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  [[nodiscard]] std::string left_out() const override;

 private:
  explicit DumpSource(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void find_micro_batches(const Communicator& comm);
  void find_fields(const Communicator& comm);
  void find_samples(const Communicator& comm);
  [[nodiscard]] std::vector<std::int64_t> my_micro_batches(const Communicator& comm) const;
  void require_whole_fields(const DumpedMicroBatch& last) const;
  void sort_samples(std::span<const DumpedSample> samples, std::span<const std::int64_t> counts);
  [[nodiscard]] Column column_for(std::size_t field, const RaggedBatch& batch,
                                  std::span<const std::int64_t> positions) const;

  std::filesystem::path folder_;
  DumpFolder dump_;
  CpLayout layout_ = CpLayout::zigzag;
  std::vector<FieldSpec> fields_;     // without input_ids
  std::vector<std::size_t> counted_;  // of fields_, those whose rows samples count
  std::vector<std::string> derived_;
  std::vector<DumpedSample> samples_;
  std::vector<std::int64_t> counts_;  // rows of each sample in each of counted_
};

}  // namespace evenkeel
