#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// Plans that are asked to share prefixes.
class PlanWithSharedPrefixes : public testing::Test {
 protected:
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    write_text(scratch_ / name, text);
    return (scratch_ / name).string();
  }
  [[nodiscard]] ProgramResult plan(const std::string& lengths, const std::string& settings) const {
    return run_evenkeel("plan --lengths " + lengths + " --json " + (scratch_ / "plan.json").string() +
                        " --set mesh.dp=2 " + settings);
  }
  [[nodiscard]] nlohmann::json written() const {
    return nlohmann::json::parse(read_text(scratch_ / "plan.json"));
  }
  /// Of a comparison.
  [[nodiscard]] std::vector<nlohmann::json> ways_to_share() const {
    std::vector<nlohmann::json> ways;
    for (const auto& way : written()) {
      if (way.contains("share")) ways.push_back(way);
    }
    return ways;
  }

  ScratchFolder scratch_;
};

/// Four samples of two uids; three of them have more in common than their prompt.
constexpr const char* rollout_lines =
    R"({"uid": "a", "prompt_ids": [1, 2, 3], "response_ids": [4, 5, 6]}
{"uid": "a", "prompt_ids": [1, 2, 3], "response_ids": [4, 5, 7, 8]}
{"uid": "b", "prompt_ids": [1, 2], "response_ids": [9]}
{"uid": "a", "prompt_ids": [1, 2, 3], "response_ids": [4]}
)";

std::vector<std::string> names_of(const std::vector<nlohmann::json>& ways) {
  std::vector<std::string> names;
  for (const auto& way : ways) names.push_back(way.at("way"));
  return names;
}

std::int64_t planned_tokens(const nlohmann::json& plan) {
  std::int64_t tokens = 0;
  for (const auto& rank : plan.at("ranks")) tokens += rank.at("tokens").get<std::int64_t>();
  return tokens;
}

std::multiset<int> planned_samples(const nlohmann::json& plan) {
  std::multiset<int> samples;
  for (const auto& rank : plan.at("ranks")) {
    for (const auto& micro_batch : rank.at("micro_batches")) {
      for (const auto& sample : micro_batch.at("samples")) samples.insert(sample.get<int>());
    }
  }
  return samples;
}

TEST_F(PlanWithSharedPrefixes, plans_every_sample_of_rollouts_with_what_their_tokens_share) {
  const std::string lengths = file("rollouts.jsonl", rollout_lines);
  const std::multiset<int> all{0, 1, 2, 3};
  for (const auto& [share, tokens] : {std::pair{"false", 20}, {"true", 3 + 3 + 4 + 1 + 3}, {"tree", 8 + 3}}) {
    const ProgramResult result = plan(lengths, std::string("--set prefix.share=") + share);
    ASSERT_EQ(result.status, 0) << result.err;
    const nlohmann::json plan_of_all = written();
    EXPECT_EQ(planned_tokens(plan_of_all), tokens) << share;
    EXPECT_EQ(planned_samples(plan_of_all), all) << share;
    EXPECT_GE(plan_of_all.at("num_micro_batches"), 1) << share;
    std::int64_t most = 0;
    for (const auto& rank : plan_of_all.at("ranks"))
      most = std::max(most, rank.at("cost").get<std::int64_t>());
    EXPECT_LE(plan_of_all.at("lower_bound").at("dp_max_cost"), most) << share;
  }
  EXPECT_THAT(plan(lengths, "--set prefix.share=tree").out, HasSubstr("11 tokens with shared prefixes once"));
}

TEST_F(PlanWithSharedPrefixes, tells_what_splits_repeat_and_why_and_refuses_longer_paths) {
  const std::string lengths = file("rollouts.jsonl", rollout_lines);
  const std::string caps = "--set prefix.share=tree --set micro_batch.max_tokens=7 ";
  EXPECT_THAT(plan(lengths, caps + "--set prefix.max_path_tokens=7").out,
              HasSubstr("tokens repeated by splits: 5 to keep micro_batch.max_tokens"));
  const nlohmann::json sharing = written().at("sharing");
  EXPECT_EQ(sharing.at("tokens"), 11 + 5);
  EXPECT_EQ(sharing.at("tokens_without"), 20);
  EXPECT_EQ(sharing.at("repeated_to_keep").at("max_tokens"), 5);
  const ProgramResult refused = plan(lengths, caps + "--set prefix.max_path_tokens=6");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("sample 1: has 7 tokens"));
}

