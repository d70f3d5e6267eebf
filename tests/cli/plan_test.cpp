#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

#ifndef __SANITIZE_ADDRESS__  // which takes more address space than any limit leaves
TEST(PlanOfARun, counts_the_work_of_an_encoder_by_a_column_of_its_field) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length,patches\n5,9\n5,9\n5,1\n5,1\n");
  const auto plan = [&](const std::string& field, const std::string& option) {
    return run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string() + option +
                        " --set mesh.dp=2 --set 'balance.cost={model: tokens, encoder: {field: " + field +
                        ", linear: 4}}' --json " + (scratch / "plan.json").string());
  };
  const ProgramResult result = plan("patches", "");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("encoder, DP ranks +1\\.8000 +1\\.0000"));
  const nlohmann::json told = nlohmann::json::parse(read_text(scratch / "plan.json"));
  EXPECT_EQ(told.at("encoder").at("dp_max_over_mean_before"), 1.8);
  EXPECT_EQ(told.at("encoder").at("dp_max_over_mean"), 1);
  EXPECT_THAT(plan("frames", "").err,
              HasSubstr("has no column or key 'frames', which balance.cost requires"));
  const ProgramResult compared = plan("patches", " --compare");
  EXPECT_EQ(compared.status, 2);
  EXPECT_THAT(compared.err,
              HasSubstr("balance.cost: counts the work of an encoder by the rows of 'patches'"));
}

TEST(PlanOfARun, warns_if_a_run_depends_on_the_owners_of_samples) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n6\n7\n8\n");
  const auto warnings = [&](const std::string& settings) {
    return run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string() + " --set mesh.dp=2 " +
                        settings)
        .err;
  };
  const std::string drawn = "--set micro_batch.mode=fixed --set micro_batch.shuffle=true ";
  EXPECT_THAT(warnings(drawn),
              HasSubstr("warning: micro_batch.shuffle depends on how DP ranks are numbered"));
  EXPECT_EQ(warnings(drawn + "--set balance.placement=none"), "");
  EXPECT_EQ(warnings("--set micro_batch.mode=fixed"), "");
}

TEST(PlanCommandLimits, lack_of_memory_is_one_sentence) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n6\n");
  // Less address space than a plan for this many ranks needs.
  const ProgramResult result =
      run_command("ulimit -v 200000; " EVENKEEL_PROGRAM " plan --ranks 1048576 --lengths " +
                  (scratch / "lengths.csv").string());
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("evenkeel: error: out of memory"), Not(HasSubstr("bad_alloc"))));
}
#endif

/// One group of two samples per line; each step of 4 groups has one long sample.
std::string arrivals_with_long_samples() {
  std::string rows = "arrival,uid,version,response_length,prompt_length\n";
  for (int group = 0; group < 24; ++group) {
    const std::string length = group % 4 == 1 ? "4000" : "100";
    const std::string row = "g" + std::to_string(group) + "," + std::to_string(group / 8) + ",";
    rows += std::to_string(group) + "," + row + length + ",10\n";
    rows += std::to_string(group) + "," + row + "100,10\n";
  }
  return rows;
}

TEST(PlanArrivals, forms_steps_that_end_earlier_than_first_come_first_served) {
  const ScratchFolder scratch;
  write_text(scratch / "trace.csv", arrivals_with_long_samples());
  const ProgramResult result = run_evenkeel("plan --arrivals " + (scratch / "trace.csv").string() +
                                            " --group-size 2 --look-ahead 2 --set batch.global_batch=8"
                                            " --set mesh.dp=2 --json " +
                                            (scratch / "steps.json").string());
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("48 samples in steps of 4 groups of 2 on 2 DP ranks"));
  const nlohmann::json ways = nlohmann::json::parse(read_text(scratch / "steps.json"));
  ASSERT_EQ(ways.size(), 2);
  EXPECT_EQ(ways.at(0).at("look_ahead"), 0);
  EXPECT_EQ(ways.at(0).at("steps").at(0).at("groups"), nlohmann::json({"g0", "g1", "g2", "g3"}));
  EXPECT_LT(ways.at(1).at("time"), ways.at(0).at("time"));
  for (const auto& way : ways) {
    std::set<std::string> groups;
    for (const auto& step : way.at("steps"))
      for (const auto& uid : step.at("groups")) EXPECT_TRUE(groups.insert(uid).second);
    EXPECT_EQ(groups.size(), 24);
    EXPECT_LE(way.at("time_at_once"), way.at("time"));
  }
}

