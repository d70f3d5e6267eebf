#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/intake/acceptance.hpp"
#include "buffer/intake/sample_bodies.hpp"
#include "io/jsonl/schema.hpp"
#include "stream/ledger.hpp"

namespace evenkeel {

/// Identity of a job. JobClient::begin() returns it, and later calls of the job include it.
struct JobPass {
  std::string job;    ///< the job's pass (pass_of()); empty if the caller is not a job
  std::string rules;  ///< the buffer's rules as JSON, from which errors report what has changed
};

/// Answer of JobClient::begin().
struct JobStartReply {
  JobPass pass;
  stream::StreamSettings settings;
  std::int64_t version = 0;  ///< current policy version
  std::string identity;      ///< unique identity of the content of the buffer's store
  DeclaredFormats formats;   ///< formats of fields in JSON Lines
};

/// Rules of a buffer that a producer must know.
struct BufferRules {
  std::int64_t group_size = 1;
  std::int64_t version = 0;   ///< current policy version
  std::int64_t capacity = 0;  ///< maximum size of the buffer's content, in bytes
};

/// Open tickets: tickets that were granted but have not been used for a group yet.
struct OutstandingTickets {
  std::int64_t count = 0;
  // The other members describe the oldest grant that has open tickets.
  std::string holder{};   ///< owner of the tickets; empty if the request did not name one
  double age = 0;         ///< seconds since the grant
  double expires_in = 0;  ///< seconds until the tickets expire; negative if they are overdue
};

/// Result of JobClient::wait_for_groups(): groups that may be put into a step, and the state of the buffer.
struct JobWaitingGroups {
  std::int64_t version = 0;
  bool has_ended = false;         ///< whether no more groups will become ready
  std::int64_t ready_groups = 0;  ///< total number of ready groups; `groups` has the first of them
  std::int64_t open_groups = 0;   ///< number of groups that wait for samples or fields
  /// Null until samples or late fields arrive in the buffer's process.
  std::optional<double> seconds_since_last_sample;
  std::string full;  ///< why the buffer refuses samples now; empty if it does not
  OutstandingTickets tickets;
  std::vector<std::int64_t> coming;  ///< result of Ledger::versions_of_expected_groups()
  std::vector<stream::WaitingGroup> groups;
  std::map<std::string, std::int64_t> missing_fields{};  ///< number of samples that wait for each late field
};

/// Result of JobClient::wait_for_step(). One rank of a job forms the step, and the other ranks wait for it.
struct JobStep {
  std::optional<stream::FormedStep> step;  ///< null until the step is formed
  bool is_over = false;  ///< the step will never be formed: the stream has ended, and no group is left
  std::string failure;   ///< why the rank that forms the step gave up (abandon_step()); empty if it did not
  std::optional<std::int64_t> formed_step;   ///< number of the latest formed step
  std::optional<std::int64_t> trained_step;  ///< number of the latest trained step
  std::int64_t ready_groups = 0;
  std::int64_t open_groups = 0;
  std::optional<double> seconds_since_last_sample;
  OutstandingTickets tickets;
};

/// Client of a buffer's server, for jobs and producers. Has one connection; not thread-safe. Each call sends
/// one request, and throws
/// - IoError if the buffer cannot be reached or cannot answer now, for example while it is full; the call may
///   then be repeated;
/// - ConfigError for a wrong token or certificate, or if the buffer's rules have changed since the job began;
/// - InputError with the buffer's message if the buffer refuses the request, for example after another job
///   has begun.
class JobClient {
 public:
  /// `ca` is a file of certificates to trust for https instead of the system's. Throws ConfigError if `url`
  /// is not a URL.
  explicit JobClient(std::string url, std::string token = {}, std::filesystem::path ca = {},
                     JobPass pass = {});
  ~JobClient();
  JobClient(JobClient&&) noexcept;
  JobClient& operator=(JobClient&&) = delete;

  /// Sets how long later calls wait for their answers before they throw IoError.
  void set_answer_timeout(std::chrono::seconds time);
  /// Default time limit for an answer. Exceeds the maximum `time` of wait_for_groups() and wait_for_step().
  static constexpr std::chrono::seconds default_answer_timeout{60};

  /// Begins a job whose steps have `samples_per_step` samples. Later calls of this client identify the job
  /// (JobPass), and the buffer refuses calls of earlier jobs. Throws InputError if `samples_per_step` is not
  /// a multiple of the buffer's group size. Unless the job `takes_over`, also throws InputError if an earlier
  /// job is still alive after a few seconds.
  JobStartReply begin(std::int64_t samples_per_step, const JobStart& start = {});
  /// Reports that the job is alive.
  void send_heartbeat();
  /// Reports that the job has ended, so another job may begin at once.
  void leave();
  /// Waits until at least `enough` groups are ready, no further group can become ready, or `time` (at most 30
  /// seconds) has passed. Returns the first `most` groups in the order in which they became ready.
  JobWaitingGroups wait_for_groups(std::int64_t enough, std::int64_t most, std::chrono::milliseconds time);
  /// Waits until the step is formed, the step can no longer be formed, abandon_step() was called for it or an
  /// earlier step, or `time` (at most 30 seconds) has passed.
  JobStep wait_for_step(std::int64_t step, std::chrono::seconds time);
  /// Reports to ranks that wait for this step or a later step why it will not be formed. An empty `reason`
  /// clears an earlier report.
  void abandon_step(std::int64_t step, const std::string& reason);
  /// Drops waiting samples, given by their arrival numbers, that the job's filter excludes.
  void drop_filtered(std::span<const std::int64_t> arrivals);
  /// Records a step durably. Returns false if the buffer refuses it because its groups or the version have
  /// changed, it is not the next step, or it was formed before with other groups. Repeating the same step
  /// changes nothing, and returns true. Throws InputError if the job does not accept one of its samples.
  [[nodiscard]] bool form_step(const stream::StepFormed& step);
  /// Returns the formed and untrained steps from `from_step` on.
  std::vector<stream::FormedStep> untrained_steps(std::int64_t from_step);
  /// Returns the samples with these arrival numbers, in this order, as input for parse_samples(). Throws
  /// InputError if a sample is damaged or was freed, and IoError if the answer has a wrong number of lines.
  std::string fetch_samples(std::span<const std::int64_t> arrivals);
  /// Returns the schema of all samples received so far, including fields added later. Pass it to
  /// parse_samples().
  JsonlSchema schema();
  /// Returns the answer of GET /v1/status as JSON.
  std::string status();
  /// Returns the rules that a producer must know.
  [[nodiscard]] BufferRules rules();
  /// Sends samples to the buffer, like a producer. `packed` is the compression of `samples`: "gzip", "zstd"
  /// or empty. When it returns, the samples are durable if the buffer's store is durable. Also throws
  /// LimitError if the samples are too large for the buffer.
  Intake send(std::string_view samples, SampleForm form, const std::string& packed);
  /// Ends the stream: the buffer refuses further samples.
  void end_stream();
  /// Sets the policy version. See Buffer::publish().
  void publish(std::int64_t version);
  /// Reports that the job's state after this step is saved, so samples of this and earlier steps can be
  /// freed.
  void report_trained(std::int64_t step);

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace evenkeel
