#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/current_job.hpp"
#include "buffer/intake/received_fields.hpp"
#include "buffer/intake/received_samples.hpp"
#include "buffer/store/commit_queue.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/schema.hpp"
#include "stream/ledger.hpp"

namespace evenkeel {

/// Thrown if a request names a sample that has not arrived, or a group that the buffer does not know because
/// neither a sample of the group nor a request to abort it has arrived. HTTP status 404.
class UnknownGroupError : public InputError {
 public:
  using InputError::InputError;
};

/// Thrown if a request contradicts the buffer's content or late fields: it has different fields or another
/// form, different content for a known sample, or a step that can no longer be formed. HTTP status 409.
class FieldsError : public InputError {
 public:
  using InputError::InputError;
};

/// Result of adding fields: the number of samples of one request, by outcome.
struct FieldIntake {
  std::int64_t added = 0;       ///< samples to which fields were added
  std::int64_t duplicates = 0;  ///< samples that already had all of these values
  std::int64_t gone = 0;     ///< samples that were already trained or dropped, so their fields are not needed
  std::int64_t version = 0;  ///< policy version after the request
};

/// Identifies a request for tickets. Both members may be empty.
struct TicketRequest {
  std::string holder{};    ///< name of the producer that will own the tickets
  std::string identity{};  ///< identity of the request; retries have the same identity
};

/// Answer to a request for tickets. A ticket permits its holder to start one group.
struct GrantedTickets {
  std::int64_t groups = 0;   ///< number of tickets granted
  std::int64_t version = 0;  ///< current policy version
};

struct BufferStatus {
  stream::Status stream;
  std::string store;           ///< name of the store
  std::string data_loss_risk;  ///< describes which data may be lost; empty if no data can be lost
  std::int64_t capacity = 0;   ///< maximum size of the store's content, in bytes
  std::int64_t used = 0;       ///< bytes of the capacity that are in use
  /// Seconds since new samples or late fields arrived; null if none arrived since this process started.
  std::optional<double> seconds_since_last_sample;
  std::optional<std::int64_t> groups_per_step;  ///< groups per step of the latest job; null if there was none
  std::string identity;                         ///< unique identity of the store's content
  double waited = 0;     ///< seconds that jobs waited for samples since this process started
  std::int64_t job = 0;  ///< number of the latest job; 0 before the first job
  bool is_job_alive = false;
  std::int64_t group_size = 1;
};

/// Result of Buffer::wait_for_groups(): groups that a job may put into a step, and the state of the buffer.
struct WaitingGroups {
  std::vector<stream::WaitingGroup> groups;  ///< ready groups, in the order in which they became ready
  std::vector<std::int64_t> coming;          ///< result of Ledger::versions_of_expected_groups()
  stream::Status stream;
  std::optional<double> seconds_since_last_sample;
  std::string full;  ///< why the latest samples did not fit into the store; empty if there is room
  bool is_stopping = false;
};

/// Result of Buffer::wait_for_step(). One rank of a job forms the step, and the other ranks wait for it.
struct PendingStep {
  std::optional<stream::FormedStep> step;  ///< null until the step is formed
  bool is_over = false;  ///< the step will never be formed: the stream has ended, and no group is left
  std::string failure;   ///< why the rank that forms the step gave up (abandon_step()); empty if it did not
  stream::Status stream;
  std::optional<double> seconds_since_last_sample;
};

/// Buffer for the samples of a stream. Accepts samples, keeps them until they are trained, and records what
/// happens to each of them. Consists of a ledger, which is in memory, and a store, from which the ledger can
/// be restored. When a call returns, its changes are in the store, and durable if the store is durable.
/// Thread-safe: one writer thread commits concurrent calls together in one transaction.
///
/// Every call that changes the buffer throws IoError if the store cannot be written or stop() was called. The
/// changes may have been stored nevertheless, so the caller should repeat the call; repeating a call does not
/// apply its changes twice (for grant_tickets(), only if the request has an identity). Until the store can be
/// read again, renew_job() and calls that return groups, uids, steps or fields also throw IoError, and
/// status() returns the last known status.
class Buffer {
 public:
  /// Restores the buffer from the store. `declared` has the formats of fields in JSON Lines; if null, the
  /// formats recorded in the store are used. Throws InputError if the store is damaged, contains values
  /// instead of samples, has samples in different formats, or has untrained groups with a different size or
  /// different late fields, or if a late field has a reserved name. Throws ConfigError if the settings or the
  /// formats are otherwise invalid.
  Buffer(std::unique_ptr<Store> store, stream::StreamSettings settings,
         const std::optional<DeclaredFormats>& declared = std::nullopt);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Accepts the samples of one request. If it throws, it accepts none of them. `holder` owns the tickets
  /// that new groups use up; empty if unknown. Throws
  /// - InputError naming the sample if no job could accept it, or if the current job does not accept it
  ///   (Acceptance);
  /// - FieldsError if earlier samples have different fields, or a sample with the same key has different
  ///   content;
  /// - LimitError if the samples can never fit, and FullError if they do not fit now;
  /// - IoError if a job with a different Acceptance begins in the meantime.
  Intake accept_samples(const ReceivedSamples& received, const std::string& holder = {});
  /// Adds fields to stored samples (StreamSettings::late_fields). If it throws, it adds none of them. Throws
  /// - UnknownGroupError naming the sample if it has not arrived;
  /// - InputError naming the sample if no job could accept the values, or if the current job does not accept
  ///   them;
  /// - FieldsError if a sample has a different value of the field, or the field had a different form before;
  /// - LimitError, FullError and IoError for the same reasons as accept_samples().
  FieldIntake add_fields(const std::vector<ReceivedFields>& received);
  /// Grants `groups` tickets. If StreamSettings::limits_tickets(), grants at most
  /// Ledger::count_grantable_groups() tickets, and 0 before the first job. A repeated request receives the
  /// original grant as long as any of its tickets is open.
  GrantedTickets grant_tickets(std::int64_t groups, const TicketRequest& request = {});
  /// Closes a group: if it has fewer than min_group samples, it is dropped; otherwise, it becomes ready once
  /// its samples have all late fields. Samples of the group that arrive later are dropped. Changes nothing if
  /// the group is aborted or in a step, or has ended.
  /// Throws UnknownGroupError if no sample or abort of the group has arrived.
  void close_group(const Uid& uid);
  /// Aborts the sample with this index or, if `index` is nullopt, the whole group. The group need not be
  /// known yet. If the group is in a formed, untrained step, changes nothing and returns the step; otherwise
  /// returns nullopt. Throws InputError for an index outside the group, an invalid uid or a reason that is
  /// too long. If the group is new and there is no room to record the abort, throws FullError, or LimitError
  /// if the buffer does not have samples.
  std::optional<std::int64_t> abort_group(const Uid& uid, std::optional<std::int64_t> index,
                                          const std::string& reason);
  /// Removes a group from its formed step, because the step has a sample that the job cannot train. Throws
  /// BusyError while a job is alive, since the job may already have the step, and InputError if no untrained
  /// step has the group.
  void abort_formed_group(const Uid& uid, const std::string& reason);
  /// Ends the stream: further samples are refused, and incomplete groups are closed. Calling it again changes
  /// nothing.
  void end_stream();
  /// Returns the uid of the group with this name in a URL. A name that is an integer, such as 7, may mean the
  /// integer 7 or the string "7": returns the uid that is known; throws InputError if both are known, and
  /// UnknownGroupError if neither is. Any other name is a string, even if no group has this uid.
  [[nodiscard]] Uid find_uid_by_name(const std::string& name) const;

