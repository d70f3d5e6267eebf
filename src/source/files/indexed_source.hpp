#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/megatron/indexed_dataset.hpp"

namespace evenkeel {

/// The documents of a Megatron-Core indexed dataset: each is a sample without a prompt, of the tokens of all
/// its sequences, and a group of its own; its id is its number. Opening makes sure that all ranks have the
/// same files open, and reads the index on each; after that a rank reads only the tokens of its own share of
/// each step.
class IndexedSource : public SampleSource {
 public:
  /// Collective over `comm`. `prefix` is the files' name without ".bin" and ".idx", or with either. Throws
  /// the same error on every rank: as IndexedDataset does, or when ranks have other bytes open.
  [[nodiscard]] static std::unique_ptr<IndexedSource> open(const Communicator& comm,
                                                           const std::filesystem::path& prefix);

  [[nodiscard]] std::int64_t num_samples() const override { return dataset_.num_documents(); }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override {
    return dataset_.tokens_in(dataset_.document(position));
  }
  [[nodiscard]] std::int64_t file_bytes() const override { return dataset_.files()[1]->size(); }
  /// The index as a whole, and the tokens unless there are more than most_bytes_compared_whole: 64 places
  /// then.
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  void expect(std::span<const std::int64_t> positions) const override;

 private:
  explicit IndexedSource(const std::filesystem::path& prefix) : dataset_(prefix) {}
  [[noreturn]] void refuse_negative(const RaggedBatch& batch) const;

  IndexedDataset dataset_;
};

/// The sequences of these documents of a dataset. Neighbors in the file are one run.
[[nodiscard]] std::vector<RowRange> runs_of_documents(const IndexedDataset& dataset,
                                                      std::span<const std::int64_t> positions);

}  // namespace evenkeel
