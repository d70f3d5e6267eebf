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

/// A group that a step may have: complete, or closed with at least min_group samples.
struct WaitingGroup {
  Uid uid;
  std::int64_t ready = 0;   ///< its place in the queue: the number of its last arrival, closing or abort
  std::int64_t passed = 0;  ///< groups that were ready later and are in earlier steps
  std::vector<WaitingSample> samples;  ///< by index

  [[nodiscard]] std::int64_t version() const noexcept;  ///< of its oldest sample
  friend bool operator==(const WaitingGroup&, const WaitingGroup&) = default;
};

/// A step that was formed and not trained, with all that is needed to hand it out again.
struct FormedStep {
  std::int64_t step = 0;
  std::int64_t version = 0;
  std::vector<WaitingGroup> groups;  ///< in the step's order
  std::vector<std::int64_t> masked;  ///< arrivals, ascending

  friend bool operator==(const FormedStep&, const FormedStep&) = default;
};

/// Samples, and what they have in tokens.
struct Amount {
  std::int64_t samples = 0;
  std::int64_t prompt = 0;
  std::int64_t response = 0;

  Amount& operator+=(const Amount& other) noexcept;
  Amount& operator-=(const Amount& other) noexcept;
  friend bool operator==(const Amount&, const Amount&) = default;
};

/// A grant of tickets, some of which are not used yet.
struct OpenTickets {
  std::int64_t version = 0;  ///< of the policy when they were granted
  std::int64_t groups = 0;   ///< not used yet, at least one
  std::int64_t of = 0;       ///< how many were granted
  std::int64_t granted = 0;  ///< as in TicketsGranted
  std::int64_t deadline = 0;
  std::string holder = {};
  std::string request = {};

  friend bool operator==(const OpenTickets&, const OpenTickets&) = default;
};

/// What remains of everything that is over: with SeenSlots and the events that were not superseded it is the
/// whole state. A few hundred bytes.
struct Totals {
  std::int64_t last_event = 0;  ///< the number of the latest event, also of those that need not be kept
  std::int64_t version = 0;
  bool has_version = false;  ///< a job has published one
  bool ended = false;
  std::int64_t duplicates = 0;
  std::optional<std::int64_t> trained_step;  ///< the latest
  Amount trained;
  std::array<Amount, num_drop_reasons> dropped;      ///< by DropReason
  std::vector<OpenTickets> tickets;                  ///< in the order in which they were granted
  std::int64_t expired_tickets = 0;                  ///< that were granted and never used
  std::map<std::int64_t, std::int64_t> staleness{};  ///< samples that were formed, by counted_behind()

  friend bool operator==(const Totals&, const Totals&) = default;
};

/// What an event changes in a store.
struct Changes {
  /// Events that no replay needs any more, this one possibly among them (then it need not be stored at all),
  /// ascending. With a SampleAccepted the sample itself may be deleted.
  std::vector<std::int64_t> superseded;
  std::vector<SeenSlot> seen;  ///< to be stored, one of a slot
};

/// Most tickets, and most grants of them, that are open at a time: a job is told of each, and a store keeps
/// them.
inline constexpr std::int64_t most_tickets = std::int64_t{1} << 20;
inline constexpr std::int64_t most_grants = 4096;

/// Longest uid, holder, request identity, and reason of an abort, in bytes.
inline constexpr std::int64_t most_uid_bytes = 1024;
inline constexpr std::int64_t most_name_bytes = 256;
inline constexpr std::int64_t most_reason_bytes = 1024;

/// Why no group may have this uid, and what to do. Empty if one may.
[[nodiscard]] std::string refusal_of(const Uid& uid);

/// How many are where. At any time, and for the amounts of tokens as well:
/// received = trained + formed + waiting + dropped.
struct Status {
  std::int64_t version = 0;
  bool ended = false;
  std::int64_t open_groups = 0;    ///< that wait for more samples
  std::int64_t ready_groups = 0;   ///< that wait for a step
  std::int64_t formed_groups = 0;  ///< in steps that are not trained
  Amount received;                 ///< all but duplicates
  Amount waiting;                  ///< in open and ready groups
  Amount formed;
  Amount trained;
  std::array<Amount, num_drop_reasons> dropped;
  std::int64_t duplicates = 0;
  std::map<std::int64_t, std::int64_t> staleness;  ///< as in Totals
  std::int64_t tickets = 0;                        ///< granted, and neither used nor expired
  std::int64_t expired_tickets = 0;
  std::optional<OpenTickets> oldest_tickets;
  std::int64_t bytes = 0;                    ///< of samples that wait or are formed, and of remembered keys
  std::int64_t seen_bytes = 0;               ///< of these, the remembered keys
  std::optional<std::int64_t> formed_step;   ///< the latest
  std::optional<std::int64_t> trained_step;  ///< the latest

