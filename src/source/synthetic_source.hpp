#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/source/sample_source.hpp"
#include "io/samples/lengths_file.hpp"
#include "io/samples/synthetic.hpp"

namespace evenkeel {

/// Synthetic GRPO rollouts with long-tailed lengths. They are a pure function of the seed, so each rank
/// generates its own share.
class SyntheticSource : public SampleSource {
 public:
  SyntheticSource(std::int64_t samples, std::uint64_t seed);

  [[nodiscard]] std::int64_t num_samples() const override { return samples_; }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override;
  [[nodiscard]] std::vector<SourceField> fields() const override;
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;

 private:
  std::int64_t samples_;
  SyntheticSpec spec_;
};

/// Samples with the lengths in a table, and synthetic tokens.
class LengthTableSource : public SampleSource {
 public:
  /// Collective over `comm`: rank 0 reads the table and broadcasts it. read() rejects samples with more than
  /// `max_tokens` tokens.
  [[nodiscard]] static std::unique_ptr<LengthTableSource> open(const Communicator& comm,
                                                               const std::filesystem::path& path,
                                                               std::uint64_t seed, std::int64_t max_tokens);

  [[nodiscard]] std::int64_t num_samples() const override { return static_cast<std::int64_t>(rows_.size()); }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override;
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  /// Throws LimitError if a sample has more than `max_tokens` tokens, before generating any tokens.
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  [[nodiscard]] std::vector<SourceField> fields() const override { return {}; }
  /// Reads the file on the first call, on this rank. Not thread-safe.
  [[nodiscard]] std::vector<Uid> uids(std::span<const std::int64_t> positions) const override;

 private:
  LengthTableSource(std::string path, std::uint64_t seed, std::int64_t max_tokens)
      : path_(std::move(path)), seed_(seed), max_tokens_(max_tokens) {}

  std::string path_;
  std::vector<FileLengths> rows_;
  mutable std::vector<Uid> uids_;  // uids of all rows of the table; empty before the first call of uids()
  std::uint64_t seed_;
  std::int64_t max_tokens_;
};

}  // namespace evenkeel
