#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

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
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// Plans with shared prefixes requested.
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
  /// Returns the entries of a comparison.
  [[nodiscard]] std::vector<nlohmann::json> ways_to_share() const {
    std::vector<nlohmann::json> ways;
    for (const auto& way : written()) {
      if (way.contains("share")) ways.push_back(way);
    }
    return ways;
  }

  ScratchFolder scratch_;
};

/// Four samples with two uids; three of them share more than their prompt.
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

TEST_F(PlanWithSharedPrefixes, plans_every_sample_with_its_shared_prefixes) {
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
  EXPECT_THAT(plan(lengths, "--set prefix.share=tree").out,
              HasSubstr("11 tokens if shared prefixes count once"));
}

TEST_F(PlanWithSharedPrefixes, shows_tokens_repeated_by_splits_and_refuses_longer_paths) {
  const std::string lengths = file("rollouts.jsonl", rollout_lines);
  const std::string caps = "--set prefix.share=tree --set micro_batch.max_tokens=7 ";
  EXPECT_THAT(plan(lengths, caps + "--set prefix.max_path_tokens=7").out,
              HasSubstr("tokens repeated by splits: 5 to keep micro_batch.max_tokens"));
  const nlohmann::json sharing = written().at("sharing");
  EXPECT_EQ(sharing.at("tokens"), 11 + 5);
  EXPECT_EQ(sharing.at("tokens_without"), 20);
  EXPECT_EQ(sharing.at("repeated_by_reason").at("max_tokens"), 5);
  const ProgramResult refused = plan(lengths, caps + "--set prefix.max_path_tokens=6");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("sample 1: has 7 tokens"));
}

TEST_F(PlanWithSharedPrefixes, shows_tokens_repeated_by_predicting_ahead) {
  const ProgramResult result =
      plan(file("rollouts.jsonl", rollout_lines), "--set prefix.share=tree --set pack.predict_ahead=1");
  EXPECT_THAT(result.out, HasSubstr("to keep pack.predict_ahead"));
  EXPECT_EQ(written().at("sharing").at("repeated_by_reason").at("predict_ahead"), 2);
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

TEST_F(PlanWithSharedPrefixes, plans_the_tree_declared_by_rollouts) {
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
  EXPECT_THAT(refused.err, HasSubstr(wrong + ":3: its tokens 0 to 3 differ from those of line 2"));
  const std::string some = file("some.jsonl", rollout_lines + lines("[0, 0, 1]", "[0, 0, 2, 2]"));
  EXPECT_THAT(plan(some, "--set prefix.share=tree").err, AllOf(HasSubstr(some), HasSubstr("segment_ids")));
  const std::string ahead = "--set prefix.share=tree --set pack.predict_ahead=1";
  EXPECT_THAT(plan(wrong, ahead).err, HasSubstr("Leave it out, or set pack.predict_ahead: 0"));
}

TEST_F(PlanWithSharedPrefixes, refuses_trees_without_tokens) {
  for (const std::string& lengths :
       {file("lengths.csv", "uid,prompt_length,response_length\na,3,1\na,3,2\n"),
        file("lengths.jsonl", "{\"prompt_length\": 3, \"response_length\": 1}\n")}) {
    const ProgramResult result = plan(lengths, "--set prefix.share=tree");
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr(lengths), HasSubstr("prefix.share: tree"),
                                  HasSubstr("prompt_ids"), HasSubstr("prefix.share: true")));
  }
}

TEST_F(PlanWithSharedPrefixes, uses_uid_and_prompt_length_without_tokens) {
  const ProgramResult result =
      plan(file("lengths.csv", "uid,prompt_length,response_length\na,3,1\na,3,2\nb,3,1\n"),
           "--set prefix.share=true");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(planned_tokens(written()), 3 + 1 + 2 + 3 + 1);
}

