#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "stream/event.hpp"
#include "stream/group_state.hpp"
#include "stream/key.hpp"
#include "stream/settings.hpp"

namespace evenkeel::stream {

/// A group that a step may take: complete, or closed with at least min_group samples.
struct WaitingGroup {
  Uid uid;
  std::int64_t ready = 0;              ///< position in the queue: number of the group's last event
  std::int64_t passed = 0;             ///< number of groups that became ready later but are already in a step
  std::vector<WaitingSample> samples;  ///< ascending by index

  [[nodiscard]] std::int64_t version() const noexcept;  ///< returns the version of the group's oldest sample
  friend bool operator==(const WaitingGroup&, const WaitingGroup&) = default;
};

/// A step that was formed but not trained, with all data needed to hand it out again.
struct FormedStep {
  std::int64_t step = 0;
  std::int64_t version = 0;
  std::vector<WaitingGroup> groups;  ///< in the order of the step
  std::vector<std::int64_t> masked;  ///< arrival numbers of stale samples to mask, ascending

  friend bool operator==(const FormedStep&, const FormedStep&) = default;
};

/// Fields that one FieldsAdded event added to a sample.
struct AddedFields {
  std::int64_t number = 0;  ///< number of the event, under which the store keeps the values
  std::int64_t bytes = 0;
  std::map<std::string, std::uint32_t> content;  ///< hash of each field's value, by name
};

/// Numbers of samples, prompt tokens and response tokens.
struct Amount {
  std::int64_t samples = 0;
  std::int64_t prompt = 0;
  std::int64_t response = 0;

  Amount& operator+=(const Amount& other) noexcept;
  Amount& operator-=(const Amount& other) noexcept;
  friend bool operator==(const Amount&, const Amount&) = default;
};

/// A grant that has unused tickets.
struct OpenTickets {
  std::int64_t version = 0;         ///< policy version at the time of the grant
  std::int64_t groups = 0;          ///< number of unused tickets, at least one
  std::int64_t granted_groups = 0;  ///< how many tickets were granted, including used ones
  std::int64_t granted = 0;         ///< copied from TicketsGranted, as are the members below
  std::int64_t deadline = 0;
  std::string holder = {};
  std::string request = {};

  friend bool operator==(const OpenTickets&, const OpenTickets&) = default;
};

/// Summary of all superseded events (see Changes). A ledger's complete state consists of its Totals, its
/// SeenSlots and the events that are not superseded. Totals without tickets take a few hundred bytes.
struct Totals {
  std::int64_t last_event = 0;  ///< number of the latest event, superseded or not
  std::int64_t version = 0;
  bool has_version = false;  ///< whether a job has published a version
  bool ended = false;
  std::int64_t duplicates = 0;
  std::optional<std::int64_t> trained_step;  ///< number of the latest trained step
  Amount trained;
  std::array<Amount, num_drop_reasons> dropped;  ///< dropped samples, by DropReason
  std::vector<OpenTickets> tickets;              ///< in the order of their grants
  std::int64_t expired_tickets = 0;              ///< number of granted tickets that expired before use
  /// Number of samples that were put into steps, by versions_behind() when their step was formed.
  std::map<std::int64_t, std::int64_t> staleness{};

