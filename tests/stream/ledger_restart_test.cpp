#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "stream_events.hpp"

namespace evenkeel::stream {
namespace {

std::int64_t pick(std::int64_t end) {
  return *rc::gen::inRange<std::int64_t>(0, end);
}

StreamSettings any_settings(std::int64_t group_size, std::vector<std::string> late_fields) {
  StreamSettings settings = groups_of(group_size);
  if (pick(2) == 0) settings.min_group = 1 + pick(settings.group_size);
  if (pick(2) == 0) settings.max_staleness = pick(3);
  settings.on_stale = *rc::gen::element(OnStale::wait, OnStale::drop, OnStale::mask);
  settings.late_fields = std::move(late_fields);
  return settings;
}

std::vector<std::string> any_late_fields() {
  if (pick(3) > 0) return {};
  return {"u", "v"};
}

/// Makes any calls that a server, a clock and a trainer may make to a ledger, in any order.
class AnyStream {
 public:
  AnyStream() : keeper(any_settings(1 + pick(4), any_late_fields())) {}

  void go_on() {
    const Uid uid = pick(12);
    const std::int64_t version = keeper.ledger.version();
    switch (pick(16)) {
      case 0:
        return void(keeper.tell(GroupClosed{uid, pick(2) == 0}));
      case 1:
        return void(keeper.tell(GroupAborted{uid, pick(keeper.ledger.settings().group_size), ""}));
      case 2:
        return void(pick(4) == 0 && keeper.tell(GroupAborted{uid, std::nullopt, ""}) != 0);
      case 3:
        return void(keeper.tell(VersionPublished{version + pick(2)}));
      case 4:
        return form();
      case 5:
        return train();
      case 6:
        return void(keeper.tell(TicketsGranted{pick(3), pick(9), pick(9), holder(), ""}));
      case 7:
        return void(keeper.tell(TicketsExpired{pick(9), pick(2)}));
      case 8:
        return void(pick(30) == 0 && keeper.tell(StreamEnded{}) != 0);
      case 9:
        return withdraw();
      case 10:
      case 11:
        return add_fields({uid, pick(keeper.ledger.settings().group_size)});
      default:
        return send({uid, pick(keeper.ledger.settings().group_size)});
    }
  }

  Keeper keeper;
  std::set<SampleKey> accepted;
  std::multiset<SampleKey> in_steps;
  std::int64_t withdrawn = 0;  ///< samples

 private:
  static std::string holder() { return *rc::gen::element<std::string>("", "one", "two"); }
  void send(const SampleKey& key) {
    RC_ASSERT(keeper.ledger.is_known(key) == accepted.contains(key));
    if (keeper.ledger.status().ended) return;
    if (accepted.insert(key).second) {
      const std::int64_t version = keeper.ledger.version();
      SampleAccepted fresh =
          sample(key.uid, key.index, std::max<std::int64_t>(0, version - pick(4)), pick(50));
      fresh.content = static_cast<std::uint32_t>(7 * key.index + std::get<std::int64_t>(key.uid));
      fresh.holder = holder();
      keeper.tell(std::move(fresh));
    } else {
      RC_ASSERT(keeper.ledger.content_hash_of(key) == 7 * key.index + std::get<std::int64_t>(key.uid));
      keeper.tell(DuplicatesReported{1});
    }
  }
  /// Adds some of the fields that the sample lacks, if it is waiting.
  void add_fields(const SampleKey& key) {
    const WaitingSample* const sample = keeper.ledger.find_sample(key);
    if (sample == nullptr || keeper.ledger.step_of(key.uid)) return;
    FieldsAdded added{key, pick(50)};
    for (const std::string& field : keeper.ledger.settings().late_fields) {
      if (pick(4) > 0 && !keeper.ledger.added_content_hash(sample->arrival, field))
        added.content.emplace(field, static_cast<std::uint32_t>(pick(3)));
    }
    if (!added.content.empty()) keeper.tell(std::move(added));
  }
  void form() {
    const std::vector<WaitingGroup> ready = keeper.ledger.ready();
    StepFormed formed{next_step_, keeper.ledger.version(), {}, {}, {}};
    for (const WaitingGroup& group : ready) {
      if (pick(2) == 0) {
        formed.groups.push_back({group.uid, std::ssize(group.samples)});
      } else if (const std::int64_t passed = group.passed + pick(3); passed > 0) {
        formed.passed.push_back({group.uid, passed});
      }
    }
    if (formed.groups.empty()) return;
    keeper.tell(formed);
    ++next_step_;
    const FormedStep step = keeper.ledger.untrained_steps(formed.step).front();
    for (const WaitingGroup& group : step.groups)
      for (const WaitingSample& sample : group.samples) in_steps.insert({group.uid, sample.index});
  }
  /// Withdraws a group from its step.
  void withdraw() {
    const std::vector<FormedStep> formed = keeper.ledger.untrained_steps();
    if (formed.empty() || pick(3) != 0) return;
    for (const WaitingGroup& group : formed[static_cast<std::size_t>(pick(std::ssize(formed)))].groups) {
      keeper.tell(GroupAborted{group.uid, std::nullopt, "", true});
      withdrawn += std::ssize(group.samples);
      for (const WaitingSample& sample : group.samples) in_steps.erase({group.uid, sample.index});
      return;
    }
  }
  void train() {
    if (next_step_ > 0) keeper.tell(StepTrained{pick(next_step_)});
  }

