#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/intake/acceptance.hpp"
#include "buffer/intake/sent_samples.hpp"
#include "io/jsonl/schema.hpp"
#include "stream/ledger.hpp"

namespace evenkeel {

/// What a job's calls carry from its beginning on.
struct JobPass {
  std::string job;    ///< names the job and a fingerprint of the buffer's rules; empty: the caller is no job
  std::string rules;  ///< the rules, as JSON, to say what has changed
};

/// What a buffer tells a job that begins.
struct JobBegun {
  JobPass pass;
  stream::StreamSettings settings;
  std::int64_t version = 0;
  std::string identity;  ///< no other buffer has it
  ToldFormats formats;   ///< how its samples' lines write fields
};

/// Rules of a buffer that a producer must know.
struct BufferRules {
  std::int64_t group_size = 1;
  std::int64_t version = 0;   ///< of the policy
  std::int64_t capacity = 0;  ///< in bytes
};

/// Numbers of samples of a request, by outcome.
struct Receipt {
  std::int64_t accepted = 0;
  std::int64_t duplicates = 0;
  std::int64_t stale = 0;
  std::int64_t dropped = 0;  ///< their group was aborted, or is in a step already
  std::int64_t version = 0;  ///< of the policy
};

/// Tickets that were granted, and with which no group was begun so far.
struct TicketsOut {
  std::int64_t count = 0;
  // The oldest grant: its holder, its age and when it expires.
  std::string holder{};   ///< empty: it did not say
  double age = 0;         ///< seconds
  double expires_in = 0;  ///< seconds
};

/// What a step can be formed of.
struct JobWaiting {
  std::int64_t version = 0;
  bool has_ended = false;                   ///< no more samples will come
  std::int64_t ready_groups = 0;            ///< all of them, of which `groups` are the first
  std::int64_t open_groups = 0;             ///< that wait for samples
  std::optional<double> since_last_sample;  ///< seconds
  std::string full;                         ///< why the buffer refuses samples for now; empty if it does not
  TicketsOut tickets;
  std::vector<std::int64_t> coming;  ///< versions of groups that have not come (Ledger::coming)
  std::vector<stream::WaitingGroup> groups;
};

/// A step that ranks wait for, which one of them forms.
struct JobStep {
  std::optional<stream::FormedStep> step;    ///< once it is formed
  bool is_over = false;                      ///< it never will be: no more samples come, and none waits
  std::string failure;                       ///< why the rank that forms steps gave up; empty if it did not
  std::optional<std::int64_t> formed_step;   ///< the latest
  std::optional<std::int64_t> trained_step;  ///< the latest
  std::int64_t ready_groups = 0;
  std::int64_t open_groups = 0;
  std::optional<double> since_last_sample;  ///< seconds
  TicketsOut tickets;
};

/// The job's side of a buffer's door, for one rank and one thread: it holds one connection. Each call is one
/// request, and throws IoError if the buffer cannot be reached or cannot answer now; then the same call may
/// be made again. Throws ConfigError for a wrong token or certificate, or if the buffer's rules have changed
/// since the job began, and InputError, with the buffer's text, for what it refuses: any call once another
/// job has begun, for example.
class JobClient {
 public:
  /// `ca`: certificates to trust for https, instead of the system's. Throws ConfigError for what is no URL.
  explicit JobClient(std::string url, std::string token = {}, std::filesystem::path ca = {},
                     JobPass pass = {});
  ~JobClient();
  JobClient(JobClient&&) noexcept;
  JobClient& operator=(JobClient&&) = delete;

  /// Sets how long each further call waits for its answer before it throws IoError.
  void answer_within(std::chrono::seconds time);
  /// The default, which is longer than the longest wait.
  static constexpr std::chrono::seconds longest_answer{60};

  /// Begins a job whose steps have so many samples: whole groups, else InputError. Further calls are this
  /// job's, and those of earlier jobs are refused. Unless it `takes_over`, InputError if one of them is
  /// alive, which takes some seconds to find out.
  JobBegun begin(std::int64_t samples_per_step, const JobStart& start = {});
  /// Shows that the job is alive.
  void show_alive();
  /// The job has ended: another one may begin at once.
  void leave();
  /// Returns when at least `enough` groups are ready, when no more will come, or after `time` (30 seconds at
  /// most): the first `most` groups, in the order in which they became ready.
  JobWaiting wait_for(std::int64_t enough, std::int64_t most, std::chrono::milliseconds time);
  /// Waits until the step is formed, it never will be, its job gave up, or the time (30 seconds at most) is
  /// over.
  JobStep wait_for_step(std::int64_t step, std::chrono::seconds time);
  /// Tells ranks that wait for this step or a later one that nobody forms it.
  void give_up(std::int64_t step, const std::string& why);
  /// Drops samples that wait, since the job's filter leaves them out.
  void drop_filtered(std::span<const std::int64_t> arrivals);
  /// Writes a step down, durably, unless its groups have changed: then it returns false. The same step again
  /// changes nothing. Throws InputError if the job does not accept one of its samples.
  [[nodiscard]] bool form(const stream::StepFormed& step);
  /// Steps that are formed and not trained, from this one on.
  std::vector<stream::FormedStep> formed(std::int64_t from_step);
  /// The samples of these arrival numbers, in this order, for sent_samples(): lines as they were sent, or
  /// tensors. Throws InputError where one is damaged or not there any more.
  std::string lines(std::span<const std::int64_t> arrivals);
  /// Which fields the samples have so far, to read their lines with.
  JsonlSchema schema();
  /// What GET /v1/status says, as JSON.
  std::string status();
  [[nodiscard]] BufferRules rules();
  /// What a producer does: samples of this form, which are `packed` with gzip or zstd, or not (empty).
  /// Durable on return, if the buffer is. Throws LimitError too, for what is too much for the buffer.
  Receipt send(std::string_view samples, SampleForm form, const std::string& packed);
  void end();
  void publish(std::int64_t version);
  /// The job's state is saved after this step: what it and earlier ones have is freed.
  void trained(std::int64_t step);

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace evenkeel