  friend bool operator==(const Totals&, const Totals&) = default;
};

/// Changes to a store that an event requires, in addition to storing the event itself.
struct Changes {
  /// Numbers of events that a replay no longer needs, ascending. If the event itself is among them, it need
  /// not be stored. Superseding a SampleAccepted or FieldsAdded also allows the sample or the fields' values
  /// to be deleted.
  std::vector<std::int64_t> superseded;
  std::vector<SeenSlot> seen;  ///< slots to be stored, without duplicates
};

/// Maximum numbers of open tickets and of grants that have open tickets. The first limits how many versions
/// jobs receive, since versions_of_expected_groups() has one per open ticket. The second limits how many
/// grants stores keep.
inline constexpr std::int64_t max_tickets = std::int64_t{1} << 20;
inline constexpr std::int64_t max_grants = 4096;

/// Maximum length in bytes of a uid, of a holder or request identity, and of an abort's reason.
inline constexpr std::int64_t max_uid_bytes = 1024;
inline constexpr std::int64_t max_name_bytes = 256;
inline constexpr std::int64_t max_reason_bytes = 1024;

/// Returns why groups must not have this uid, with a remedy; empty if the uid is valid or missing.
[[nodiscard]] std::string uid_rejection_reason(const Uid& uid);

/// Number of samples and groups by state. At any time, received = trained + formed + waiting + dropped, for
/// samples and for tokens.
struct Status {
  std::int64_t version = 0;
  bool ended = false;
  std::int64_t open_groups = 0;    ///< groups that wait for more samples or fields
  std::int64_t ready_groups = 0;   ///< groups that wait for a step
  std::int64_t formed_groups = 0;  ///< groups in steps that are not trained
  Amount received;                 ///< all samples except duplicates
  Amount waiting;  ///< samples in open and ready groups, and late samples that have not been dropped yet
  Amount formed;   ///< samples in steps that are not trained
  Amount trained;
  std::array<Amount, num_drop_reasons> dropped;
  std::int64_t duplicates = 0;
  std::map<std::int64_t, std::int64_t> staleness;  ///< see Totals::staleness
  std::int64_t tickets = 0;  ///< number of granted tickets that are neither used nor expired
  std::int64_t expired_tickets = 0;
  std::optional<OpenTickets> oldest_tickets;
  std::map<std::string, std::int64_t>
      missing_fields;                        ///< for each late field: number of samples that wait for it
  std::int64_t bytes = 0;                    ///< bytes of waiting and formed samples, and of remembered keys
  std::int64_t seen_bytes = 0;               ///< bytes of remembered keys, which `bytes` includes
  std::optional<std::int64_t> formed_step;   ///< number of the latest formed step
  std::optional<std::int64_t> trained_step;  ///< number of the latest trained step

  /// Returns whether no further group can become ready: the stream has ended, and no sample waits for fields.
  [[nodiscard]] bool is_exhausted() const noexcept { return ended && open_groups == 0; }

  friend bool operator==(const Status&, const Status&) = default;
};

/// State machine that tracks what a buffer has received and what has happened to it. Deterministic: it uses
/// neither a clock nor I/O, only apply() changes it, and equal events produce equal ledgers. Not thread-safe.
///
/// A buffer serves a request in this order:
/// 1. It consults the ledger: content_hash_of(), rejection_reason().
/// 2. It applies the events of the request, and then the drops that have become due (due_drops()).
/// 3. It writes the events and their Changes in one transaction.
/// 4. It answers.
/// If the transaction fails, the ledger is ahead of the store and must be constructed again from the store.
///
/// apply() does not drop anything on its own. due_drops() lists the samples that must be dropped under the
/// settings (for example, because they are stale, or in groups that are too small); the caller applies and
/// writes these drops immediately, like any other event. A buffer may therefore be restarted with other
/// settings, except that group_size and late_fields must not change while groups wait or are formed.
///
/// Keys are remembered as long as the store exists, since a producer may repeat a sample at any time. A
/// 32-bit hash of each sample's content is kept to detect a repeated key with different content. A group
/// takes 24 bytes per 63 indexes and 12 bytes per sample, and up to twice as much memory while the table
/// grows. This memory is included in `bytes`, so it is limited by the capacity: a million groups of 8 take
/// 120 MB.
class Ledger {
 public:
  /// Throws ConfigError if a setting is out of range (see StreamSettings::validate()). To restore a ledger
  /// from a store, pass its totals and seen slots, and then apply its remaining events in order.
  explicit Ledger(StreamSettings settings, const Totals& totals = {}, std::span<const SeenSlot> seen = {});

  /// Returns the content hash of the sample with this key, which may wait, be in a step, or have been trained
  /// or dropped. Returns nullopt if there was no such sample.
  [[nodiscard]] std::optional<std::uint32_t> content_hash_of(const SampleKey& key) const;
  [[nodiscard]] bool is_known(const SampleKey& key) const { return content_hash_of(key).has_value(); }
  /// Returns the sample with this key if it waits or is in a step, otherwise null. The pointer is valid until
  /// the next apply().
  [[nodiscard]] const WaitingSample* find_sample(const SampleKey& key) const;
  /// Returns the fields that were added to a sample that waits or is in a step, in the order of their events.
  [[nodiscard]] std::span<const AddedFields> fields_added_to(std::int64_t arrival) const;
  /// Returns the hash of the value of a field that was added to the sample; nullopt if the field was not
  /// added.
  [[nodiscard]] std::optional<std::uint32_t> added_content_hash(std::int64_t arrival,
                                                                const std::string& field) const;
  /// Returns whether a sample or an abort of the group was received before, even if the group has been
  /// trained or dropped since.
  [[nodiscard]] bool knows_group(const Uid& uid) const;
  /// Returns why the sample is rejected (HTTP status 422), with a remedy: its uid is missing, empty or too
  /// long, its index is outside the group, a number is negative, or the stream has ended. Empty if it can be
  /// accepted. Does not check the version (see version_rejection_reason()) or whether the sample is known.
  [[nodiscard]] std::string rejection_reason(const SampleAccepted& sample) const;
  /// Returns why a sample's version is refused: it is higher than the latest published version. Empty if the
  /// version is accepted. Before a job has published a version, all versions are accepted.
  [[nodiscard]] std::string version_rejection_reason(std::int64_t version) const;