TEST(PlanArrivals, counts_duplicates_and_dropped_samples) {
  const ScratchFolder scratch;
  write_text(scratch / "trace.jsonl", R"({"uid": 1, "index": 0, "length": 5, "version": 0}
{"uid": 1, "index": 0, "length": 7, "version": 0}
{"uid": 1, "index": 1, "length": 5, "version": 0}
{"uid": 2, "index": 1, "length": 5, "version": 0}
)");
  const std::string words = "plan --arrivals " + (scratch / "trace.jsonl").string() +
                            " --group-size 2 --set batch.global_batch=2 --set mesh.dp=1 --json " +
                            (scratch / "steps.json").string();
  ASSERT_EQ(run_evenkeel(words).status, 0);
  const nlohmann::json way = nlohmann::json::parse(read_text(scratch / "steps.json")).at(0);
  EXPECT_EQ(way.at("duplicates"), 1);
  EXPECT_EQ(way.at("dropped"), 1) << "half of a group";
  EXPECT_EQ(way.at("steps").size(), 1);
}

TEST(PlanArrivals, reports_missing_columns_of_a_trace) {
  const ScratchFolder scratch;
  const auto why = [&](const std::string& text, const std::string& words) {
    write_text(scratch / "trace.csv", text);
    return run_evenkeel("plan --set mesh.dp=1 --arrivals " + (scratch / "trace.csv").string() + words).err;
  };
  EXPECT_THAT(why("length\n5\n", ""), HasSubstr("has no uid for sample 0"));
  EXPECT_THAT(why("uid,length\na,5\n", " --max-staleness 1"), HasSubstr("has no column or key 'version'"));
  EXPECT_THAT(why("uid,length,version\na,5,x\n", ""),
              HasSubstr("trace.csv:2: version is 'x'; it must be an integer from 0 to 2^62"));
  EXPECT_THAT(why("uid,length\na,5\n", " --group-size 3"), HasSubstr("is not a multiple of 3"));
  EXPECT_THAT(why("uid,length\na,5\na,5\n", " --group-size 1"),
              HasSubstr("group 'a': has a sample with index 1, but groups of 1 end at index 0"));
  EXPECT_THAT(why("uid,length\na,5\n", " --compare"), HasSubstr("--json writes the steps"));
}

TEST(PlanPage, shows_a_plan_or_with_a_comparison_the_plans_of_all_ways) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n6\n7\n");
  const std::string page = (scratch / "plan.html").string();
  const std::string plan =
      "plan --ranks 2 --lengths " + (scratch / "lengths.csv").string() + " --html " + page;
  ASSERT_EQ(run_evenkeel(plan).status, 0);
  EXPECT_THAT(read_text(page), HasSubstr("\"kind\":\"plan\""));
  EXPECT_THAT(read_text(page), HasSubstr("<title>Plan of a step: " + (scratch / "lengths.csv").string()));
  const ProgramResult compared = run_evenkeel(plan + " --compare");
  ASSERT_EQ(compared.status, 0) << compared.err;
  for (const char* text : {"\"kind\":\"comparison\"", "\"name\":\"preset verl\"", "\"name\":\"grid, work\"",
                           "\"way\":\"cp flexible\""})
    EXPECT_THAT(read_text(page), HasSubstr(text));
}

TEST(PlanComparison, needs_the_number_of_ranks) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "5\n6\n7\n");
  const std::string plan = "plan --compare --lengths " + (scratch / "lengths.csv").string();
  const ProgramResult refused = run_evenkeel(plan);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("Give --ranks COUNT or --set mesh.dp=COUNT"));
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(run_evenkeel(plan + " --ranks 2 --set micro_batch.max_tokens=1k").out,
              testing::StartsWith(
                  "3 samples, 18 tokens on 2 DP ranks, at most 1,024 tokens per micro-batch; cost = "));
}

