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
  /// Seconds to retry while the buffer is full or cannot be reached; unlimited if nullopt.
  std::optional<double> patience;
  std::string name;  ///< prefix of the uids of all groups (see Feeder)
  /// Policy version for samples without a version; if nullopt, the latest version that the buffer has
  /// reported.
  std::optional<std::int64_t> version;
};

/// Number of samples sent, by outcome.
struct FeedFigures {
  std::int64_t accepted = 0;
  std::int64_t duplicates = 0;  ///< samples that the buffer already had
  std::int64_t stale = 0;       ///< new samples that were dropped because their policy version was too old
  /// New samples that were dropped because their group was aborted, is too small, has ended, or is in a step.
  std::int64_t dropped = 0;
  std::int64_t tokens = 0;  ///< total number of tokens of all samples sent

  [[nodiscard]] std::int64_t samples() const noexcept { return accepted + duplicates + stale + dropped; }
};

/// Sends samples to a buffer, in the order in which a SampleStream returns them. The key of a sample (uid and
/// index) is a function of its position in that order. A feeder that is restarted therefore sends the same
/// keys, and the buffer accepts each sample once:
///
/// - groups of one sample: uid "NAME:N" for sample N of the stream, index 0
/// - larger groups: uid "NAME:GROUP", where GROUP is the sample's own uid (an integer, or the hash of a
///   string). The index numbers the samples of a group.
///
/// If the samples have a field named `index`, its value is used as the index in both cases.
///
/// Memory: one number per group if groups may have several samples. Not thread-safe.
class Feeder {
 public:
  /// Asks the buffer for its rules. If the buffer does not answer, retries for FeedSettings::patience, then
  /// throws IoError. Throws ConfigError for a wrong address, token or certificate.
  explicit Feeder(const FeedSettings& settings);

  /// Sends samples, in requests of a few MiB, and returns when the buffer has all of them. Retries while the
  /// buffer is full. Throws InputError if a sample has no uid although groups are larger than one, a group
  /// has too many samples, a sample is a later piece of a tree, or the buffer refuses a sample; LimitError if
  /// a sample is larger than the buffer; and IoError if retrying takes longer than FeedSettings::patience.
  void send(RaggedBatch samples);
  /// Reports to the buffer that no more samples will come from any producer.
  void end();

  [[nodiscard]] const FeedFigures& figures() const noexcept { return figures_; }

 private:
  [[nodiscard]] std::vector<std::string> assign_uids_and_indices(RaggedBatch& samples);
  [[nodiscard]] std::int64_t assign_index(const SampleShape& sample);
  void set_versions(RaggedBatch& samples) const;
  void send_body(const std::string& body);
  template <typename Call>
  auto retry_until_answered(Call&& call);

  FeedSettings settings_;
  JobClient client_;
  std::int64_t group_size_ = 1;
  std::int64_t bytes_of_request_ = 0;
  std::int64_t version_ = 0;        // latest version that the buffer has reported
  std::int64_t next_position_ = 0;  // position in the stream of the next sample
  std::unordered_map<std::uint64_t, std::int64_t>
      num_sent_by_group_{};  // number of samples sent so far, by group
  FeedFigures figures_;
};

/// Returns the part of a job's configuration that determines which samples a feeder sends and in which order:
/// `source`, `sources`, `batch` and `fields`. Throws ConfigError if the source is a stream, if outliers are
/// delayed, if a rule depends on the job's mesh, or if the job would shift the values of a dump a second
/// time.
[[nodiscard]] Config config_of_feeder(const Config& job);

}  // namespace evenkeel