TEST_F(PlanWithSharedPrefixes, tells_what_predicting_ahead_repeats) {
  const ProgramResult result =
      plan(file("rollouts.jsonl", rollout_lines), "--set prefix.share=tree --set pack.predict_ahead=1");
  EXPECT_THAT(result.out, HasSubstr("to keep pack.predict_ahead"));
  EXPECT_EQ(written().at("sharing").at("repeated_to_keep").at("predict_ahead"), 2);
}

TEST_F(PlanWithSharedPrefixes, counts_micro_batches_as_a_run_does) {
  ASSERT_EQ(
      run_evenkeel("synth --samples 64 --prompt-median 200 --response-median 60 --response-max 400 --out " +
                   (scratch_ / "made-up.jsonl").string())
          .status,
      0);
  const std::string made_up = (scratch_ / "made-up.jsonl").string();
  write_text(scratch_ / "job.yaml", "source: {kind: jsonl}\n");
  for (const char* share : {"true", "tree"}) {
    const std::string settings =
        std::string("--set micro_batch.max_tokens=3000 --set prefix.share=") + share + " ";
    ASSERT_EQ(plan(made_up, settings).status, 0);
    const ProgramResult run =
        mpirun_evenkeel(2, "run " + (scratch_ / "job.yaml").string() +
                               " --set source.kind=jsonl --set source.path=" + made_up + " " + settings +
                               "--report " + (scratch_ / share).string());
    ASSERT_EQ(run.status, 0) << run.err;
    const auto step = nlohmann::json::parse(read_text(scratch_ / share / "report.json")).at("steps").at(0);
    EXPECT_EQ(written().at("num_micro_batches"), step.at("num_micro_batches")) << share;
    EXPECT_EQ(planned_tokens(written()), step.at("sharing").at("tokens")) << share;
  }
}

TEST_F(PlanWithSharedPrefixes, plans_the_tree_that_rollouts_tell) {
  const auto lines = [](const std::string& first, const std::string& second) {
    return R"({"uid": "a", "prompt_ids": [1], "response_ids": [4, 5, 6], "segment_ids": )" + first + "}\n" +
           R"({"uid": "a", "prompt_ids": [1], "response_ids": [4, 5, 7, 8], "segment_ids": )" + second +
           "}\n";
  };
  const auto tokens_of = [&](const std::string& first, const std::string& second,
                             const std::string& set = "") {
    const ProgramResult result =
        plan(file("told.jsonl", lines(first, second)), "--set prefix.share=tree " + set);
    EXPECT_EQ(result.status, 0) << result.err;
    return planned_tokens(written());
  };
  EXPECT_EQ(tokens_of("[0, 0, 1]", "[0, 0, 2, 2]"), 1 + 2 + 1 + 2);
  EXPECT_EQ(tokens_of("[1, 1, 1]", "[2, 2, 2, 2]"), 1 + 3 + 4);
  EXPECT_EQ(tokens_of("[0, 0, 0, 1]", "[0, 0, 3, 2, 2]"), 1 + 2 + 1 + 2 + 1);
  EXPECT_EQ(tokens_of("[[0, 2], [1, 1]]", "[[0, 2], [2, 2]]", "--set fields.segment_ids.read_as=runs"), 6);
  const std::string wrong = file("wrong.jsonl", "\n" + lines("[0, 0, 0]", "[0, 0, 0, 1]"));
  const ProgramResult refused = plan(wrong, "--set prefix.share=tree");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr(wrong + ":3: its tokens 0 to 3 are not those of line 2"));
}

TEST_F(PlanWithSharedPrefixes, refuses_trees_where_there_are_no_tokens) {
  for (const std::string& lengths :
       {file("lengths.csv", "uid,prompt_length,response_length\na,3,1\na,3,2\n"),
        file("lengths.jsonl", "{\"prompt_length\": 3, \"response_length\": 1}\n")}) {
    const ProgramResult result = plan(lengths, "--set prefix.share=tree");
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr(lengths), HasSubstr("prefix.share: tree"),
                                  HasSubstr("prompt_ids"), HasSubstr("prefix.share: true")));
  }
}