  /// Applies one event. Throws InputError, without changing anything, unless
  /// - the number is above the previous event's (gaps are allowed);
  /// - the sample of a SampleAccepted is not known, and rejection_reason() is empty for it;
  /// - the sample of a FieldsAdded waits, and lacks these late fields;
  /// - all samples of a SamplesDropped wait;
  /// - a StepFormed has the number after the latest formed or trained step (any number if there is none), the
  ///   current version, and at least one group, and all of its groups are ready with the given numbers of
  ///   samples;
  /// - the index of a GroupAborted is inside the group;
  /// - a StepTrained names a formed step or, if it skips steps, a later step.
  ///
  /// The following events are valid but change nothing: closing a group that is unknown, ended, closed
  /// (unless its deadline has passed and it waits for fields), aborted or in a step; aborting a group or
  /// sample that is aborted, ended or in a step (unless in_step is set); aborting a group with in_step if it
  /// is not in a step; training a step that was already trained. A version below the current one only sets
  /// Totals::has_version. A sample of a group that is closed, aborted as a whole, ended or in a step is
  /// accepted, but late.
  ///
  /// Events with numbers up to the Totals::last_event with which the ledger was constructed are replayed:
  /// they restore groups and steps, but they are not counted in the totals again and are not checked
  /// completely.
  Changes apply(const Event& event);

  /// Returns the drops that are now due under the settings: samples that are stale, late, aborted, or in
  /// groups that can no longer reach min_group. Each reason occurs at most once. After the drops have been
  /// applied, they are no longer returned.
  [[nodiscard]] std::vector<SamplesDropped> due_drops() const;

  /// Returns the groups that a step may take, in queue order: ascending by WaitingGroup::ready. O(samples of
  /// these groups).
  [[nodiscard]] std::vector<WaitingGroup> ready() const;
  /// Returns the steps that are formed and not trained, starting at `from_step`, in ascending order and
  /// without withdrawn groups.
  [[nodiscard]] std::vector<FormedStep> untrained_steps(std::int64_t from_step = 0) const;
  /// Returns the number of the untrained step that contains the group, or nullopt if there is none.
  [[nodiscard]] std::optional<std::int64_t> step_of(const Uid& uid) const;
  /// Returns the groups that wait for more samples or fields, in the order of their first events.
  /// StreamSettings::deadline applies to these groups.
  [[nodiscard]] std::vector<Uid> open_groups() const;

  /// Returns one version per expected group: for each open group, the version of its oldest sample that is
  /// not stale, or the current version; and, if tickets are limited, for each open ticket, the version of its
  /// grant unless it is stale.
  [[nodiscard]] std::vector<std::int64_t> versions_of_expected_groups() const;

  /// Returns how many new groups may be started so that all can be trained before they become stale, if every
  /// step takes `groups_per_step` and advances the version by one. This is the number of groups in
  /// (max_staleness + 1) steps, minus the groups that are open or ready, were formed at this version, or have
  /// tickets. The result is also limited by max_tickets and max_grants. Returns the largest integer unless
  /// StreamSettings::limits_tickets().
  [[nodiscard]] std::int64_t count_grantable_groups(std::int64_t groups_per_step) const;
  /// Returns the earlier grant to `holder` for the same request if any of its tickets are open, otherwise
  /// null. Always null for a request without an identity.
  [[nodiscard]] const OpenTickets* find_earlier_grant(const std::string& holder,
                                                      const std::string& request) const noexcept;
  /// Returns the time at which the next tickets expire, in milliseconds since 1970, or nullopt if no tickets
  /// are open.
  [[nodiscard]] std::optional<std::int64_t> next_ticket_deadline() const noexcept;

  [[nodiscard]] Status status() const;
  /// Returns the totals, which must be stored with every transaction.
  [[nodiscard]] const Totals& totals() const noexcept { return totals_; }
  /// Returns all remembered keys, sorted by slot. For tests and inspection.
  [[nodiscard]] std::vector<SeenSlot> seen_slots() const { return seen_.slots(); }
  [[nodiscard]] std::int64_t version() const noexcept { return totals_.version; }
  [[nodiscard]] const StreamSettings& settings() const noexcept { return settings_; }