TEST(PlanPipeline, shows_the_end_and_the_bubble) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n" + std::string("6\n6\n6\n6\n6\n6\n"));
  const std::string json = (scratch / "plan.json").string();
  const auto plan = [&](const std::string& settings) {
    return run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string() + " --json " + json +
                        " --set micro_batch.max_tokens=6 " + settings);
  };
  const auto written = [&] { return nlohmann::json::parse(read_text(json)); };
  // Three micro-batches of 6 on each DP rank: with two stages, they take as long as four.
  const ProgramResult two_stages = plan("--set mesh.dp=2 --set mesh.pp=2 --set micro_batch.order=schedule");
  ASSERT_EQ(two_stages.status, 0) << two_stages.err;
  EXPECT_THAT(two_stages.out, HasSubstr("simulated pipeline of 2 stages: ends at 12, 25.00 % bubble"));
  const nlohmann::json expected = {{"stages", 2}, {"chunks", 1}, {"end", 12}, {"bubble", 0.25}};
  EXPECT_EQ(written().at("pipeline"), expected);

  const std::string waves =
      "--set mesh.dp=2 --set mesh.cp=flexible --set balance.strategy=grid "
      "--set micro_batch.max_tokens=auto --set micro_batch.max_tokens_per_rank=6 ";
  EXPECT_THAT(plan(waves + "--set mesh.pp=2").out, HasSubstr("simulated pipeline of 2 stages: ends at "));
  EXPECT_EQ(written().at("pipeline").at("stages"), 2);

  EXPECT_THAT(plan("--set mesh.dp=2").out, Not(HasSubstr("pipeline")));
  EXPECT_FALSE(written().contains("pipeline"));
}

TEST(PlanPipeline, is_compared_with_presets_that_have_their_own_orders) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n6\n7\n");
  const ProgramResult result = run_evenkeel(
      "plan --compare --set mesh.dp=2 --set mesh.pp=2 --set micro_batch.order=schedule --lengths " +
      (scratch / "lengths.csv").string());
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("preset verl"));
}

// A sample that needs both ranks takes twice as long as on two fast ranks, no matter how it is planned.
TEST(PlanSpeeds, make_a_group_as_slow_as_its_slowest_rank) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n10\n");
  const std::string json = (scratch / "plan.json").string();
  const std::string flexible =
      "plan --lengths " + (scratch / "lengths.csv").string() + " --json " + json +
      " --set mesh.dp=2 --set mesh.cp=flexible --set balance.meet=step --set balance.cost=flops-7b " +
      "--set micro_batch.max_tokens_per_rank=6 ";
  const auto end_time_of = [&](const std::string& settings) {
    const ProgramResult planned = run_evenkeel(flexible + settings);
    EXPECT_EQ(planned.status, 0) << planned.err;
    const nlohmann::json plan = nlohmann::json::parse(read_text(json));
    EXPECT_EQ(plan.at("end"), plan.at("lower_bound"));
    EXPECT_EQ(plan.at("end"), plan.at("micro_batches").at(0).at("time"));
    return plan.at("end").get<std::int64_t>();
  };
  const std::string speeds = "--set balance.speeds=[1,0.5] ";
  EXPECT_EQ(end_time_of(speeds), 2 * end_time_of(""));
  const std::string compared = run_evenkeel(flexible + speeds + "--compare").out;
  for (const char* way : {"cp 2 ", "cp flexible ", "cp 2, ranks meet", "cp flexible, ranks meet"})
    EXPECT_THAT(compared, testing::ContainsRegex(std::string("\n") + way + " +1 +1\\.000 "));
  const std::string waves = "--set balance.strategy=grid ";
  EXPECT_EQ(end_time_of(speeds + waves), 2 * end_time_of(waves));
}

TEST(PlanTables, highlight_broken_caps) {
  const ScratchFolder scratch;
  const std::filesystem::path scratch_file = scratch / "lengths.csv";
  std::string lengths = "length\n";
  for (int i = 0; i < 64; ++i) lengths += i % 3 == 0 ? "407\n" : "101\n";
  write_text(scratch_file, lengths);
  const std::string plan =
      " plan --ranks 8 --set balance.preset=verl --set mesh.cp=4 --set micro_batch.max_tokens=600 "
      "--lengths " +
      scratch_file.string();
  const ProgramResult plain = run_evenkeel(plan);
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("ABOVE THE CAP"));
  EXPECT_THAT(plain.out, Not(HasSubstr("\033")));
  EXPECT_THAT(run_command("CLICOLOR_FORCE=1 " EVENKEEL_PROGRAM + plan).out, HasSubstr("\033[1;31m"));
}

