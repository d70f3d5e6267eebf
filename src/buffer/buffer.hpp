#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "buffer/current_job.hpp"
#include "buffer/intake/received_samples.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/schema.hpp"
#include "stream/ledger.hpp"

namespace evenkeel {

/// There is no room now; there will be once samples are trained.
class FullError : public LimitError {
 public:
  using LimitError::LimitError;
};

/// No sample of the group has arrived (404).
class UnknownGroupError : public InputError {
 public:
  using InputError::InputError;
};

/// What was said before is not to be changed: other fields, other content of a sample, other groups of a
/// step.
class FieldsError : public InputError {
 public:
  using InputError::InputError;
};

/// What became of the samples of one request.
struct Intake {
  std::int64_t accepted = 0;
  std::int64_t duplicates = 0;
  std::int64_t stale = 0;    ///< accepted, and dropped at once: too old to be trained
  std::int64_t dropped = 0;  ///< likewise, since their group was aborted, or had gone to a step
  std::int64_t version = 0;
};

/// Who asks for tickets, and which request it is: a retry has the same. Both may be empty.
struct TicketRequest {
  std::string holder{};
  std::string identity{};
};

struct GrantedTickets {
  std::int64_t groups = 0;
  std::int64_t version = 0;
};

/// What a buffer says about itself.
struct BufferStatus {
  stream::Status stream;
  std::string store;
  std::string risk;  ///< what may be lost of that which was acknowledged; empty: nothing
  std::int64_t capacity = 0;
  std::int64_t used = 0;
  std::optional<double> since_last_sample;  ///< seconds; none before the first one of this process
  std::optional<std::int64_t> groups_per_step;
  std::string identity;  ///< of what the store holds: no other buffer's
  double waited = 0;     ///< seconds that jobs of this process's time have waited for samples
  std::int64_t job = 0;  ///< the number of the job that began last; 0: none
  bool is_job_alive = false;
  std::int64_t group_size = 1;
};

/// What a job may form a step of.
struct WaitingGroups {
  std::vector<stream::WaitingGroup> groups;  ///< in the order in which they became ready
  std::vector<std::int64_t> coming;          ///< Ledger::coming()
  stream::Status stream;
  std::optional<double> since_last_sample;
  std::string full;  ///< why the latest samples were refused for lack of room; empty if there is room
  bool is_stopping = false;
};

/// A step that a job's ranks wait for, which one of them forms.
struct StepToCome {
  std::optional<stream::FormedStep> step;  ///< once it is formed
  bool is_over = false;                    ///< it never will be: no more samples come, and none waits
  std::string failure;                     ///< why the rank that forms steps gave up; empty if it did not
  stream::Status stream;
  std::optional<double> since_last_sample;
};

/// Takes samples, keeps them until they are trained, and accounts for each: a ledger, and a store that has
/// all that the ledger needs. Whatever a call has changed is in the store, and durable if the store is, when
/// the call returns. Calls may come from any thread: one writer commits those that wait together.
///
/// Each call throws IoError if the store cannot be written: then nothing has changed, or the same call again
/// will say what has. Until the store can be read again, whatever asks for groups, steps or fields throws
/// IoError, and status() says what was in the store before.
class Buffer {
 public:
  /// Takes up what the store has. `told`: how lines write fields; without, as the store's samples do. Throws
  /// InputError if the store is damaged, has samples that are written otherwise, or groups of another size
  /// that were not trained, ConfigError as formats_with(), and as the ledger's settings.
  Buffer(std::unique_ptr<Store> store, stream::StreamSettings settings,
         const std::optional<ToldFormats>& told = std::nullopt);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Throws InputError at the sample that cannot be taken, since no job could accept it or the current job
  /// does not (Acceptance); FieldsError if the samples so far had other fields or one with the same key had
  /// other content, LimitError if they can never have room, and FullError if there is no room now. Then none
  /// is taken. `holder`: who has the tickets of new groups, if it said so.
  Intake take(const ReceivedSamples& received, const std::string& holder = {});
  /// The same request again gets the same tickets, while any of them is open.
  GrantedTickets grant(std::int64_t groups, const TicketRequest& request = {});
  /// Throws UnknownGroupError if nothing of the group came so far.
  void close_group(const Uid& uid);
  /// Returns the step that has the group already, and keeps it. Throws InputError for an index outside the
  /// group, a uid that no sample may have or a reason that is too long, and FullError if nothing of the group
  /// came so far and there is no room to remember it.
  std::optional<std::int64_t> abort_group(const Uid& uid, std::optional<std::int64_t> index,
                                          const std::string& reason);
  /// Takes a group out of its step, which no job can build. Throws BusyError while a job is alive, which may
  /// have the step, and InputError if no step has the group that is formed and not trained.
  void abort_formed_group(const Uid& uid, const std::string& reason);
  void end();
  /// The group with this name in a URL, where integers are texts. Throws InputError if a text and an integer
  /// have this name, and UnknownGroupError if it looks like an integer and neither is known.
  [[nodiscard]] Uid group_called(const std::string& name) const;

