#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/source/sample_source.hpp"
#include "io/jsonl.hpp"

namespace evenkeel {

/// Rollouts as JSON lines. Opening makes sure that all ranks have the same bytes open, then scans and checks
/// the file once, each rank its byte range; after that a rank reads only the lines of its own share of each
/// step, from the file that it opened, whatever has its name by then. Keeps 32 bytes a line on every rank.
class JsonlSource : public SampleSource {
 public:
  /// Collective over `comm`.
  [[nodiscard]] static std::unique_ptr<JsonlSource> open(const boost::mpi::communicator& comm,
                                                         const std::filesystem::path& path);

  [[nodiscard]] std::int64_t num_samples() const override { return static_cast<std::int64_t>(lines_.size()); }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override {
    return tokens_[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] SourceFingerprint fingerprint(const boost::mpi::communicator& comm) const override;
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  [[nodiscard]] std::string left_out() const override { return ignored_fields(schema_); }
  [[nodiscard]] std::string undecided() const override { return undecided_fields(schema_); }

 private:
  explicit JsonlSource(const std::filesystem::path& path) : file_(path) {}
  void scan(const boost::mpi::communicator& comm);

  const InputFile file_;
  JsonlSchema schema_;
  std::vector<LineRef> lines_;
  std::vector<std::int64_t> tokens_;  // of each line
};

}  // namespace evenkeel