TEST_F(PlanWithSharedPrefixes, goes_by_uid_and_prompt_length_where_there_are_no_tokens) {
  const ProgramResult result =
      plan(file("lengths.csv", "uid,prompt_length,response_length\na,3,1\na,3,2\nb,3,1\n"),
           "--set prefix.share=true");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(planned_tokens(written()), 3 + 1 + 2 + 3 + 1);
}

TEST_F(PlanWithSharedPrefixes, refuses_lengths_that_tell_of_no_shared_prompt) {
  for (const char* table : {"length\n5\n6\n", "prompt_length,response_length\n3,1\n3,2\n",
                            "uid,length\na,4\na,5\n", "uid,prompt_length,response_length\na,3,1\na,4,2\n"}) {
    const ProgramResult result = plan(file("lengths.csv", table), "--set prefix.share=true");
    EXPECT_EQ(result.status, 1) << table;
    EXPECT_THAT(result.err, AllOf(HasSubstr("lengths.csv"), HasSubstr("uid"), HasSubstr("prefix.share")));
  }
}

TEST_F(PlanWithSharedPrefixes, are_compared_path_by_path_with_prompts_and_with_trees) {
  const std::string lengths = file("rollouts.jsonl", rollout_lines);
  const std::string cost = "--compare --set 'balance.cost={linear: 2, quadratic: 0}' ";
  const ProgramResult result = plan(lengths, cost + "--set prefix.share=true --set micro_batch.max_tokens=7");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("warning")));
  EXPECT_THAT(names_of(ways_to_share()), ElementsAre("paths one by one", "prompts shared", "trees packed"));
  for (const auto& way : ways_to_share())
    EXPECT_THAT(result.out, HasSubstr("\n" + way.at("way").get<std::string>()));
  const auto paths = ways_to_share().at(0);
  EXPECT_EQ(paths.at("tokens"), 6 + 7 + 3 + 4);
  EXPECT_EQ(paths.at("score_entries"), 21 + 28 + 6 + 10);
  EXPECT_DOUBLE_EQ(paths.at("work_over_bound"), 20.0 / 11);
  EXPECT_EQ(ways_to_share().at(1).at("repeated_to_keep").at("max_tokens"), 6);
  const auto trees = ways_to_share().at(2);
  EXPECT_EQ(trees.at("tokens"), 6 + 7 + 3);
  EXPECT_EQ(trees.at("score_entries"), 21 + 28 + 6);
  EXPECT_EQ(trees.at("repeated_to_keep").at("max_tokens"), 5);
  EXPECT_EQ(trees.at("largest_micro_batch"), 7);
  EXPECT_EQ(trees.at("num_micro_batches"), 2);
  EXPECT_DOUBLE_EQ(trees.at("work_over_bound"), 16.0 / 11);
  // The part of 7 on one rank, those of 6 and 3 on the other; or 7 beside 6, then 3 alone.
  EXPECT_DOUBLE_EQ(trees.at("end_over_bound_once"), 9 / 5.5);
  EXPECT_DOUBLE_EQ(trees.at("end_over_bound_every_micro_batch"), (7 + 3) / 5.5);

  ASSERT_EQ(plan(lengths, cost + "--set prefix.share=tree").status, 0);
  EXPECT_EQ(ways_to_share().at(2).at("work_over_bound"), 1);
  ASSERT_EQ(plan(lengths, cost + "--set prefix.share=false").status, 0);
  EXPECT_THAT(ways_to_share(), IsEmpty());
}

TEST_F(PlanWithSharedPrefixes, are_compared_without_trees_where_there_are_no_tokens) {
  const std::string lengths = file("lengths.csv", "uid,prompt_length,response_length\na,3,1\na,3,2\nb,3,1\n");
  ASSERT_EQ(plan(lengths, "--compare --set prefix.share=true").status, 0);
  EXPECT_THAT(names_of(ways_to_share()), ElementsAre("paths one by one", "prompts shared"));
  EXPECT_EQ(ways_to_share().at(1).at("work_over_bound"), 1);
}

