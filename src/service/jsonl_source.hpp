#pragma once

#include <filesystem>
#include <vector>

#include "evenkeel/io/jsonl.hpp"
#include "evenkeel/service/sample_source.hpp"

namespace evenkeel {

/// Rollouts as JSON lines. Opening scans and checks the file once, each rank its byte range; after that a
/// rank reads only the lines of its own share of each step. Keeps 24 bytes a line on every rank.
class JsonlSource : public SampleSource {
 public:
  /// Collective over `comm`.
  JsonlSource(const boost::mpi::communicator& comm, std::filesystem::path path);

  [[nodiscard]] std::int64_t num_samples() const override { return static_cast<std::int64_t>(lines_.size()); }
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;

 private:
  std::filesystem::path path_;
  JsonlSchema schema_;
  std::vector<LineRef> lines_;
};

}  // namespace evenkeel