 private:
  struct Step {
    std::int64_t event = 0;
    std::int64_t version = 0;
    std::vector<GroupKey> groups;
    std::vector<std::int64_t> masked;
    std::int64_t num_groups = 0;  ///< remains valid after the step is trained, when `groups` is empty
  };

  /// Returns whether the event is being replayed, that is, whether the totals at construction already include
  /// its effect.
  [[nodiscard]] bool is_replay(std::int64_t number) const noexcept { return number <= restored_; }
  [[nodiscard]] const GroupState* find(const GroupKey& key) const noexcept;

  void require_valid_event(std::int64_t number, const SampleAccepted& sample) const;
  void require_valid_event(std::int64_t number, const FieldsAdded& fields) const;
  void require_valid_event(std::int64_t number, const GroupAborted& aborted) const;
  void require_valid_event(std::int64_t number, const SamplesDropped& dropped) const;
  void require_valid_event(std::int64_t number, const StepFormed& formed) const;
  void require_valid_event(std::int64_t number, const StepTrained& trained) const;
  template <typename What>
  void require_valid_event(std::int64_t /*number*/, const What& /*what*/) const {}

  void apply_event(std::int64_t number, const SampleAccepted& sample, Changes& changes);
  void apply_event(std::int64_t number, const FieldsAdded& fields, Changes& changes);
  void apply_event(std::int64_t number, const DuplicatesReported& told, Changes& changes);
  void apply_event(std::int64_t number, const GroupClosed& closed, Changes& changes);
  void apply_event(std::int64_t number, const GroupAborted& aborted, Changes& changes);
  void apply_event(std::int64_t number, const VersionPublished& published, Changes& changes);
  void apply_event(std::int64_t number, const SamplesDropped& dropped, Changes& changes);
  void apply_event(std::int64_t number, const TicketsGranted& granted, Changes& changes);
  void apply_event(std::int64_t number, const TicketsExpired& expired, Changes& changes);
  void apply_event(std::int64_t number, const StepFormed& formed, Changes& changes);
  void apply_event(std::int64_t number, const StepTrained& trained, Changes& changes);
  void apply_event(std::int64_t number, const StreamEnded& ended, Changes& changes);

  GroupState& find_or_begin_group(const Uid& uid, const GroupKey& key, std::int64_t number,
                                  const std::string& holder);
  /// Returns whether a sample of the group was trained or dropped, or the group has ended.
  [[nodiscard]] bool has_finished_samples(const GroupKey& key) const;
  void use_ticket(const std::string& holder);
  void reevaluate_group(const GroupKey& key, Changes& changes);
  void record_seen(const GroupKey& key, std::int64_t index, std::uint32_t content, Changes& changes);
  void remove_from_queues(GroupState& group);
  void forget_added_fields(std::int64_t arrival, GroupState& group, Changes& changes);
  void withdraw_group(std::int64_t number, const GroupKey& key, Changes& changes);
  void remove_trained_group(const GroupKey& key, Changes& changes);

  StreamSettings settings_;
  Totals totals_;
  std::int64_t restored_ = 0;  ///< number of the last event included in the totals at construction
  std::int64_t latest_ = 0;    ///< number of the last event applied
  SeenKeys seen_;
  std::unordered_map<GroupKey, GroupState, GroupKeyHash> groups_;
  std::map<std::int64_t, GroupKey> ready_;  ///< ready groups, by position in the queue (WaitingGroup::ready)
  std::map<std::int64_t, GroupKey> open_;   ///< open groups, by GroupState::first_event()
  std::unordered_map<std::int64_t, GroupKey> group_of_;  ///< groups of waiting samples, by arrival number
  /// Fields that were added to samples, by the samples' arrival numbers.
  std::unordered_map<std::int64_t, std::vector<AddedFields>> added_;
  std::map<std::string, std::int64_t> missing_fields_;   ///< see Status::missing_fields
  std::map<std::int64_t, SampleAccepted> late_samples_;  ///< late samples to be dropped, by arrival number
  std::map<std::int64_t, DropReason> due_;  ///< reason for each drop that is due, by arrival number
  std::map<std::int64_t, Step> steps_;      ///< untrained steps and the latest formed step, by number
  Amount received_;
  Amount waiting_;
  Amount formed_;
  std::int64_t bytes_ = 0;
};

}  // namespace evenkeel::stream
