#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "buffer/job_client.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel {

struct FeedSettings {
  std::string url;
  std::string token;
  std::filesystem::path ca;
  /// Seconds to retry while the buffer is full or cannot be reached; nullopt: forever.
  std::optional<double> patience;
  std::string name;  ///< begins the uid of each group
  /// The version of samples that do not have one; nullopt: the latest that the buffer knows.
  std::optional<std::int64_t> version;
};

/// Numbers of samples that were sent, by outcome.
struct FeedFigures {
  std::int64_t accepted = 0;
  std::int64_t duplicates = 0;  ///< the buffer had them already
  std::int64_t stale = 0;       ///< too old, and dropped
  std::int64_t dropped = 0;     ///< their group was aborted, or is in a step already
  std::int64_t tokens = 0;      ///< of all of them

  [[nodiscard]] std::int64_t samples() const noexcept { return accepted + duplicates + stale + dropped; }
};

/// Sends samples to a buffer, in the order in which a SampleStream returns them. The key of a sample (uid and
/// index) is a function of its place in that order, so a feeder that is started again sends the same keys,
/// and the buffer takes each sample once:
///
/// - groups of one sample: uid "NAME:N" for sample N of the stream, index 0
/// - larger groups: uid "NAME:GROUP", where GROUP is the sample's uid (an integer, or a hash of a text). The
///   index counts the samples of the group.
///
/// A field `index` of the samples is their index, whatever the groups.
///
/// Memory: one number for each group, if groups have several samples. Not thread-safe.
class Feeder {
 public:
  /// Asks the buffer for its rules, for as long as the patience lasts. Throws IoError then, and ConfigError
  /// for a wrong address, token or certificate.
  explicit Feeder(const FeedSettings& settings);

  /// Sends samples, in requests of a few MiB, and returns when the buffer has all of them. While the buffer
  /// is full, it tries again. Throws InputError for samples that cannot have a key or that the buffer
  /// refuses, LimitError for a sample that is larger than the buffer, and IoError when the patience is over.
  void send(RaggedBatch samples);
  /// Tells the buffer that no more samples will come from any producer.
  void end();

  [[nodiscard]] const FeedFigures& figures() const noexcept { return figures_; }

 private:
  [[nodiscard]] std::vector<std::string> name_samples(RaggedBatch& samples);
  [[nodiscard]] std::int64_t count_in_group(const SampleShape& sample);
  void set_versions(RaggedBatch& samples) const;
  void send_body(const std::string& body);
  template <typename Call>
  auto until_answered(Call&& call);

  FeedSettings settings_;
  JobClient client_;
  std::int64_t group_size_ = 1;
  std::int64_t bytes_of_request_ = 0;
  std::int64_t version_ = 0;                                    // the latest that the buffer knows
  std::int64_t next_ = 0;                                       // number of the next sample
  std::unordered_map<std::uint64_t, std::int64_t> in_group_{};  // samples so far
  FeedFigures figures_;
};

/// The part of a job's configuration that decides which samples a feeder sends and in which order: `source`,
/// `sources`, `batch` and `fields`. Throws ConfigError for sources that no feeder can read, and for rules
/// that depend on the job's mesh.
[[nodiscard]] Config config_of_feeder(const Config& job);

}  // namespace evenkeel