  /// Begins a job whose steps have so many groups (tickets need that), and fences all earlier ones. Returns
  /// the job's pass, which the following calls check before they do anything: they throw FencedError and
  /// RulesError as require_pass() does. An empty pass is for callers in this process, and is not checked.
  ///
  /// A job is alive until it leaves or has made no call for the lapse time. Unless the new job `takes_over`,
  /// this waits for an earlier one to be so, and throws BusyError if it makes calls meanwhile.
  std::string begin_job(std::int64_t groups_per_step, const JobStart& start = {});
  /// Shows that the job is alive.
  void require_job(const std::string& pass);
  /// Ends the job, so that another one may begin.
  void leave_job(const std::string& pass);
  /// Sets the lapse time, which is 10 seconds by default. For tests.
  void let_jobs_lapse_after(std::chrono::milliseconds lapse);
  /// Returns the rules that a job's pass stands for as JSON: settings, formats, and the store's identity.
  [[nodiscard]] const std::string& rules() const noexcept { return rules_; }

  /// The rank that forms steps has failed at this one or a later one: tells those that wait for it.
  void give_up(std::int64_t step, const std::string& why, const std::string& pass = {});
  /// Waits until at least `enough` groups are ready, no more will come, or the time is over; returns the
  /// first `most` of them.
  [[nodiscard]] WaitingGroups wait_for(std::int64_t enough, std::int64_t most,
                                       std::chrono::milliseconds time);
  /// Waits until the step is formed, which is durable then, it never will be, its job gave up, or the time is
  /// over. Throws InputError if the step has a sample that the current job does not accept.
  [[nodiscard]] StepToCome wait_for_step(std::int64_t step, std::chrono::milliseconds time);
  /// Drops samples that wait, since the job's filter leaves them out. Those that do not wait any more are
  /// passed over.
  void drop_filtered(std::vector<std::int64_t> arrivals, const std::string& pass = {});
  /// Writes a step down. The same step again changes nothing. Throws FieldsError if it was formed of others,
  /// or does not have what waits now, and InputError if the current job does not accept one of its samples.
  void form(const stream::StepFormed& step, const std::string& pass = {});
  void publish(std::int64_t version, const std::string& pass = {});
  /// The job will ask for no step up to this one again.
  void trained(std::int64_t step, const std::string& pass = {});
  /// Gives up steps up to this one, which may never have been formed here: the store is a copy that is older
  /// than the job's state.
  void skip(std::int64_t step);
  /// Those that are formed and not trained, from this one on, once they are durable.
  [[nodiscard]] std::vector<stream::FormedStep> formed(std::int64_t from_step);
  /// A sample as it was sent. Throws InputError if it is not there or damaged.
  void read_body(std::int64_t arrival, const std::function<void(std::string_view)>& take) const;
  [[nodiscard]] JsonlSchema schema() const;

  [[nodiscard]] BufferStatus status() const;
  [[nodiscard]] const stream::StreamSettings& settings() const noexcept { return settings_; }
  /// How lines write fields, `versions` among them.
  [[nodiscard]] const ToldFormats& formats() const noexcept { return formats_; }
  /// Most bytes that a request may have.
  [[nodiscard]] std::int64_t most_body_bytes() const noexcept;
  /// Lets nobody wait any longer.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Change;
  struct Request {
    std::function<void(Change&)> act;
    std::int64_t bytes = 0;
    bool is_done = false;
    std::exception_ptr error;
    std::condition_variable answered{};  // each has its own, so that no other is woken
  };
  struct OpenedGroup {
    Uid uid;
    Clock::time_point opened;
  };