  friend bool operator==(const Status&, const Status&) = default;
};

/// What a buffer has received and what became of it: a pure state machine. It changes by apply() alone, and
/// equal events give equal ledgers. No clock, no I/O, not for several threads at once.
///
/// A buffer, for each request: looks (is_known, refusal, due), applies, writes the events and what they
/// change in one transaction, and only then answers. A transaction that fails leaves the ledger ahead of the
/// store: make a new one from the store.
///
/// apply() decides nothing by settings: what these demand (dropping what is stale or too small) is due(),
/// which is to be written down and applied like any other event, at once. So a job may go on with other
/// settings, but for group_size while groups wait or are formed.
///
/// Keys are remembered for as long as the ledger's store exists, since a producer may repeat itself at any
/// time, together with a hash of 32 bits of what each sample held, so that a key that comes again with other
/// content is found out: 24 bytes per group (for each 63 indexes) and 12 per sample, and up to twice that in
/// memory while the table grows. They count into `bytes`, so that the capacity bounds them, too: a million
/// groups of 8 take 120 MB.
class Ledger {
 public:
  /// Throws as StreamSettings::validate does.
  explicit Ledger(StreamSettings settings);
  /// From a store: then apply the events that it still has, in order.
  Ledger(StreamSettings settings, const Totals& totals, std::span<const SeenSlot> seen);

  /// The hash of what a sample with that key held: it waits, is in a step, was trained or was dropped. Null
  /// if there was none.
  [[nodiscard]] std::optional<std::uint32_t> content_of(const SampleKey& key) const;
  [[nodiscard]] bool is_known(const SampleKey& key) const { return content_of(key).has_value(); }
  /// Whether anything of the group came before: a sample, or an abort.
  [[nodiscard]] bool knows_group(const Uid& uid) const;
  /// Why the sample cannot be taken at all (status 422), and what to do: no uid or one that is empty or too
  /// long, an index outside the group, a negative number, after the end. Empty if it can.
  [[nodiscard]] std::string refusal(const SampleAccepted& sample) const;
  /// The same for a version above the published one. Before a job has published one, there is none.
  [[nodiscard]] std::string refusal_of_version(std::int64_t version) const;

  /// Throws InputError, and then has changed nothing, unless the number is above that of the event before
  /// (gaps are allowed); a SampleAccepted is neither known nor refused; SamplesDropped wait; and a StepFormed
  /// has the number after the latest one (any, if there is none), the current version, and groups that are
  /// ready with so many samples, one at least.
  ///
  /// Closing a group of which nothing came, what comes too late for a group in a step, and a lower version
  /// change nothing. A group that was aborted as a whole is over: what
  /// still comes of it is late. So is what comes after a group was closed.
  Changes apply(const Event& event);

  /// What has to happen now, by the settings: samples that are stale, late, aborted or of groups that cannot
  /// reach min_group any more, each reason once at most. Nothing of it after it was applied.
  [[nodiscard]] std::vector<SamplesDropped> due() const;

  /// Groups that a step may have, in the order in which they became ready. O(samples of these).
  [[nodiscard]] std::vector<WaitingGroup> ready() const;
  /// Steps that are formed and not trained, from this one on, in order.
  [[nodiscard]] std::vector<FormedStep> formed(std::int64_t from_step = 0) const;
  /// The step that has the group and is not trained.
  [[nodiscard]] std::optional<std::int64_t> step_of(const Uid& uid) const;
  /// Groups that still wait for samples, in the order of their first samples: what a deadline is about.
  [[nodiscard]] std::vector<Uid> open_groups() const;

  /// Versions of groups that have not come, or not as a whole: of open groups; and of tickets, if these are
  /// limited, whose groups would not be stale.
  [[nodiscard]] std::vector<std::int64_t> coming() const;