  /// Begins a job and fences all earlier jobs: their calls fail from then on. `groups_per_step` is the number
  /// of groups in each step, which limits the number of tickets. Returns the job's pass. The functions below
  /// that have a parameter `pass` first check it, and throw FencedError or RulesError if it is not valid
  /// (require_pass()). An empty pass, for callers in this process, is not checked.
  ///
  /// A job is alive until it leaves or its pass has not been used for the lapse time (set_job_timeout()).
  /// Unless the new job `takes_over`, waits until the earlier job is no longer alive, and throws BusyError if
  /// it is still alive after one lapse time.
  std::string begin_job(std::int64_t groups_per_step, const JobStart& start = {});
  /// Checks the pass, and records that the job is alive.
  void renew_job(const std::string& pass);
  /// Ends the job so that another job may begin.
  void leave_job(const std::string& pass);
  /// Sets the lapse time of begin_job(), 10 seconds by default. For tests.
  void set_job_timeout(std::chrono::milliseconds lapse);
  /// Returns the rules that a job's pass is bound to, as JSON: settings, formats, and the store's identity.
  [[nodiscard]] const std::string& rules() const noexcept { return rules_; }

  /// Records, in memory only, that the rank that forms steps failed at `step`. Calls of wait_for_step() for
  /// this or a later step then return `why` in PendingStep::failure. An empty `why` clears an earlier
  /// failure; so does begin_job().
  void abandon_step(std::int64_t step, const std::string& why, const std::string& pass = {});
  /// Waits until at least `enough` groups are ready, no further group can become ready
  /// (Status::is_exhausted()), stop() is called, or `time` has passed. Returns the first `most` ready groups,
  /// which may be fewer than `enough`.
  [[nodiscard]] WaitingGroups wait_for_groups(std::int64_t enough, std::int64_t most,
                                              std::chrono::milliseconds time);
  /// Waits until the step is formed and durable, the step can no longer be formed, abandon_step() was called
  /// for it or an earlier step, stop() is called, or `time` has passed. Throws InputError if the step has a
  /// sample that the current job does not accept.
  [[nodiscard]] PendingStep wait_for_step(std::int64_t step, std::chrono::milliseconds time);
  /// Drops the samples with these arrival numbers, which the job's filter excludes. Ignores samples that are
  /// not in a ready group.
  void drop_filtered(std::vector<std::int64_t> arrivals, const std::string& pass = {});
  /// Records a step that the job has chosen. Repeating the same step changes nothing. Throws FieldsError if
  /// the step was formed with different content, or is no longer valid: its groups or the version have
  /// changed, or it is not the next step. Throws InputError if the current job does not accept one of its
  /// samples.
  void form_step(const stream::StepFormed& step, const std::string& pass = {});
  /// Records the policy's new version. If it is higher than before, drops samples and expires tickets that
  /// have become stale. A lower version does not change the current version. After the first call, versions
  /// of samples are checked against the current version (Ledger::version_rejection_reason()).
  void publish(std::int64_t version, const std::string& pass = {});
  /// Records that all steps up to and including `step` are trained, so the job will not request them again,
  /// and frees their samples. Throws InputError if `step` is later than the latest formed step.
  void mark_trained(std::int64_t step, const std::string& pass = {});
  /// Acts like mark_trained(), but the steps need not have been formed here. Used with a store restored from
  /// a backup that is older than the job's state.
  void skip_through(std::int64_t step);
  /// Returns the formed, untrained steps from `from_step` on, after making them durable.
  [[nodiscard]] std::vector<stream::FormedStep> untrained_steps(std::int64_t from_step);
  /// Passes the stored body of the sample with this arrival number to `take`, with the frame in which jobs
  /// receive it. Fields that were added later are part of the body if the sample is a line, and part of the
  /// frame if it is a tensor file. Throws InputError if the body is missing or damaged.
  void read_body(std::int64_t arrival,
                 const std::function<void(std::string_view body, const BodyFrame& frame)>& take) const;
  [[nodiscard]] JsonlSchema schema() const;