TEST_F(PlanWithSharedPrefixes, refuses_lengths_without_a_shared_prompt) {
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
  EXPECT_THAT(names_of(ways_to_share()),
              ElementsAre("paths one by one", "prompts shared", "trees packed", "trees depth first"));
  for (const auto& way : ways_to_share()) {
    EXPECT_THAT(result.out, HasSubstr("\n" + way.at("way").get<std::string>()));
    const auto& least = way.at("least_work_over_bound");
    EXPECT_TRUE(least.is_null() || least <= way.at("work_over_bound")) << way;
  }
  const auto paths = ways_to_share().at(0);
  EXPECT_EQ(paths.at("tokens"), 6 + 7 + 3 + 4);
  EXPECT_EQ(paths.at("score_entries"), 21 + 28 + 6 + 10);
  EXPECT_DOUBLE_EQ(paths.at("work_over_bound"), 20.0 / 11);
  EXPECT_EQ(ways_to_share().at(1).at("repeated_by_reason").at("max_tokens"), 3)
      << "of responses of 3, 4 and 1";
  const auto trees = ways_to_share().at(2);
  EXPECT_EQ(trees.at("tokens"), 6 + 7 + 3);
  EXPECT_EQ(trees.at("score_entries"), 21 + 28 + 6);
  EXPECT_EQ(trees.at("repeated_by_reason").at("max_tokens"), 5);
  EXPECT_EQ(trees.at("held_at_once"), 7);
  EXPECT_EQ(trees.at("num_micro_batches"), 2);
  EXPECT_DOUBLE_EQ(trees.at("work_over_bound"), 16.0 / 11);
  EXPECT_EQ(trees.at("least_work_over_bound"), trees.at("work_over_bound"))
      << "`4` and `5` in front of `6` and `7 8`, with 7 rows for both";
  EXPECT_THAT(result.out, HasSubstr("work / bound is 1.455 or more"));
  // The part with 7 on one rank, those with 6 and 3 on the other; or 7 together with 6, then 3 alone.
  EXPECT_DOUBLE_EQ(trees.at("end_over_bound_once"), 9 / 5.5);
  EXPECT_DOUBLE_EQ(trees.at("end_over_bound_every_micro_batch"), (7 + 3) / 5.5);

  ASSERT_EQ(plan(lengths, cost + "--set prefix.share=tree").status, 0);
  EXPECT_EQ(ways_to_share().at(2).at("work_over_bound"), 1);
  EXPECT_EQ(ways_to_share().at(2).at("least_work_over_bound"), 1);
  ASSERT_EQ(plan(lengths, cost + "--set prefix.share=false").status, 0);
  EXPECT_THAT(ways_to_share(), IsEmpty());
}

TEST_F(PlanWithSharedPrefixes, are_compared_depth_first_by_kept_and_recomputed_rows) {
  const std::string lengths = file("rollouts.jsonl", rollout_lines);
  const std::string trees =
      "--compare --set 'balance.cost={linear: 3, quadratic: 0}' --set prefix.share=tree ";
  ASSERT_EQ(plan(lengths, trees).status, 0);
  const auto packed = ways_to_share().at(2);
  const auto uncapped = ways_to_share().at(3);
  EXPECT_EQ(packed.at("held_at_once"), 8);
  EXPECT_EQ(uncapped.at("held_at_once"), 7) << "the longest path";
  EXPECT_EQ(uncapped.at("tokens"), 11);
  EXPECT_EQ(uncapped.at("end_over_bound_once"), packed.at("end_over_bound_once"));
  EXPECT_TRUE(uncapped.at("end_over_bound_every_micro_batch").is_null());

  const ProgramResult capped =
      plan(lengths, trees + "--set prefix.schedule=dfs --set prefix.max_kept_tokens=2");
  ASSERT_EQ(capped.status, 0) << capped.err;
  EXPECT_EQ(ways_to_share().at(2).at("held_at_once"), 8) << "without a schedule there is no such cap";
  const auto depth_first = ways_to_share().at(3);
  EXPECT_EQ(depth_first.at("held_at_once"), 2);
  EXPECT_EQ(depth_first.at("recomputed"), 5 + 1) << "what has more than two rows from it to a leaf";
  EXPECT_EQ(depth_first.at("tokens"), 11 + 6);
  EXPECT_DOUBLE_EQ(depth_first.at("work_over_bound"), (11 + 6 / 3.0) / 11);
  EXPECT_DOUBLE_EQ(depth_first.at("end_over_bound_once"), (8 + 5 / 3.0) / 5.5);

  ASSERT_EQ(plan(lengths, trees + "--set pack.predict_ahead=1").status, 0);
  EXPECT_EQ(ways_to_share().size(), 3) << "depth first goes with no tokens ahead";
}

TEST_F(PlanWithSharedPrefixes, are_compared_without_trees_if_there_are_no_tokens) {
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
    EXPECT_LE(way.at("held_at_once"), 5) << way;
    EXPECT_GE(way.at("end_over_bound_once"), way.at("work_over_bound")) << way;
  }
}

TEST_F(PlanWithSharedPrefixes, of_an_empty_table_is_an_error) {
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

}  // namespace
}  // namespace evenkeel
