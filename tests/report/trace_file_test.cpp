#include "report/step_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;
using testing_support::read_text;
using testing_support::ScratchFolder;

const Grid two_ranks({1, 1, 2, 1}, {});

RankTrace rank_at(double made_at) {
  RankTrace rank;
  rank.made_at = made_at;
  rank.phases = {0.5, 0.25, 0, 0, 1, 0.125};
  rank.made_ahead = 1;
  rank.asked_at = made_at - 0.5;
  rank.handed_at = made_at + 0.5;
  rank.used_at = made_at + 2;
  return rank;
}

std::vector<json> of_kind(const json& trace, const std::string& kind) {
  std::vector<json> found;
  for (const json& event : trace) {
    if (event.at("ph") == kind) found.push_back(event);
  }
  return found;
}

TEST(TraceFile, has_phases_that_follow_each_other_up_to_when_the_step_was_made) {
  const ScratchFolder scratch;
  TraceFile file(scratch / "trace.json", two_ranks);
  file.add(7, "update", std::vector{rank_at(10), rank_at(20)});
  file.close();
  const std::vector<json> slices = of_kind(json::parse(read_text(scratch / "trace.json")), "X");
  ASSERT_EQ(slices.size(), 2 * 6U);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 6; ++i) names.push_back(slices[i].at("name"));
  EXPECT_THAT(names, testing::ElementsAre("wait", "use", "read", "gather", "exchange", "pack"));
  EXPECT_DOUBLE_EQ(slices[2].at("ts").get<double>(), (10 - 1.875) * 1e6);
  EXPECT_DOUBLE_EQ(slices[5].at("ts").get<double>() + slices[5].at("dur").get<double>(), 10e6);
  EXPECT_EQ(slices[5].at("args"), (json{{"step", 7}, {"profile", "update"}}));
  EXPECT_NE(slices[2].at("tid"), slices[0].at("tid"));
}

TEST(TraceFile, shows_steps_that_were_not_made_ahead_inside_the_wait_for_them) {
  const ScratchFolder scratch;
  TraceFile file(scratch / "trace.json", two_ranks);
  RankTrace rank = rank_at(10);
  rank.made_ahead = 0;
  file.add(0, "", std::vector{rank, rank});
  file.close();
  for (const json& slice : of_kind(json::parse(read_text(scratch / "trace.json")), "X"))
    EXPECT_EQ(slice.at("tid"), 2);
}

TEST(TraceFile, draws_arrows_between_exchanges) {
  const ScratchFolder scratch;
  TraceFile file(scratch / "trace.json", two_ranks);
  std::vector ranks{rank_at(10), rank_at(10.25)};
  ranks[1].sent[0] = {0, 4096};
  ranks[1].sent_to = 20;
  file.add(0, "", ranks);
  file.close();
  const json trace = json::parse(read_text(scratch / "trace.json"));
  const json begin = of_kind(trace, "s").at(0);
  const json end = of_kind(trace, "f").at(0);
  EXPECT_EQ(begin.at("id"), end.at("id"));
  EXPECT_EQ(begin.at("pid"), 1);
  EXPECT_EQ(end.at("pid"), 0);
  EXPECT_EQ(end.at("args").at("bytes"), 4096);
  EXPECT_LE(begin.at("ts"), end.at("ts"));
  const auto is_inside = [&](const json& point) {
    for (const json& slice : of_kind(trace, "X")) {
      if (slice.at("name") != "exchange" || slice.at("pid") != point.at("pid")) continue;
      return slice.at("ts") <= point.at("ts") &&
             point.at("ts") <= slice.at("ts").get<double>() + slice.at("dur").get<double>();
    }
    return false;
  };
  EXPECT_TRUE(is_inside(begin));
  EXPECT_TRUE(is_inside(end));
  for (const json& slice : of_kind(trace, "X")) {
    if (slice.at("name") == "exchange" && slice.at("pid") == 1) {
      EXPECT_EQ(slice.at("args").at("flows_left_out"), 4);
    }
  }
}

TEST(TraceFile, truncated_lacks_only_its_end) {
  const ScratchFolder scratch;
  TraceFile file(scratch / "trace.json", two_ranks);
  file.add(0, "", std::vector{rank_at(1), rank_at(1)});
  std::string text = read_text(scratch / "trace.json");
  EXPECT_EQ(text.substr(text.size() - 2), ",\n");
  text.replace(text.size() - 2, 2, "]");
  EXPECT_TRUE(json::accept(text));
}

}  // namespace
}  // namespace evenkeel