  [[nodiscard]] BufferStatus status() const;
  [[nodiscard]] const stream::StreamSettings& settings() const noexcept { return settings_; }
  /// Returns the formats in which JSON Lines represent fields, including `versions`.
  [[nodiscard]] const DeclaredFormats& formats() const noexcept { return formats_; }
  /// Returns the maximum size, in bytes, of the body of a request with samples.
  [[nodiscard]] std::int64_t max_body_bytes() const noexcept;
  /// Ends all waits, and makes later calls that change the buffer throw IoError. Irreversible.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Change;
  using Queue = CommitQueue<Change>;
  struct OpenedGroup {
    Uid uid;
    Clock::time_point opened;
  };

  struct FailedStep {
    std::int64_t step = 0;
    std::string why;
  };

  void load();
  void require_loaded() const;
  void write_store_notes();
  void check_pass_and_record_use(const std::string& pass);
  [[nodiscard]] std::vector<std::optional<ErrorReport>> find_faults(const ReceivedSamples& received,
                                                                    const Acceptance& acceptance) const;
  void require_job_accepts(std::int64_t step, std::span<const stream::WaitingGroup> groups,
                           bool is_formed) const;
  [[nodiscard]] std::optional<std::pair<std::int64_t, ErrorReport>> find_group_fault(
      const stream::WaitingGroup& group, const CurrentJob& job, const JsonlSchema& schema,
      bool is_formed) const;
  [[nodiscard]] RaggedBatch read_waiting_samples(std::span<const stream::WaitingSample> samples,
                                                 const JsonlSchema& schema) const;
  [[nodiscard]] std::vector<stream::WaitingGroup> waiting_groups_of(const stream::StepFormed& step) const;
  [[nodiscard]] bool is_job_alive() const;
  [[nodiscard]] BusyError make_busy_error() const;
  void require_same_group_rules() const;
  void choose_formats(const std::optional<DeclaredFormats>& declared);
  [[nodiscard]] JsonlSchema schema_with(const ReceivedSamples& received) const;
  [[nodiscard]] JsonlSchema schema_with_late_fields() const {
    return combine_disjoint_schemas(schema_, late_schema_);
  }
  [[nodiscard]] CurrentJob current_job() const;
  void require_same_acceptance(const CurrentJob& job) const;
  /// Returns the maximum number of bytes that a sample takes in the store for its body, its event and its
  /// key.
  [[nodiscard]] std::int64_t cost_of(const ReceivedSample& sample, const std::string& holder) const;
  [[nodiscard]] LimitError make_too_large_error(std::int64_t bytes) const;
  [[nodiscard]] FullError make_full_error();
  void wait_until_durable();
  [[nodiscard]] std::optional<Clock::time_point> next_commit_time() const;
  bool commit(const Queue::Requests& requests);
  void fail_all_and_reload(const Queue::Requests& requests, const std::exception_ptr& error);
  [[nodiscard]] stream::SampleAccepted make_accepted_event(const ReceivedSample& sample,
                                                           const std::string& holder) const;
  [[nodiscard]] std::vector<const ReceivedSample*> select_new_samples(
      const ReceivedSamples& received, const std::vector<std::optional<ErrorReport>>& faults) const;
  /// New fields of one sample: the event that records them, and the body to store.
  struct Addition {
    stream::FieldsAdded event;
    std::string body;
  };
  [[nodiscard]] const stream::WaitingSample* find_stored_sample(const ReceivedFields& fields) const;
  [[nodiscard]] JsonlSchema check_fields_and_join_schemas(std::span<const ReceivedFields> received,
                                                          const CurrentJob& job) const;
  [[nodiscard]] std::vector<Addition> select_new_fields(const std::vector<ReceivedFields>& received,
                                                        FieldIntake& intake) const;
  void require_room(const Change& change, std::int64_t cost);
  void expire_tickets(Change& change);
  void apply_deadlines(Change& change);
  void record_opened_group(const Uid& uid);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;
  [[nodiscard]] std::optional<Clock::time_point> next_group_deadline() const;
  [[nodiscard]] std::optional<double> seconds_since_last_sample() const;

