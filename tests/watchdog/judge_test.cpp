#include "watchdog/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Verdict::Kind;

constexpr double patience = 45;

// Returns the state of a rank whose messages were received.
RankState heard(double silent, double still) {
  RankState state;
  state.was_heard = true;
  state.silent_seconds = silent;
  state.stalled_seconds = still;
  return state;
}
RankState waiting(double still) {
  RankState state = heard(1, still);
  state.waits = true;
  return state;
}
RankState away(double still) {
  RankState state = heard(1, still);
  state.is_busy = true;
  return state;
}
RankState silent(double seconds) {
  RankState state = heard(seconds, seconds);
  state.waits = true;
  return state;
}
RankState ended() {
  RankState state = heard(1000, 1000);
  state.has_ended = true;
  return state;
}
RankState ending(double still) {
  RankState state = waiting(still);
  state.is_ending = true;
  return state;
}
RankState awaiting_producers(double still) {
  RankState state = heard(1, still);
  state.awaits_producers = true;
  return state;
}
const RankState never_heard{};

struct Case {
  std::string name;
  std::vector<RankState> ranks;
  Kind kind;
  std::vector<int> blamed;

  friend void PrintTo(const Case& given, std::ostream* out) { *out << given.name; }
};

class VerdictOf : public testing::TestWithParam<Case> {};

TEST_P(VerdictOf, matches_the_table) {
  const Case& given = GetParam();
  EXPECT_EQ(judge(given.ranks, patience), (Verdict{given.kind, given.blamed}));
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, VerdictOf,
    testing::Values(
        Case{"all_work", {away(1), away(2)}, Kind::healthy, {}},
        Case{"all_wait_for_a_moment", {waiting(1), waiting(2)}, Kind::healthy, {}},
        Case{"one_works_while_all_others_wait_for_an_hour", {waiting(3600), away(1)}, Kind::healthy, {}},
        Case{"one_gets_on_inside_a_long_exchange", {waiting(3600), waiting(1)}, Kind::healthy, {}},
        Case{"all_sleep_and_nobody_waits", {away(3600), away(3600)}, Kind::healthy, {}},
        Case{"one_never_comes", {waiting(50), away(50), waiting(50)}, Kind::absent, {1}},
        Case{"two_never_come", {away(50), waiting(50), away(50)}, Kind::absent, {0, 2}},
        Case{"one_has_ended_while_others_wait", {waiting(50), waiting(50), ended()}, Kind::absent, {2}},
        Case{"the_others_have_just_begun_to_wait", {waiting(44), away(50)}, Kind::healthy, {}},
        Case{"all_wait_in_different_calls", {waiting(50), waiting(50)}, Kind::crossed, {}},
        Case{
            "one_sleeps_while_all_others_wait_to_end", {ending(50), away(50), ending(50)}, Kind::absent, {1}},
        Case{"one_works_while_all_others_wait_to_end", {ending(50), away(1)}, Kind::healthy, {}},
        Case{"one_ends_for_whom_others_wait", {waiting(50), ending(50)}, Kind::absent, {1}},
        Case{"all_wait_to_end", {ending(50), ending(50)}, Kind::crossed, {}},
        Case{
            "all_wait_to_end_but_one_that_nobody_watches_any_more", {ending(50), ended()}, Kind::healthy, {}},
        Case{"all_end", {ending(2), ending(1), ended()}, Kind::healthy, {}},
        Case{"one_is_stopped", {waiting(2), silent(50), waiting(2)}, Kind::silent, {1}},
        Case{"one_is_stopped_while_the_others_work", {away(0), silent(50)}, Kind::silent, {1}},
        Case{"a_node_is_cut_off", {waiting(50), silent(50), silent(50)}, Kind::silent, {1, 2}},
        Case{"a_node_is_cut_off_whose_ranks_were_last_heard_one_after_the_other",
             {waiting(50), silent(44), silent(46), silent(23)},
             Kind::silent,
             {1, 2, 3}},
        Case{"one_is_stopped_and_another_is_late_for_a_moment", {silent(22), silent(50)}, Kind::silent, {1}},
        Case{"one_is_silent_for_a_moment", {waiting(50), silent(44)}, Kind::healthy, {}},
        Case{"all_have_ended", {ended(), ended()}, Kind::healthy, {}},
        Case{"one_ended_and_the_other_works", {ended(), away(50)}, Kind::healthy, {}},
        Case{"one_waits_for_producers_and_all_others_for_it",
             {waiting(3600), awaiting_producers(3600)},
             Kind::healthy,
             {}},
        Case{"one_is_stopped_while_another_waits_for_producers",
             {silent(50), awaiting_producers(50)},
             Kind::silent,
             {0}},
        Case{"one_was_never_heard_and_may_be_well", {waiting(50), never_heard}, Kind::healthy, {}},
        Case{"one_is_stopped_and_another_was_never_heard", {silent(50), never_heard}, Kind::silent, {0}}),
    [](const auto& given) { return given.param.name; });