/// Returns times of micro-batches with one or two samples: 10 ms each, 3 us per token, 1 ns per squared
/// length.
std::string table_of_times(std::int64_t rows) {
  std::ostringstream table;
  table << "step,lengths,seconds\n";
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t first = 500 + i * i * 97 % 9001;
    const std::int64_t second = i % 2 == 0 ? 0 : 1000 + i * 53 % 4001;
    const double seconds = 0.01 + 3e-6 * static_cast<double>(first + second) +
                           1e-9 * static_cast<double>(first * first + second * second);
    table << i << ',' << first << (second > 0 ? " " + std::to_string(second) : "") << ',' << seconds << '\n';
  }
  return table.str();
}

TEST(FitCommand, prints_the_cost_its_error_and_the_loss_of_other_costs) {
  const ScratchFolder scratch;
  write_text(scratch / "times.csv", table_of_times(64));
  const ProgramResult result = run_evenkeel("fit " + (scratch / "times.csv").string());
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              testing::ContainsRegex("balance.cost: \\{linear: (2999|3000|3001), quadratic: 1\\}\n"));
  EXPECT_THAT(result.out,
              testing::ContainsRegex("error of a time: 0.0[0-9] % in the median, 0.[0-9]+ % at most"));
  EXPECT_THAT(result.out, HasSubstr("a step of 96 samples on 8 DP ranks, cap "));
  EXPECT_THAT(result.out, testing::ContainsRegex("balance.cost: tokens +[0-9]+\\.[0-9]+ %\n"));
  EXPECT_THAT(run_evenkeel("fit " + (scratch / "times.csv").string() + " --set mesh.dp=4").out,
              HasSubstr("on 4 DP ranks"));
}

TEST(FitCommand, names_an_invalid_line_and_insufficient_times) {
  const ScratchFolder scratch;
  const auto error = [&](const std::string& table) {
    write_text(scratch / "times.csv", table);
    const ProgramResult result = run_evenkeel("fit " + (scratch / "times.csv").string());
    EXPECT_EQ(result.status, 1) << table;
    return result.err;
  };
  EXPECT_THAT(error("length,time\n5,1\n"), HasSubstr("times.csv:1: has no column 'seconds'"));
  EXPECT_THAT(error("length,seconds\n5,1\n5 x,1\n"), HasSubstr("times.csv:3: 'x' is not a length"));
  EXPECT_THAT(error("length,seconds\n5,-1\n"),
              HasSubstr("times.csv:2: '-1' is not a number of seconds above 0"));
  EXPECT_THAT(error("length,seconds\n"), HasSubstr("times.csv: has no times"));
  EXPECT_THAT(error(table_of_times(15)), HasSubstr("a fit to its 15 times did not give a usable cost"));
}

TEST(PlanComparison, shows_the_loss_of_a_wrong_quadratic_term) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5000\n6000\n7000\n8000\n100\n200\n300\n");
  const ProgramResult result =
      run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string() + " --set mesh.dp=2 --compare");
  EXPECT_THAT(result.out,
              testing::ContainsRegex("if attention takes 20 % more or less than balance.cost says, a "
                                     "step ends at most [0-9]+\\.[0-9][0-9] % later"));
}

TEST(PlanCounts, may_differ_between_ranks_that_meet_once_a_step) {
  const ScratchFolder scratch;
  std::string lengths = "length\n30\n";
  for (int i = 0; i < 60; ++i) lengths += "4\n";
  write_text(scratch / "lengths.csv", lengths);
  const auto planned = [&](const std::string& settings) {
    return run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string() +
                        " --set mesh.dp=2 --set micro_batch.max_tokens=32 --set balance.overhead=20 --set "
                        "'balance.cost={linear: 1, quadratic: 1}' " +
                        settings);
  };
  const std::string free = "--set micro_batch.equal_counts=auto ";
  EXPECT_THAT(planned(free + "--set balance.meet=step").out, HasSubstr(": 3 to 7 micro-batches each"));
  EXPECT_THAT(planned("--set balance.meet=step").out, HasSubstr(": 7 micro-batches each"));
  EXPECT_THAT(planned(free).err,
              HasSubstr("balance.meet: is not set, but micro_batch.equal_counts: auto needs it"));
  EXPECT_EQ(planned(free + "--set balance.meet=micro-batch").out.find(" to "), std::string::npos);
}

}  // namespace
}  // namespace evenkeel