TEST_F(PlanWithSharedPrefixes, are_compared_under_the_caps_of_a_plan) {
  const std::string lengths = file("rollouts.jsonl", rollout_lines);
  EXPECT_THAT(plan(lengths, "--compare --set prefix.share=tree --set prefix.max_path_tokens=6").err,
              HasSubstr("sample 1: has 7 tokens"));
  EXPECT_THAT(plan(lengths, "--compare --set micro_batch.mode=padded").err,
              HasSubstr("warning: micro_batch.mode"));
  const ProgramResult flexible =
      plan(lengths,
           "--compare --set prefix.share=tree --set mesh.cp=flexible --set balance.speeds=[1,0.5] "
           "--set micro_batch.max_tokens_per_rank=5");
  ASSERT_EQ(flexible.status, 0) << flexible.err;
  for (const auto& way : ways_to_share()) {
    EXPECT_LE(way.at("largest_micro_batch"), 5) << way;
    EXPECT_GE(way.at("end_over_bound_once"), way.at("work_over_bound")) << way;
  }
}

TEST_F(PlanWithSharedPrefixes, of_an_empty_table_is_an_error_as_every_plan_of_one) {
  for (const std::string& lengths : {file("empty.csv", "length\n"), file("empty.jsonl", "\n")}) {
    for (const char* share : {"false", "true", "tree"}) {
      if (share == std::string("tree") && lengths.ends_with("csv")) continue;  // refused for its lengths
      const ProgramResult result = plan(lengths, std::string("--set prefix.share=") + share);
      EXPECT_EQ(result.status, 1) << lengths << share;
      EXPECT_THAT(result.err, HasSubstr(lengths)) << share;
    }
    EXPECT_EQ(plan(lengths, "--compare").status, 1);
  }
  EXPECT_THAT(plan(file("empty.csv", "length\n"), "").err, HasSubstr("has no samples"));
}

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
  EXPECT_THAT(plan("frames", "").err, HasSubstr("has no numbers of 'frames', which balance.cost names"));
  const ProgramResult compared = plan("patches", " --compare");
  EXPECT_EQ(compared.status, 2);
  EXPECT_THAT(compared.err,
              HasSubstr("balance.cost: counts the work of an encoder by the rows of 'patches'"));
}

TEST(PlanOfARun, says_what_a_run_does_by_who_holds_samples) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n6\n7\n8\n");
  const auto warnings = [&](const std::string& settings) {
    return run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string() + " --set mesh.dp=2 " +
                        settings)
        .err;
  };
  EXPECT_THAT(warnings("--set balance.placement_tolerance=0.1"),
              HasSubstr("warning: balance.placement_tolerance is ignored"));
  const std::string drawn = "--set micro_batch.mode=fixed --set micro_batch.shuffle=true ";
  EXPECT_THAT(warnings(drawn), HasSubstr("warning: micro_batch.shuffle draws by DP rank"));
  EXPECT_EQ(warnings(drawn + "--set balance.placement=none"), "");
  EXPECT_EQ(warnings("--set micro_batch.mode=fixed"), "");
}

TEST(PlanCommandLimits, memory_that_cannot_be_had_is_a_sentence) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n6\n");
  // Less address space than a plan for so many ranks takes.
  const ProgramResult result =
      run_command("ulimit -v 200000; " EVENKEEL_PROGRAM " plan --ranks 1048576 --lengths " +
                  (scratch / "lengths.csv").string());
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("evenkeel: error: out of memory"), Not(HasSubstr("bad_alloc"))));
}
#endif

/// A group of two a line; the long samples come one a step of 4 groups.
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

TEST(PlanArrivals, counts_duplicates_and_what_is_dropped) {
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

TEST(PlanArrivals, says_what_a_trace_lacks) {
  const ScratchFolder scratch;
  const auto why = [&](const std::string& text, const std::string& words) {
    write_text(scratch / "trace.csv", text);
    return run_evenkeel("plan --set mesh.dp=1 --arrivals " + (scratch / "trace.csv").string() + words).err;
  };
  EXPECT_THAT(why("length\n5\n", ""), HasSubstr("has no uid for sample 0"));
  EXPECT_THAT(why("uid,length\na,5\n", " --max-staleness 1"), HasSubstr("has no column version"));
  EXPECT_THAT(why("uid,length,version\na,5,x\n", ""),
              HasSubstr("trace.csv:2: version is 'x'; it must be an integer from 0 to 2^62"));
  EXPECT_THAT(why("uid,length\na,5\n", " --group-size 3"), HasSubstr("a step has whole groups"));
  EXPECT_THAT(why("uid,length\na,5\na,5\n", " --group-size 1"),
              HasSubstr("group 'a': has a sample with index 1, and groups of 1 end at index 0"));
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

TEST(PlanComparison, is_told_of_the_ranks_or_refused) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "5\n6\n7\n");
  const std::string plan = "plan --compare --lengths " + (scratch / "lengths.csv").string();
  const ProgramResult refused = run_evenkeel(plan);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("Give --ranks COUNT or --set mesh.dp=COUNT"));
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(run_evenkeel(plan + " --ranks 2 --set micro_batch.max_tokens=1k").out,
              testing::StartsWith("3 samples, 18 tokens on 2 DP ranks, cap 1,024 tokens; work is "));
}