  std::int64_t next_step_ = 0;
};

RC_GTEST_PROP(Ledger, received_is_trained_and_formed_and_waiting_and_dropped_at_any_time, ()) {
  AnyStream stream;
  for (int i = 0; i < 60; ++i) {
    stream.go_on();
    const Status status = stream.keeper.ledger.status();
    RC_ASSERT(status.received == sum_of(status));
    RC_ASSERT(status.received.samples == std::ssize(stream.accepted));
    RC_ASSERT(status.formed.samples + status.trained.samples == std::ssize(stream.in_steps));
    RC_ASSERT(stream.keeper.ledger.due_drops().empty());
  }
}

RC_GTEST_PROP(Ledger, no_sample_is_in_two_steps, ()) {
  AnyStream stream;
  for (int i = 0; i < 100; ++i) stream.go_on();
  const std::set<SampleKey> once(stream.in_steps.begin(), stream.in_steps.end());
  RC_ASSERT(once.size() == stream.in_steps.size());
}

TEST(Ledger, keeps_a_group_aborted_before_its_samples_after_a_restart) {
  StreamSettings settings = groups_of(4);
  settings.min_group = 1;
  Keeper keeper(settings);
  keeper.tell(GroupAborted{Uid(std::int64_t{7}), 0, "the tool hung"});
  keeper.tell(sample(Uid(std::int64_t{7}), 1));
  keeper.tell(StreamEnded{});
  EXPECT_EQ(keeper.restarted().ready(), keeper.ledger.ready());
  EXPECT_EQ(std::ssize(keeper.restarted().ready()), 1);
}

RC_GTEST_PROP(Ledger, is_the_same_after_a_restart_from_current_events, ()) {
  AnyStream stream;
  for (int i = 0; i < 60; ++i) {
    stream.go_on();
    if (pick(4) != 0) continue;
    const Ledger& ledger = stream.keeper.ledger;
    const Ledger again = stream.keeper.restarted();
    RC_ASSERT(again.status() == ledger.status());
    RC_ASSERT(again.ready() == ledger.ready());
    RC_ASSERT(again.untrained_steps() == ledger.untrained_steps());
    RC_ASSERT(again.open_groups() == ledger.open_groups());
    RC_ASSERT(again.seen_slots() == ledger.seen_slots());
    RC_ASSERT(again.totals() == ledger.totals());
    for (const FormedStep& step : again.untrained_steps()) {
      for (const WaitingGroup& group : step.groups)
        for (const WaitingSample& sample : group.samples) RC_ASSERT(sample.missing == 0);
    }
    RC_ASSERT(again.count_grantable_groups(3) == ledger.count_grantable_groups(3));
    if (pick(4) == 0) stream.keeper.ledger = again;  // the old ledger continues as well
  }
}

RC_GTEST_PROP(Ledger, goes_on_with_other_settings_for_groups_of_the_same_size, ()) {
  AnyStream stream;
  for (int i = 0; i < 60; ++i) {
    stream.go_on();
    if (pick(10) != 0) continue;
    Keeper& keeper = stream.keeper;
    const StreamSettings before = keeper.ledger.settings();
    keeper.restart(any_settings(before.group_size, before.late_fields));
    const Status status = keeper.ledger.status();
    RC_ASSERT(status.received == sum_of(status));
    RC_ASSERT(status.received.samples == std::ssize(stream.accepted));
    RC_ASSERT(status.formed.samples + status.trained.samples == std::ssize(stream.in_steps));
    RC_ASSERT(keeper.ledger.due_drops().empty());
    const Ledger again = keeper.restarted();
    RC_ASSERT(again.status() == status);
    RC_ASSERT(again.ready() == keeper.ledger.ready());
    RC_ASSERT(again.open_groups() == keeper.ledger.open_groups());
  }
  const std::set<SampleKey> once(stream.in_steps.begin(), stream.in_steps.end());
  RC_ASSERT(once.size() == stream.in_steps.size());
}

RC_GTEST_PROP(Ledger, a_store_keeps_little_besides_waiting_and_formed_groups, ()) {
  AnyStream stream;
  for (int i = 0; i < 100; ++i) stream.go_on();
  const Status status = stream.keeper.ledger.status();
  std::int64_t samples = 0;
  for (const auto& [number, event] : stream.keeper.events)
    samples += std::holds_alternative<SampleAccepted>(event.what) ? 1 : 0;
  RC_ASSERT(samples >= status.waiting.samples + status.formed.samples);
  RC_ASSERT(samples <= status.waiting.samples + status.formed.samples + stream.withdrawn);
  const std::int64_t steps = std::ssize(stream.keeper.ledger.untrained_steps());
  const std::int64_t groups = status.open_groups + status.ready_groups + status.formed_groups;
  const StreamSettings& settings = stream.keeper.ledger.settings();
  const std::int64_t max_events_of_a_group = 2 + settings.group_size * (1 + std::ssize(settings.late_fields));
  RC_ASSERT(std::ssize(stream.keeper.events) <=
            samples + steps + 1 + (groups + stream.withdrawn) * max_events_of_a_group);
  RC_ASSERT(std::ssize(stream.keeper.seen) * 24 == status.seen_bytes);
  RC_ASSERT(std::ssize(stream.keeper.seen) <= 12 + std::ssize(stream.accepted));  // there are 12 groups
}

}  // namespace
}  // namespace evenkeel::stream
