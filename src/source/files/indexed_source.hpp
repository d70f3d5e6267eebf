#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/megatron/indexed_dataset.hpp"

namespace evenkeel {

/// Samples from a Megatron-Core indexed dataset. Each document becomes a sample without a prompt, which has
/// the tokens of all the document's sequences and forms its own group. The sample's id is the document's
/// number. Opening checks that the files are the same on all ranks, and reads the index on every rank.
/// Afterwards, a rank reads only the tokens of its own share of each step.
class IndexedSource : public SampleSource {
 public:
  /// Collective over `comm`. `prefix` is the files' name with or without ".bin" or ".idx". Throws on every
  /// rank: InputError if the dataset is invalid or its elements are not tokens, and IoError if a file cannot
  /// be read or the files differ between ranks.
  [[nodiscard]] static std::unique_ptr<IndexedSource> open(const Communicator& comm,
                                                           const std::filesystem::path& prefix);

  [[nodiscard]] std::int64_t num_samples() const override { return dataset_.num_documents(); }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override {
    return dataset_.tokens_in(dataset_.document(position));
  }
  [[nodiscard]] std::int64_t file_bytes() const override { return dataset_.files()[1]->size(); }
  /// Covers the whole index and 64 sampled blocks of the tokens. A second digest covers all tokens, unless
  /// their file has more than max_bytes_compared_whole bytes.
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  void prefetch(std::span<const std::int64_t> positions) const override;

 private:
  explicit IndexedSource(const std::filesystem::path& prefix) : dataset_(prefix) {}
  [[noreturn]] void reject_negative(const RaggedBatch& batch) const;

  IndexedDataset dataset_;
};

/// Returns the ranges of sequences of the documents at `positions`. Consecutive documents are merged into one
/// range, up to a limit on the number of tokens.
[[nodiscard]] std::vector<RowRange> runs_of_documents(const IndexedDataset& dataset,
                                                      std::span<const std::int64_t> positions);

}  // namespace evenkeel