  const std::unique_ptr<Store> store_;
  const stream::StreamSettings settings_;
  DeclaredFormats formats_;  // constant after construction, like `rules_`
  std::string rules_;

  mutable std::mutex state_mutex_;  // guards the members below; the writer holds it during a commit
  std::condition_variable changed_;
  std::unique_ptr<stream::Ledger> ledger_;
  std::vector<stream::OpenTickets> stored_tickets_;
  bool must_load_ = false;  // the ledger may differ from the store, so it must be loaded from the store again
  stream::Status stored_;   // ledger status before the latest transaction; status() uses it if must_load_
  std::string full_reason_;  // see WaitingGroups::full
  bool is_durable_ = true;   // whether the latest transaction is durable (Store::is_durable())
  JsonlSchema schema_;       // schema of the fields that arrive with samples
  JsonlSchema late_schema_;  // schema of the fields that were added to samples later
  std::string identity_;
  std::optional<FailedStep> failed_step_;
  SampleForm form_ = SampleForm::lines;  // form in which all samples so far were sent
  std::optional<std::int64_t> groups_per_step_;
  CurrentJob job_;
  Clock::time_point last_call_;  // time of the current job's latest call
  Clock::duration lapse_ = std::chrono::seconds(10);
  std::optional<Clock::time_point> last_sample_;  // time when samples or late fields last arrived
  Clock::duration waited_{};                      // total duration of all calls of wait_for_groups()
  // Groups whose deadline has not passed yet, even if they are no longer open; oldest first. Empty if
  // StreamSettings::deadline is unset.
  std::deque<OpenedGroup> opened_;
  std::set<stream::GroupKey> is_opened_;
  bool is_stopping_ = false;

  Queue queue_;  // destroyed first, since its thread uses the other members
};

/// Returns the settings of the last buffer that used this store. Throws InputError if there was none.
[[nodiscard]] stream::StreamSettings read_settings(const Store& store);

}  // namespace evenkeel