  /// How many new groups may be started, so that all of them can be in a step before they are stale, if every
  /// step has `groups_per_step` and every version one step: (max_staleness + 1) steps' groups without those
  /// that wait, were formed at this version, or have tickets. Unlimited (the largest number) unless
  /// StreamSettings::limits_tickets.
  [[nodiscard]] std::int64_t grantable(std::int64_t groups_per_step) const;
  /// What was granted to this request before, if any of it is open. Null for a request without an identity.
  [[nodiscard]] const OpenTickets* granted_before(const std::string& holder,
                                                  const std::string& request) const noexcept;
  /// When the next tickets expire, in milliseconds since 1970.
  [[nodiscard]] std::optional<std::int64_t> next_ticket_deadline() const noexcept;

  [[nodiscard]] Status status() const;
  [[nodiscard]] const Totals& totals() const noexcept {
    return totals_;
  }  ///< to be stored with every transaction
  /// All keys that are remembered, in no particular order of groups: for tests and inspection.
  [[nodiscard]] std::vector<SeenSlot> seen() const { return seen_.slots(); }
  [[nodiscard]] std::int64_t version() const noexcept { return totals_.version; }
  [[nodiscard]] const StreamSettings& settings() const noexcept { return settings_; }

 private:
  struct Step {
    std::int64_t event = 0;
    std::int64_t version = 0;
    std::vector<GroupKey> groups;
    std::vector<std::int64_t> masked;
    std::int64_t num_groups = 0;  ///< also once it was trained, when `groups` is empty
  };

  /// An event that came before the totals were stored, which count what it did to them.
  [[nodiscard]] bool is_replay(std::int64_t number) const noexcept { return number <= restored_; }
  [[nodiscard]] const GroupState* find(const GroupKey& key) const noexcept;

  void require(std::int64_t number, const SampleAccepted& sample) const;
  void require(std::int64_t number, const GroupAborted& aborted) const;
  void require(std::int64_t number, const SamplesDropped& dropped) const;
  void require(std::int64_t number, const StepFormed& formed) const;
  void require(std::int64_t number, const StepTrained& trained) const;
  template <typename What>
  void require(std::int64_t /*number*/, const What& /*what*/) const {}

  void enter(std::int64_t number, const SampleAccepted& sample, Changes& changes);
  void enter(std::int64_t number, const DuplicatesTold& told, Changes& changes);
  void enter(std::int64_t number, const GroupClosed& closed, Changes& changes);
  void enter(std::int64_t number, const GroupAborted& aborted, Changes& changes);
  void enter(std::int64_t number, const VersionPublished& published, Changes& changes);
  void enter(std::int64_t number, const SamplesDropped& dropped, Changes& changes);
  void enter(std::int64_t number, const TicketsGranted& granted, Changes& changes);
  void enter(std::int64_t number, const TicketsExpired& expired, Changes& changes);
  void enter(std::int64_t number, const StepFormed& formed, Changes& changes);
  void enter(std::int64_t number, const StepTrained& trained, Changes& changes);
  void enter(std::int64_t number, const StreamEnded& ended, Changes& changes);

  GroupState& begin_group(const Uid& uid, const GroupKey& key, std::int64_t number,
                          const std::string& holder);
  void use_ticket(const std::string& holder);
  void settle(const GroupKey& key, Changes& changes);
  void note_seen(const GroupKey& key, std::int64_t index, std::uint32_t content, Changes& changes);
  void forget_place(GroupState& group);
  void withdraw(std::int64_t number, const GroupKey& key, Changes& changes);
  void train(const GroupKey& key, Changes& changes);

  StreamSettings settings_;
  Totals totals_;
  std::int64_t restored_ = 0;  ///< the last event that totals_ knew at the beginning
  std::int64_t latest_ = 0;    ///< the last event that was applied
  SeenKeys seen_;
  std::unordered_map<GroupKey, GroupState, GroupKeyHash> groups_;
  std::map<std::int64_t, GroupKey> ready_;               ///< by place in the queue
  std::map<std::int64_t, GroupKey> open_;                ///< by first event
  std::unordered_map<std::int64_t, GroupKey> group_of_;  ///< of each arrival that waits
  std::map<std::int64_t, SampleAccepted> strays_;        ///< too late for their groups, by arrival
  std::map<std::int64_t, DropReason> due_;               ///< by arrival
  std::map<std::int64_t, Step> steps_;                   ///< those not trained, and the latest
  Amount received_;
  Amount waiting_;
  Amount formed_;
  std::int64_t bytes_ = 0;
};

}  // namespace evenkeel::stream