TEST(PlanTables, fit_the_line) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n6\n7\n");
  for (const std::size_t width : {40U, 80U, 200U}) {
    for (const char* compare : {"", " --compare"}) {
      const ProgramResult result =
          run_command("COLUMNS=" + std::to_string(width) + " " EVENKEEL_PROGRAM " plan --ranks 2 --lengths " +
                      (scratch / "lengths.csv").string() + compare);
      ASSERT_EQ(result.status, 0) << result.err;
      std::istringstream lines(result.out);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
    }
  }
}

TEST(PlanPipeline, says_when_it_ends_and_how_much_of_it_is_bubble) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n" + std::string("6\n6\n6\n6\n6\n6\n"));
  const std::string json = (scratch / "plan.json").string();
  const auto plan = [&](const std::string& settings) {
    return run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string() + " --json " + json +
                        " --set micro_batch.max_tokens=6 " + settings);
  };
  const auto written = [&] { return nlohmann::json::parse(read_text(json)); };
  // Three micro-batches of 6 on each DP rank: two stages take as long as for four.
  const ProgramResult two_stages = plan("--set mesh.dp=2 --set mesh.pp=2 --set micro_batch.order=schedule");
  ASSERT_EQ(two_stages.status, 0) << two_stages.err;
  EXPECT_THAT(two_stages.out, HasSubstr("simulated pipeline of 2 stages: ends at 12, 25.00 % of it bubble"));
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

TEST(PlanPipeline, is_compared_with_presets_that_have_orders_of_their_own) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n6\n7\n");
  const ProgramResult result = run_evenkeel(
      "plan --compare --set mesh.dp=2 --set mesh.pp=2 --set micro_batch.order=schedule --lengths " +
      (scratch / "lengths.csv").string());
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("preset verl"));
}

// A sample that needs both ranks takes twice as long as on two fast ones, whatever the way.
TEST(PlanSpeeds, slow_a_group_as_its_slowest_rank_does) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n10\n");
  const std::string json = (scratch / "plan.json").string();
  const std::string flexible =
      "plan --lengths " + (scratch / "lengths.csv").string() + " --json " + json +
      " --set mesh.dp=2 --set mesh.cp=flexible --set balance.meet=step --set balance.cost=flops-7b " +
      "--set micro_batch.max_tokens_per_rank=6 ";
  const auto end_of = [&](const std::string& settings) {
    const ProgramResult planned = run_evenkeel(flexible + settings);
    EXPECT_EQ(planned.status, 0) << planned.err;
    const nlohmann::json plan = nlohmann::json::parse(read_text(json));
    EXPECT_EQ(plan.at("end"), plan.at("lower_bound"));
    EXPECT_EQ(plan.at("end"), plan.at("micro_batches").at(0).at("time"));
    return plan.at("end").get<std::int64_t>();
  };
  const std::string speeds = "--set balance.speeds=[1,0.5] ";
  EXPECT_EQ(end_of(speeds), 2 * end_of(""));
  const std::string compared = run_evenkeel(flexible + speeds + "--compare").out;
  for (const char* way : {"cp 2 ", "cp flexible ", "cp 2, ranks meet", "cp flexible, ranks meet"})
    EXPECT_THAT(compared, testing::ContainsRegex(std::string("\n") + way + " +1 +1\\.000 "));
  const std::string waves = "--set balance.strategy=grid ";
  EXPECT_EQ(end_of(speeds + waves), 2 * end_of(waves));
}

TEST(PlanTables, alarm_where_a_cap_is_broken) {
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

}  // namespace
}  // namespace evenkeel