class VerdictOfAMeeting : public testing::TestWithParam<Case> {};

TEST_P(VerdictOfAMeeting, matches_the_table) {
  const Case& given = GetParam();
  EXPECT_EQ(judge(given.ranks, patience, Unheard::has_not_arrived), (Verdict{given.kind, given.blamed}));
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, VerdictOfAMeeting,
    testing::Values(
        Case{"one_has_not_come", {waiting(50), never_heard, waiting(50)}, Kind::missing, {1}},
        Case{"one_has_not_come_and_another_gets_on",
             {waiting(50), never_heard, waiting(1)},
             Kind::healthy,
             {}},
        Case{"one_has_not_come_for_whom_nobody_waits", {away(50), never_heard}, Kind::healthy, {}},
        Case{"one_has_not_come_yet", {waiting(44), never_heard}, Kind::healthy, {}},
        Case{"one_has_come_and_is_stopped", {waiting(50), silent(50), never_heard}, Kind::silent, {1}},
        Case{"all_have_come_and_one_stays_away", {waiting(50), away(50)}, Kind::absent, {1}},
        Case{"all_have_come", {waiting(1), waiting(1)}, Kind::healthy, {}}),
    [](const auto& given) { return given.param.name; });

TEST(Verdict, ranks_that_were_never_heard_are_known) {
  EXPECT_THAT(unheard_ranks(std::vector{never_heard, waiting(1), ended(), never_heard}), ElementsAre(0, 3));
}

TEST(Verdict, ranks_are_named_in_ranges) {
  EXPECT_EQ(format_ranks(std::vector{3}), "rank 3");
  EXPECT_EQ(format_ranks(std::vector{3, 4}), "ranks 3, 4");
  EXPECT_EQ(format_ranks(std::vector{0, 1, 2, 5, 7, 8, 9}), "ranks 0-2, 5, 7-9");
}

RankState watched(int rank, const std::string& host, const WatchedThread& thread) {
  RankState state = heard(50, 51);
  state.rank = rank;
  state.host = host;
  state.threads = {thread};
  return state;
}

const std::vector<RankState> four{watched(0, "n1", {"gather lengths", 3, "other ranks in MPI_Allreduce"}),
                                  watched(1, "n1", {"gather lengths", 3, "other ranks in MPI_Allreduce"}),
                                  watched(2, "n2", {"read samples", 3, ""}),
                                  watched(3, "n2", {"gather lengths", 3, "other ranks in MPI_Allreduce"})};

TEST(Message, of_a_silent_rank_names_rank_host_phase_and_cause) {
  EXPECT_EQ(
      message_of({Kind::silent, {2}}, four, 60),
      "rank 2 (host n2) has sent no heartbeat for 50.0 seconds; its last activity: read samples of step 3. "
      "Its process has crashed or is suspended, or its machine or network link is down. Aborting the "
      "job, to end it within the time limit of the watchdog, 60 s");
}

TEST(Message, of_an_absent_rank_says_what_it_does_instead) {
  EXPECT_EQ(
      message_of({Kind::absent, {2}}, four, 60),
      "no progress for 51.0 seconds while others wait for rank 2 (host n2); its last activity: read samples "
      "of step 3. Aborting the job, to end it within the time limit of the watchdog, 60 s");
}

TEST(Message, of_ranks_that_have_not_arrived_names_the_meeting) {
  std::vector<RankState> ranks = four;
  ranks[2] = never_heard;
  EXPECT_EQ(message_of({Kind::missing, {2}}, ranks, 60),
            "rank 2 has not joined the watchdogs of the other ranks, which have waited for 51.0 seconds. "
            "Its process has crashed, is suspended or has not started its watchdog, or its machine or "
            "network link is down. Aborting the "
            "job, to end it within the time limit of the watchdog, 60 s");
  ranks[3] = never_heard;
  ranks[3].host = "n2";
  EXPECT_THAT(message_of({Kind::missing, {2, 3}}, ranks, 60),
              AllOf(HasSubstr("ranks 2, 3 (host n2) have not joined"),
                    HasSubstr("At least one process has crashed")));
}