  struct GivenUp {
    std::int64_t step = 0;
    std::string why;
  };

  void load();
  void require_loaded() const;
  void describe_store();
  void require_pass_now(const std::string& pass);
  [[nodiscard]] std::vector<std::optional<ErrorReport>> faults_of(const ReceivedSamples& received,
                                                                  const Acceptance& acceptance) const;
  void require_accepted(std::int64_t step, std::span<const stream::WaitingGroup> groups,
                        bool is_formed) const;
  [[nodiscard]] std::optional<std::pair<std::int64_t, ErrorReport>> fault_of_group(
      const stream::WaitingGroup& group, const CurrentJob& job, const JsonlSchema& schema,
      bool is_formed) const;
  [[nodiscard]] RaggedBatch samples_of(std::span<const stream::WaitingSample> samples,
                                       const JsonlSchema& schema) const;
  [[nodiscard]] std::vector<stream::WaitingGroup> waiting_groups_of(const stream::StepFormed& step) const;
  [[nodiscard]] bool is_job_alive() const;
  [[nodiscard]] BusyError busy() const;
  void keep_group_size() const;
  void choose_formats(const std::optional<ToldFormats>& told);
  [[nodiscard]] JsonlSchema schema_with(const ReceivedSamples& received) const;
  /// Most bytes of the store that a sample takes: its body, its event and its key.
  [[nodiscard]] std::int64_t cost_of(const ReceivedSample& sample, const std::string& holder) const;
  [[nodiscard]] LimitError too_large(std::int64_t bytes) const;
  [[nodiscard]] FullError full_error();
  void submit(std::int64_t bytes, std::function<void(Change&)> act);
  void write_until_stopped();
  [[nodiscard]] std::vector<Request*> next_requests(bool may_wait);
  [[nodiscard]] bool is_stopping_now();
  void settle(const std::vector<Request*>& written);
  void wait_until_settled();
  void answer(std::vector<Request*>& requests);
  bool commit(const std::vector<Request*>& requests);
  void fail(const std::vector<Request*>& requests, const std::exception_ptr& error);
  [[nodiscard]] stream::SampleAccepted accepted_from(const ReceivedSample& sample,
                                                     const std::string& holder) const;
  [[nodiscard]] std::vector<const ReceivedSample*> new_samples(
      const ReceivedSamples& received, const std::vector<std::optional<ErrorReport>>& faults) const;
  void require_room(const Change& change, std::int64_t cost);
  void expire_tickets(Change& change);
  void close_what_is_due(Change& change);
  void note_opened(const Uid& uid);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;
  [[nodiscard]] std::optional<Clock::time_point> next_group_deadline() const;
  [[nodiscard]] std::optional<double> since_last_sample() const;

  const std::unique_ptr<Store> store_;
  const stream::StreamSettings settings_;
  ToldFormats formats_;  // const once constructed, as the rules are
  std::string rules_;

  mutable std::mutex state_mutex_;  // what follows; the writer holds it until its commit is done
  std::condition_variable changed_;
  std::unique_ptr<stream::Ledger> ledger_;
  std::vector<stream::OpenTickets> stored_tickets_;
  bool must_load_ = false;  // the ledger may be ahead of the store
  stream::Status stored_;   // what the ledger said before the latest transaction
  std::string full_;        // of WaitingGroups
  bool is_settled_ = true;  // what the ledger says is durable
  JsonlSchema schema_;
  std::string identity_;
  std::optional<GivenUp> given_up_;
  SampleForm form_ = SampleForm::lines;
  std::optional<std::int64_t> groups_per_step_;
  CurrentJob job_;
  Clock::time_point last_call_;  // of that job
  Clock::duration lapse_ = std::chrono::seconds(10);
  std::optional<Clock::time_point> last_sample_;
  Clock::duration waited_{};        // by jobs
  std::deque<OpenedGroup> opened_;  // with a deadline
  std::map<stream::GroupKey, bool> is_opened_;

  std::mutex queue_mutex_;  // what follows
  std::condition_variable queued_;
  std::deque<Request*> queue_;
  bool is_stopping_ = false;
  std::thread writer_;
};

/// What the buffer was started with that used this store last. Throws InputError if none did.
[[nodiscard]] stream::StreamSettings settings_in(const Store& store);

}  // namespace evenkeel
