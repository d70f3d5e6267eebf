#include "stream/ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "stream_events.hpp"
#include "support/error_message.hpp"

namespace evenkeel::stream {
namespace {

using Names = std::vector<std::string>;
using testing::HasSubstr;
using testing_support::message_of;

const Uid a = std::string("a");
const Uid b = std::string("b");
const Uid c = std::string("c");

TEST(Ledger, a_group_is_ready_with_its_last_sample_and_waits_in_that_order) {
  Keeper keeper(groups_of(2));
  keeper.tell(sample(a, 1));
  keeper.tell(sample(b, 0));
  EXPECT_EQ(names(keeper.ledger.ready()), Names{});
  EXPECT_EQ(keeper.ledger.open_groups(), (std::vector<Uid>{a, b}));
  const std::int64_t last_of_b = keeper.tell(sample(b, 1));
  keeper.tell(sample(a, 0));
  const std::vector<WaitingGroup> ready = keeper.ledger.ready();
  EXPECT_EQ(names(ready), (Names{"'b'", "'a'"}));
  EXPECT_EQ(ready[0].ready, last_of_b);
  EXPECT_EQ(ready[1].samples[0].index, 0);
  EXPECT_EQ(ready[1].samples[1].arrival, 1);
}

TEST(Ledger, remembers_a_key_forever) {
  Keeper keeper(groups_of(1));
  EXPECT_FALSE(keeper.ledger.is_known({a, 0}));
  keeper.tell(sample(a, 0));
  EXPECT_TRUE(keeper.ledger.is_known({a, 0}));
  keeper.form(0, 1);
  EXPECT_TRUE(keeper.ledger.is_known({a, 0}));
  keeper.tell(StepTrained{0});
  EXPECT_TRUE(keeper.ledger.is_known({a, 0}));
  EXPECT_TRUE(keeper.restarted().is_known({a, 0}));
  EXPECT_FALSE(keeper.ledger.is_known({b, 0}));
  EXPECT_EQ(message_of([&] { keeper.tell(sample(a, 0)); }), "event 4: sample 0 of 'a' was already accepted");
}

TEST(Ledger, remembers_the_content_of_a_sample_forever) {
  Keeper keeper(groups_of(2));
  SampleAccepted whole = sample(a, 0);
  whole.content = 0xfedcba98;
  SampleAccepted late = sample(a, 1);
  late.content = 7;
  keeper.tell(whole);
  keeper.tell(GroupAborted{a, 1, "timeout"});
  EXPECT_EQ(keeper.ledger.content_hash_of({a, 0}), 0xfedcba98) << "dropped, since its group is too small";
  keeper.tell(late);
  EXPECT_EQ(keeper.ledger.content_hash_of({a, 1}), 7) << "late";
  keeper.tell(sample(b, 0));
  keeper.tell(sample(b, 1));
  keeper.form(0, 1);
  EXPECT_EQ(keeper.ledger.content_hash_of({b, 0}), 0);
  keeper.tell(StepTrained{0});
  for (const Ledger& ledger : {keeper.ledger, keeper.restarted()}) {
    EXPECT_EQ(ledger.content_hash_of({a, 0}), 0xfedcba98);
    EXPECT_EQ(ledger.content_hash_of({a, 1}), 7);
    EXPECT_EQ(ledger.content_hash_of({b, 1}), 0);
    EXPECT_EQ(ledger.content_hash_of({c, 1}), std::nullopt);
    EXPECT_TRUE(ledger.knows_group(a));
    EXPECT_FALSE(ledger.knows_group(c));
  }
}

TEST(Ledger, counts_duplicates_separately_from_received_samples) {
  Keeper keeper(groups_of(1));
  keeper.tell(sample(a, 0));
  keeper.tell(DuplicatesReported{3});
  EXPECT_EQ(keeper.ledger.status().duplicates, 3);
  EXPECT_EQ(keeper.ledger.status().received.samples, 1);
  EXPECT_EQ(keeper.restarted().status().duplicates, 3);
}

TEST(Ledger, a_closed_group_is_ready_if_it_has_enough_samples) {
  StreamSettings settings = groups_of(4);
  settings.min_group = 2;
  Keeper keeper(settings);
  keeper.tell(sample(a, 0));
  keeper.tell(sample(a, 2));
  keeper.tell(GroupClosed{a});
  EXPECT_EQ(names(keeper.ledger.ready()), Names{"'a'"});
  keeper.tell(sample(b, 0));
  keeper.tell(GroupClosed{b, true});
  EXPECT_EQ(names(keeper.ledger.ready()), Names{"'a'"});
  EXPECT_EQ(dropped(keeper.ledger, DropReason::too_small), 1);
}

TEST(Ledger, samples_for_a_closed_group_are_late_and_dropped) {
  StreamSettings settings = groups_of(3);
  settings.min_group = 1;
  Keeper keeper(settings);
  keeper.tell(sample(a, 0));
  keeper.tell(GroupClosed{a});
  keeper.tell(sample(a, 1));
  EXPECT_EQ(keeper.ledger.ready()[0].samples.size(), 1);
  keeper.form(0, 1);
  keeper.tell(sample(a, 2));
  EXPECT_EQ(dropped(keeper.ledger, DropReason::late), 2);
  EXPECT_TRUE(keeper.ledger.is_known({a, 1}));
  keeper.tell(StepTrained{0});
  EXPECT_EQ(keeper.ledger.status().trained.samples, 1);
}

TEST(Ledger, closing_an_unknown_group_changes_nothing) {
  Keeper keeper(groups_of(1));
  keeper.tell(GroupClosed{a});
  EXPECT_TRUE(keeper.events.empty());
  keeper.tell(sample(a, 0));
  EXPECT_EQ(names(keeper.ledger.ready()), Names{"'a'"});
}

TEST(Ledger, an_aborted_sample_leaves_the_others_of_its_group) {
  StreamSettings settings = groups_of(3);
  settings.min_group = 2;
  Keeper keeper(settings);
  keeper.tell(sample(a, 0));
  keeper.tell(sample(a, 1));
  keeper.tell(GroupAborted{a, 2, "timeout"});
  EXPECT_EQ(names(keeper.ledger.ready()), Names{"'a'"});
  keeper.tell(sample(a, 2));
  EXPECT_EQ(dropped(keeper.ledger, DropReason::aborted), 1);
  EXPECT_EQ(names(keeper.ledger.ready()), Names{"'a'"});
  keeper.tell(GroupAborted{a, 0, "wrong"});
  EXPECT_EQ(dropped(keeper.ledger, DropReason::too_small), 1);
  EXPECT_EQ(names(keeper.ledger.ready()), Names{});
}

TEST(Ledger, an_aborted_group_is_over_also_before_its_first_sample) {
  Keeper keeper(groups_of(2));
  keeper.tell(sample(a, 0));
  keeper.tell(GroupAborted{a, std::nullopt, "engine died"});
  keeper.tell(GroupAborted{b, std::nullopt, ""});
  EXPECT_EQ(dropped(keeper.ledger, DropReason::aborted), 1);
  keeper.tell(sample(a, 1));
  keeper.tell(sample(b, 0));
  EXPECT_EQ(dropped(keeper.ledger, DropReason::late), 2);
  EXPECT_EQ(keeper.ledger.status().open_groups, 0);
}

TEST(Ledger, a_group_in_a_step_cannot_be_aborted) {
  Keeper keeper(groups_of(1));
  keeper.tell(sample(a, 0));
  keeper.form(0, 1);
  keeper.tell(GroupAborted{a, std::nullopt, ""});
  keeper.tell(StepTrained{0});
  EXPECT_EQ(keeper.ledger.status().trained.samples, 1);
}

TEST(Ledger, drops_stale_samples_and_groups_that_become_too_small) {
  StreamSettings settings = groups_of(3);
  settings.max_staleness = 1;
  Keeper whole(settings);
  settings.min_group = 2;
  Keeper part(settings);
  for (Keeper* keeper : {&whole, &part}) {
    keeper->tell(sample(a, 0, 0));
    keeper->tell(sample(a, 1, 1));
    keeper->tell(sample(a, 2, 1));
    keeper->tell(VersionPublished{1});
    EXPECT_EQ(dropped(keeper->ledger, DropReason::stale), 0);
    keeper->tell(VersionPublished{2});
    EXPECT_EQ(dropped(keeper->ledger, DropReason::stale), 1);
  }
  EXPECT_EQ(dropped(whole.ledger, DropReason::too_small), 2);
  EXPECT_EQ(names(part.ledger.ready()), Names{"'a'"});
  part.tell(sample(b, 0, 0));
  EXPECT_EQ(dropped(part.ledger, DropReason::stale), 2) << "stale when it comes";
}

TEST(Ledger, keeps_stale_samples_if_they_are_masked) {
  StreamSettings settings = groups_of(1);
  settings.max_staleness = 0;
  settings.on_stale = OnStale::mask;
  Keeper keeper(settings);
  keeper.tell(sample(a, 0, 0));
  keeper.tell(VersionPublished{5});
  EXPECT_EQ(names(keeper.ledger.ready()), Names{"'a'"});
}

TEST(Ledger, a_formed_step_is_available_until_it_is_trained) {
  Keeper keeper(groups_of(1));
  for (const Uid& uid : {a, b, c}) keeper.tell(sample(uid, 0));
  keeper.form(7, 2);
  keeper.form(8, 1);
  const std::vector<FormedStep> formed = keeper.ledger.untrained_steps();
  ASSERT_EQ(formed.size(), 2);
  EXPECT_EQ(names(formed[0].groups), (Names{"'a'", "'b'"}));
  EXPECT_EQ(keeper.ledger.untrained_steps(8), std::vector<FormedStep>{formed[1]});
  EXPECT_EQ(keeper.restarted().untrained_steps(), formed);
  keeper.tell(StepTrained{7});
  EXPECT_EQ(keeper.ledger.untrained_steps(), std::vector<FormedStep>{formed[1]});
  EXPECT_EQ(keeper.ledger.status().bytes, 100 + keeper.ledger.status().seen_bytes);
}

TEST(Ledger, trained_means_all_steps_up_to_that_one) {
  Keeper keeper(groups_of(1));
  for (const Uid& uid : {a, b, c}) keeper.tell(sample(uid, 0));
  for (std::int64_t step = 0; step < 3; ++step) keeper.form(step, 1);
  keeper.tell(StepTrained{1});
  EXPECT_EQ(keeper.ledger.status().trained.samples, 2);
  keeper.tell(StepTrained{0});
  EXPECT_EQ(keeper.ledger.status().trained_step, 1);
  EXPECT_EQ(message_of([&] { keeper.tell(StepTrained{3}); }), "event 9: step 3 was trained but never formed");
}

TEST(Ledger, rejects_steps_that_do_not_follow_or_whose_groups_changed) {
  StreamSettings settings = groups_of(2);
  settings.min_group = 1;
  Keeper keeper(settings);
  const auto why = [&](const StepFormed& formed) { return message_of([&] { keeper.tell(formed); }); };
  keeper.tell(sample(a, 0));
  keeper.tell(sample(a, 1));
  keeper.tell(sample(b, 0));
  EXPECT_NE(why({0, 0, {{b, 1}}, {}, {}}).find("group 'b', which is not waiting for a step"),
            std::string::npos);
  EXPECT_NE(why({0, 0, {{a, 2}, {a, 2}}, {}, {}}).find("is not waiting"), std::string::npos);
  EXPECT_NE(why({0, 1, {{a, 2}}, {}, {}}).find("at version 1, but the current version is 0"),
            std::string::npos);
  keeper.tell(GroupAborted{a, 0, ""});
  EXPECT_NE(why({0, 0, {{a, 2}}, {}, {}}).find("2 samples for group 'a', which has 1"), std::string::npos);
  keeper.tell(StepFormed{0, 0, {{a, 1}}, {}, {}});
  keeper.tell(GroupClosed{b});
  EXPECT_NE(why({2, 0, {{b, 1}}, {}, {}}).find("step 2 was formed, but the next step is 1"),
            std::string::npos);
  EXPECT_NE(why({1, 0, {}, {}, {}}).find("step 1 has no groups"), std::string::npos);
  keeper.tell(StepTrained{0});
  EXPECT_NE(why({0, 0, {{b, 1}}, {}, {}}).find("step 0 was formed, but the next step is 1"),
            std::string::npos);
}

TEST(Ledger, a_group_leaves_a_formed_step_only_on_request) {
  Keeper keeper(groups_of(2));
  for (const Uid& uid : {a, b})
    for (const std::int64_t index : {0, 1}) keeper.tell(sample(uid, index));
  keeper.form(0, 2);
  keeper.tell(GroupAborted{a});
  EXPECT_EQ(keeper.ledger.step_of(a), 0) << "a late abort of a producer";
  keeper.tell(GroupAborted{a, std::nullopt, "it cannot be built", true});
  EXPECT_FALSE(keeper.ledger.step_of(a));
  for (const Ledger& ledger : {keeper.ledger, keeper.restarted()}) {
    EXPECT_EQ(names(ledger.untrained_steps().at(0).groups), std::vector<std::string>{"'b'"});
    EXPECT_EQ(dropped(ledger, DropReason::aborted), 2);
    EXPECT_EQ(ledger.status().received, sum_of(ledger.status()));
    EXPECT_TRUE(ledger.is_known({a, 1})) << "it is not taken again";
  }
  keeper.tell(StepTrained{0});
  EXPECT_EQ(keeper.ledger.status().trained.samples, 2);
  EXPECT_TRUE(keeper.ledger.is_known({a, 1}));
  EXPECT_EQ(keeper.restarted().status(), keeper.ledger.status());
}

TEST(Ledger, a_refused_event_changes_nothing) {
  Keeper keeper(groups_of(1));
  keeper.tell(sample(a, 0));
  const Status before = keeper.ledger.status();
  EXPECT_THROW(keeper.ledger.apply({1, sample(b, 0)}), InputError);
  EXPECT_THROW(keeper.ledger.apply({2, SamplesDropped{{1, 9}, DropReason::filtered}}), InputError);
  EXPECT_THROW(keeper.ledger.apply({2, SamplesDropped{{1, 1}, DropReason::filtered}}), InputError);
  EXPECT_THROW(keeper.ledger.apply({2, GroupAborted{a, 1, ""}}), InputError);
  EXPECT_EQ(keeper.ledger.status(), before);
  keeper.ledger.apply({2, SamplesDropped{{1}, DropReason::filtered}});
  EXPECT_EQ(keeper.ledger.status().waiting.samples, 0);
}

TEST(Ledger, reports_why_a_sample_is_refused) {
  Ledger ledger(groups_of(4));
  EXPECT_EQ(ledger.rejection_reason(sample(a, 3)), "");
  EXPECT_EQ(ledger.version_rejection_reason(99), "") << "no version was published yet";
  EXPECT_EQ(
      ledger.rejection_reason(sample(a, 4)),
      "has index 4, but a group has 4 samples, numbered from 0. Number the responses to a prompt from 0, "
      "or set the group size (--group-size, or stream.group_size) to the number of responses");
  EXPECT_EQ(ledger.rejection_reason(sample(a, -1)),
            "has index -1. Number the responses to a prompt, starting at 0");
  EXPECT_EQ(ledger.rejection_reason(sample(std::monostate{}, 0)), "has no uid. Send the uid of its group");
  EXPECT_EQ(ledger.rejection_reason(sample(Uid(""), 0)),
            "has an empty uid. Give all responses to one prompt the same non-empty uid");
  EXPECT_EQ(ledger.rejection_reason(sample(Uid(std::string(1024, 'u')), 0)), "");
  EXPECT_EQ(ledger.rejection_reason(sample(Uid(std::string(1025, 'u')), 0)),
            "has a uid of 1025 bytes, but at most 1024 are allowed. Give its group a shorter name");
  EXPECT_EQ(ledger.rejection_reason(sample(a, 0, -1)), "has version -1. Versions begin at 0");
  ledger.apply({1, VersionPublished{7}});
  EXPECT_EQ(ledger.version_rejection_reason(7), "");
  EXPECT_THAT(ledger.version_rejection_reason(8), HasSubstr("has version 8, but version 7 of the policy is"));
  ledger.apply({2, VersionPublished{5}});
  EXPECT_EQ(ledger.version_rejection_reason(7), "") << "a resumed job publishes a lower version";
  ledger.apply({3, StreamEnded{}});
  EXPECT_EQ(ledger.rejection_reason(sample(a, 0)),
            "comes after the end of the stream. Start a new buffer for another stream");
}

TEST(Ledger, the_end_closes_open_groups) {
  StreamSettings settings = groups_of(3);
  settings.min_group = 2;
  Keeper keeper(settings);
  keeper.tell(sample(a, 0));
  keeper.tell(sample(a, 1));
  keeper.tell(sample(b, 0));
  keeper.tell(StreamEnded{});
  EXPECT_EQ(names(keeper.ledger.ready()), Names{"'a'"});
  EXPECT_EQ(dropped(keeper.ledger, DropReason::too_small), 1);
  EXPECT_TRUE(keeper.ledger.status().ended);
}

TEST(Ledger, grants_tickets_for_groups_that_can_be_trained_before_they_are_stale) {
  StreamSettings settings = groups_of(1);
  settings.max_staleness = 1;
  Keeper keeper(settings);
  EXPECT_EQ(keeper.ledger.count_grantable_groups(2), 4) << "steps 0 and 1";
  keeper.tell(TicketsGranted{3});
  EXPECT_EQ(keeper.ledger.count_grantable_groups(2), 1);
  keeper.tell(sample(a, 0));
  keeper.tell(sample(b, 0));
  EXPECT_EQ(keeper.ledger.status().tickets, 1);
  EXPECT_EQ(keeper.ledger.count_grantable_groups(2), 1) << "their tickets are used, and they wait";
  keeper.form(0, 2);
  EXPECT_EQ(keeper.ledger.count_grantable_groups(2), 1) << "of this version's two steps, one is formed";
  keeper.tell(StepTrained{0});
  EXPECT_EQ(keeper.ledger.count_grantable_groups(2), 1);
  keeper.tell(VersionPublished{1});
  EXPECT_EQ(keeper.ledger.count_grantable_groups(2), 3);
  keeper.tell(TicketsExpired{-1, 1});
  EXPECT_EQ(keeper.ledger.count_grantable_groups(2), 4);
}

TEST(Ledger, tickets_expire_at_their_deadline_or_with_their_version_and_are_counted) {
  StreamSettings settings = groups_of(1);
  settings.max_staleness = 1;
  Keeper keeper(settings);
  keeper.tell(TicketsGranted{2, 100, 700, "first", ""});
  keeper.tell(TicketsGranted{1, 150, 750, "second", ""});
  EXPECT_EQ(keeper.ledger.next_ticket_deadline(), 700);
  keeper.tell(TicketsExpired{699, 0});
  EXPECT_EQ(keeper.ledger.status().tickets, 3);
  keeper.tell(TicketsExpired{700, 0});
  EXPECT_EQ(keeper.ledger.status().tickets, 1);
  EXPECT_EQ(keeper.ledger.status().oldest_tickets->holder, "second");
  keeper.tell(VersionPublished{2});
  EXPECT_TRUE(keeper.ledger.versions_of_expected_groups().empty()) << "its group would be stale";
  keeper.tell(TicketsExpired{700, 1});
  EXPECT_EQ(keeper.restarted().status().expired_tickets, 3);
  EXPECT_EQ(keeper.ledger.next_ticket_deadline(), std::nullopt);
  EXPECT_EQ(keeper.ledger.count_grantable_groups(2), 4);
}

TEST(Ledger, a_group_uses_a_ticket_of_its_holder_or_the_oldest) {
  StreamSettings settings = groups_of(1);
  settings.max_staleness = 9;
  Keeper keeper(settings);
  keeper.tell(TicketsGranted{1, 100, 700, "dead", ""});
  keeper.tell(TicketsGranted{2, 200, 800, "alive", ""});
  SampleAccepted of_alive = sample(a, 0);
  of_alive.holder = "alive";
  keeper.tell(of_alive);
  EXPECT_EQ(keeper.ledger.status().tickets, 2);
  EXPECT_EQ(keeper.ledger.status().oldest_tickets->holder, "dead");
  keeper.tell(sample(b, 0));
  EXPECT_EQ(keeper.ledger.status().oldest_tickets->holder, "alive");
}

TEST(Ledger, a_group_uses_one_ticket_even_if_its_first_samples_were_dropped) {
  StreamSettings settings = groups_of(100);
  settings.max_staleness = 9;
  Keeper keeper(settings);
  keeper.tell(TicketsGranted{2, 100, 700, "", ""});
  const std::int64_t first = keeper.tell(sample(a, 70));
  keeper.tell(SamplesDropped{{first}, DropReason::filtered});
  EXPECT_TRUE(keeper.ledger.knows_group(a));
  keeper.tell(sample(a, 71));
  EXPECT_EQ(keeper.ledger.status().tickets, 1);
  EXPECT_EQ(keeper.restarted().status().tickets, 1);
}

TEST(Ledger, recognizes_a_repeated_request_while_any_of_its_tickets_is_open) {
  StreamSettings settings = groups_of(1);
  settings.max_staleness = 9;
  Keeper keeper(settings);
  keeper.tell(TicketsGranted{2, 100, 700, "worker", "request 1"});
  keeper.tell(TicketsGranted{3, 100, 700, "", ""});
  ASSERT_NE(keeper.ledger.find_earlier_grant("worker", "request 1"), nullptr);
  SampleAccepted of_worker = sample(a, 0);
  of_worker.holder = "worker";
  keeper.tell(of_worker);
  EXPECT_EQ(keeper.ledger.find_earlier_grant("worker", "request 1")->granted_groups, 2);
  EXPECT_EQ(keeper.ledger.find_earlier_grant("other", "request 1"), nullptr);
  EXPECT_EQ(keeper.ledger.find_earlier_grant("", ""), nullptr) << "which has no identity";
}

TEST(Ledger, does_not_limit_tickets_unless_stale_groups_are_to_be_avoided) {
  StreamSettings settings = groups_of(1);
  EXPECT_EQ(Ledger(settings).count_grantable_groups(2), std::numeric_limits<std::int64_t>::max());
  settings.max_staleness = 1;
  settings.on_stale = OnStale::drop;
  EXPECT_EQ(Ledger(settings).count_grantable_groups(2), std::numeric_limits<std::int64_t>::max());
}

TEST(Ledger, grants_no_more_tickets_than_fit_in_a_reply_and_a_record) {
  StreamSettings settings = groups_of(1);
  settings.max_staleness = std::int64_t{1} << 30;
  Keeper keeper(settings);
  EXPECT_EQ(keeper.ledger.count_grantable_groups(1'000'000), max_tickets);
  keeper.tell(TicketsGranted{max_tickets - 5});
  EXPECT_EQ(keeper.ledger.count_grantable_groups(1'000'000), 5);
  Keeper many(settings);
  for (std::int64_t i = 0; i < max_grants; ++i) many.tell(TicketsGranted{1});
  EXPECT_EQ(many.ledger.count_grantable_groups(1'000'000), 0);
}

TEST(Ledger, unlimited_tickets_are_not_awaited) {
  for (const OnStale on_stale : {OnStale::drop, OnStale::mask}) {
    StreamSettings settings = groups_of(1);
    settings.max_staleness = 1;
    settings.on_stale = on_stale;
    Keeper keeper(settings);
    keeper.tell(TicketsGranted{3});
    EXPECT_TRUE(keeper.ledger.versions_of_expected_groups().empty());
  }
}

TEST(Ledger, expects_a_group_with_stale_samples_like_a_new_one) {
  StreamSettings settings = groups_of(3);
  settings.max_staleness = 1;
  settings.on_stale = OnStale::mask;
  Keeper keeper(settings);
  keeper.tell(sample(1, 0, 0));
  keeper.tell(VersionPublished{5});
  EXPECT_EQ(keeper.ledger.versions_of_expected_groups(), std::vector<std::int64_t>{5});
  keeper.tell(sample(1, 1, 4));
  EXPECT_EQ(keeper.ledger.versions_of_expected_groups(), std::vector<std::int64_t>{4});
}

TEST(Ledger, counts_samples_by_versions_behind_in_a_bounded_list) {
  Keeper keeper(groups_of(1));
  for (std::int64_t i = 0; i < 100; ++i) keeper.tell(sample(i, 0, 1'700'000'000'000'000'000 + i * 1'000'000));
  keeper.tell(VersionPublished{1'700'000'000'000'000'003});
  keeper.tell(sample(a, 0, 1'700'000'000'000'000'001));
  keeper.tell(sample(b, 0, 0));
  keeper.form(0, 102);
  EXPECT_EQ(keeper.ledger.status().staleness,
            (std::map<std::int64_t, std::int64_t>{{0, 99}, {2, 1}, {3, 1}, {max_behind, 1}}));
}

TEST(Ledger, rejects_stored_events_that_no_ledger_has_written) {
  Totals totals;
  totals.last_event = 9;
  Ledger ledger(groups_of(2), totals, {});
  const auto why = [&](std::int64_t number, Event::What what) {
    return message_of([&] { static_cast<void>(ledger.apply({number, std::move(what)})); });
  };
  EXPECT_THAT(why(1, StepFormed{0, 0, {{a, 2}}, {}, {}}), HasSubstr("'a', which is not waiting for a step"));
  EXPECT_THAT(why(1, sample(a, -1)), HasSubstr("a sample of 'a' has a negative number"));
  ledger.apply({1, sample(a, 0)});
  ledger.apply({2, sample(a, 1)});
  ledger.apply({3, StepFormed{0, 0, {{a, 2}}, {}, {}}});
  EXPECT_THAT(why(4, StepFormed{1, 0, {{a, 2}}, {}, {}}), HasSubstr("'a', which is not waiting for a step"));
}

TEST(StreamSettings, names_the_key_that_is_out_of_range) {
  const auto why = [](auto change) {
    StreamSettings settings = groups_of(4);
    change(settings);
    return message_of([&] { Ledger{settings}; });
  };
  EXPECT_EQ(why([](auto& s) { s.group_size = 0; }), "stream.group_size: is 0; it must be from 1 to 4096");
  EXPECT_EQ(why([](auto& s) { s.min_group = 5; }),
            "stream.min_group: is 5, above the group size, which is 4. Lower it, or raise the group size");
  EXPECT_EQ(why([](auto& s) { s.look_ahead = -1; }), "stream.look_ahead: is -1; it must be from 0 to 64");
  EXPECT_EQ(why([](auto& s) { s.deadline = std::numeric_limits<double>::quiet_NaN(); }),
            "stream.deadline: is nan; it must be from 0 to 31622400 seconds");
}

}  // namespace
}  // namespace evenkeel::stream