TEST(Message, of_a_rank_that_knows_no_other_says_what_it_waits_for) {
  EXPECT_EQ(
      message_of_waiting(watched(5, "n1", {"ranks meet", -1, "other ranks in MPI_Allreduce"}), 60),
      "rank 5 (host n1) has made no progress for 51.0 seconds. Last activity: ranks meet, waiting for other "
      "ranks in MPI_Allreduce. Another rank is not responding, but the watchdogs have not connected yet, so "
      "it cannot be identified; check that every rank is running. Aborting the job, to end it within "
      "the time limit of the watchdog, 60 s");
}

TEST(Message, of_several_ranks_names_their_hosts_once) {
  EXPECT_THAT(
      message_of({Kind::silent, {0, 2, 3}}, four, 60),
      AllOf(HasSubstr("ranks 0, 2, 3 (hosts n1, n2) have"), HasSubstr("last activity of the first rank: ")));
}

TEST(Message, of_ranks_in_different_calls_blames_none) {
  EXPECT_THAT(message_of({Kind::crossed, {}}, four, 60), HasSubstr("all ranks wait for each other"));
}

TEST(Report, has_one_line_for_equal_ranks) {
  const std::string text = WatchdogReport{"why", {four.begin(), four.end()}}.text();
  EXPECT_EQ(text,
            "why\n"
            "rank  host  step  phase           waits for                     heard s ago  moved s ago\n"
            "0, 1  n1       3  gather lengths  other ranks in MPI_Allreduce         50.0         51.0\n"
            "2     n2       3  read samples                                         50.0         51.0\n"
            "3     n2       3  gather lengths  other ranks in MPI_Allreduce         50.0         51.0");
}

std::string sign(std::uint64_t progress, const char* phase, const char* wait, WaitFor whom) {
  std::array<ThreadActivity, max_reported_threads> threads{};
  threads[0] = {phase, 4, wait, whom};
  return format_heartbeat(progress, "n1", threads);
}

TEST(RankState, silence_counts_from_the_last_sign_and_stillness_from_the_last_progress) {
  RankState state;
  state.record_heartbeat(sign(7, "plan", nullptr, WaitFor::nobody), 1);
  state.record_heartbeat(sign(8, "plan", nullptr, WaitFor::nobody), 2);
  state.record_heartbeat(sign(8, "plan", nullptr, WaitFor::nobody), 5);
  state.update_times(9);
  EXPECT_TRUE(state.was_heard);
  EXPECT_EQ(state.silent_seconds, 4);
  EXPECT_EQ(state.stalled_seconds, 7);
}

TEST(RankState, distinguishes_waiting_from_absent_ranks) {
  RankState waits;
  RankState works;
  RankState idles;
  waits.record_heartbeat(sign(1, "plan", "MPI_Bcast", WaitFor::ranks), 0);
  works.record_heartbeat(sign(1, "plan", nullptr, WaitFor::nobody), 0);
  idles.record_heartbeat(sign(1, "make steps ahead", "room for a step", WaitFor::trainer), 0);
  EXPECT_TRUE(waits.waits && !waits.is_busy);
  EXPECT_TRUE(!works.waits && works.is_busy);
  EXPECT_TRUE(!idles.waits && !idles.is_busy);
}

TEST(RankState, has_the_host_and_the_threads_of_the_sign) {
  std::array<ThreadActivity, max_reported_threads> threads{};
  threads[0] = {"its own code", no_step, nullptr, WaitFor::nobody};
  threads[2] = {"plan", 4, "MPI_Bcast", WaitFor::ranks};
  threads[5] = {"take a step", no_step, "its thread that makes steps", WaitFor::thread};
  RankState state;
  state.record_heartbeat(format_heartbeat(3, "n1", threads), 0);
  EXPECT_EQ(state.host, "n1");
  EXPECT_THAT(state.threads, ElementsAre(WatchedThread{"its own code", -1, ""},
                                         WatchedThread{"plan", 4, "other ranks in MPI_Bcast"},
                                         WatchedThread{"take a step", -1, "its thread that makes steps"}));
}

TEST(EndingTheProcess, prints_to_standard_error_and_exits_with_1) {
  const WatchdogSettings settings = default_watchdog_settings(7);
  EXPECT_EQ(settings.seconds, 7);
  const auto end = [&] {
    settings.report({"rank 1 is gone", {}});
    settings.terminate({});
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(1), "evenkeel: error: rank 1 is gone\n");
}

}  // namespace
}  // namespace evenkeel
