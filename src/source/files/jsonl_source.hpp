#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/jsonl/jsonl.hpp"
#include "source/files/input_files.hpp"

namespace evenkeel {

/// Rollouts as JSON Lines, from all files that the paths and patterns of a source name, compressed or not.
/// When the source is opened,
/// 1. all ranks check that they see the same content;
/// 2. each node decompresses the compressed files once;
/// 3. each rank scans and checks a range of the files' bytes.
/// Afterwards, a rank reads only the lines of its own share of each step. It reads from the opened files,
/// even if they were replaced on disk. Keeps 32 bytes per line on every rank. Lines, and therefore samples,
/// are numbered consecutively over all files.
class JsonlSource : public SampleSource {
 public:
  /// Collective over `comm`.
  [[nodiscard]] static std::unique_ptr<JsonlSource> open(const Communicator& comm,
                                                         const SourceSettings& settings,
                                                         const NamedFields& fields = {});

  [[nodiscard]] std::int64_t num_samples() const override { return static_cast<std::int64_t>(lines_.size()); }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override {
    return tokens_[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] std::int64_t file_bytes() const override;
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  [[nodiscard]] std::vector<SourceField> fields() const override;
  [[nodiscard]] std::vector<Uid> uids(std::span<const std::int64_t> positions) const override;
  void prefetch(std::span<const std::int64_t> positions) const override;
  [[nodiscard]] std::string ignored_content() const override { return describe_ignored_fields(schema_); }
  [[nodiscard]] std::string undecided_fields() const override { return evenkeel::undecided_fields(schema_); }

 private:
  explicit JsonlSource(std::string name) : name_(std::move(name)) {}
  void scan(const Communicator& comm, const NamedFields& fields);
  [[nodiscard]] std::vector<LineRef> lines_at(std::span<const std::int64_t> positions) const;

  std::string name_;  // path or pattern of the source, as configured
  InputFiles files_;
  std::optional<LineFiles> lines_of_;
  DeclaredFormats declared_formats_;
  JsonlSchema schema_;
  std::vector<LineRef> lines_;
  std::vector<std::int64_t> tokens_;  // number of tokens of each line
};

}  // namespace evenkeel
