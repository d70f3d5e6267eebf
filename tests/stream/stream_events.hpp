#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stream/ledger.hpp"

namespace evenkeel::stream {

inline StreamSettings groups_of(std::int64_t size) {
  StreamSettings settings;
  settings.group_size = size;
  return settings;
}

inline SampleAccepted sample(const Uid& uid, std::int64_t index, std::int64_t version = 0,
                             std::int64_t response = 10) {
  return {{uid, index}, 5, response, version, 100};
}

/// Does the work of a buffer's server: numbers events, applies them and the events due after them, and keeps
/// what a restart needs.
class Keeper {
 public:
  explicit Keeper(StreamSettings settings) : ledger(std::move(settings)) {}

  /// Returns the number of the event.
  std::int64_t tell(Event::What what) {
    const std::int64_t number = next_++;
    keep({number, std::move(what)});
    drop_what_is_due();
    return number;
  }
  /// Forms a step from the first groups that are ready.
  void form(std::int64_t step, std::int64_t groups) {
    StepFormed formed{step, ledger.version(), {}, {}, {}};
    for (const WaitingGroup& group : ledger.ready())
      if (std::ssize(formed.groups) < groups) formed.groups.push_back({group.uid, std::ssize(group.samples)});
    tell(formed);
  }
  [[nodiscard]] Ledger restarted() const { return restarted(ledger.settings()); }
  [[nodiscard]] Ledger restarted(const StreamSettings& settings) const {
    std::vector<SeenSlot> slots;
    for (const auto& [slot, bits] : seen) slots.push_back({slot, bits});
    Ledger again(settings, totals, slots);
    for (const auto& [number, event] : events) again.apply(event);
    return again;
  }
  /// Resumes with other settings, as a job may.
  void restart(const StreamSettings& settings) {
    ledger = restarted(settings);
    drop_what_is_due();
  }

  Ledger ledger;
  std::map<std::int64_t, Event> events;
  std::map<GroupKey, std::uint64_t> seen;
  Totals totals;

 private:
  void drop_what_is_due() {
    for (SamplesDropped& drop : ledger.due_drops()) keep({next_++, std::move(drop)});
  }
  void keep(Event event) {
    const Changes changes = ledger.apply(event);
    events.emplace(event.number, std::move(event));
    for (const std::int64_t number : changes.superseded) events.erase(number);
    for (const SeenSlot& slot : changes.seen) seen[slot.slot] = slot.bits;
    totals = ledger.totals();
  }

  std::int64_t next_ = 1;
};

inline std::vector<std::string> names(const std::vector<WaitingGroup>& groups) {
  std::vector<std::string> names;
  for (const WaitingGroup& group : groups) names.push_back(to_text(group.uid));
  return names;
}

inline Amount sum_of(const Status& status) {
  Amount sum = status.waiting;
  sum += status.formed;
  sum += status.trained;
  for (const Amount& dropped : status.dropped) sum += dropped;
  return sum;
}

inline std::int64_t dropped(const Ledger& ledger, DropReason reason) {
  return ledger.status().dropped[static_cast<std::size_t>(reason)].samples;
}

}  // namespace evenkeel::stream
