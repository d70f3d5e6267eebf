#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::Ge;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

TEST(Program, prints_version_and_help) {
  EXPECT_THAT(run_evenkeel("--version").out, HasSubstr("evenkeel 0."));
  const ProgramResult help = run_evenkeel("--help");
  EXPECT_EQ(help.status, 0);
  for (const char* word :
       {"run", "plan", "fit", "synth", "inspect", "convert", "config", "mpirun -n 8 evenkeel run"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
  EXPECT_NE(run_evenkeel("").status, 0);
  EXPECT_NE(run_evenkeel("fly").status, 0);
}

TEST(PlanCommand, writes_the_documented_json) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv",
             "prompt_length,response_length\n0,1\n0,2\n1,1\n2,3\n1,2\n3,4\n2,4\n1,2\n");
  const ProgramResult result =
      run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string() + " --json " +
                   (scratch / "plan.json").string() + " --set mesh.dp=2 --set micro_batch.max_tokens=8");
  ASSERT_EQ(result.status, 0) << result.err;
  const auto plan = nlohmann::json::parse(read_text(scratch / "plan.json"));
  EXPECT_EQ(plan.at("dp"), 2);
  EXPECT_EQ(plan.at("num_micro_batches"), 2);
  EXPECT_GE(plan.at("plan_seconds"), 0);
  EXPECT_EQ(plan.at("lower_bound").at("num_micro_batches"), 2);
  EXPECT_EQ(plan.at("lower_bound").at("dp_max_cost"), 15);
  std::set<int> samples;
  for (const auto& rank : plan.at("ranks")) {
    EXPECT_EQ(rank.at("micro_batches").size(), 2U);
    std::int64_t tokens = 0;
    for (const auto& micro_batch : rank.at("micro_batches")) {
      EXPECT_LE(micro_batch.at("aligned_tokens"), 8);
      tokens += micro_batch.at("tokens").get<std::int64_t>();
      for (const auto& sample : micro_batch.at("samples")) samples.insert(sample.get<int>());
    }
    EXPECT_EQ(rank.at("tokens"), tokens);
  }
  EXPECT_EQ(samples.size(), 8U);
  for (const char* key : {"dp_max_over_mean", "micro_batch_max_over_mean", "step_max_over_mean"}) {
    EXPECT_GE(plan.at("balance").at(key), 1.0) << key;
  }
}

TEST(PlanCommand, compares_ways_to_plan_the_same_lengths) {
  const ScratchFolder scratch;
  std::string lengths = "length\n";
  for (int i = 0; i < 96; ++i) lengths += std::to_string(i % 8 == 0 ? 900 + i : 20 + i) + "\n";
  write_text(scratch / "lengths.csv", lengths);
  const ProgramResult result =
      run_evenkeel("plan --compare --lengths " + (scratch / "lengths.csv").string() + " --json " +
                   (scratch / "ways.json").string() + " --set mesh.dp=4 --set micro_batch.max_tokens=1100");
  ASSERT_EQ(result.status, 0) << result.err;
  const auto ways = nlohmann::json::parse(read_text(scratch / "ways.json"));
  std::map<std::string, nlohmann::json> by_name;
  for (const auto& way : ways) {
    by_name[way.at("way")] = way;
    EXPECT_THAT(result.out, HasSubstr(way.at("way").get<std::string>()));
    if (way.contains("cp")) continue;
    EXPECT_LE(way.at("waiting_once"), way.at("waiting_every_micro_batch"));
  }
  ASSERT_EQ(by_name.size(), 10U);
  // The best fixed cp is listed before groups of different sizes, once in general and once for ranks that are
  // synchronized.
  for (const std::size_t fixed : {6U, 8U}) {
    EXPECT_TRUE(ways.at(fixed).at("cp").is_number());
    EXPECT_EQ(ways.at(fixed + 1).at("cp"), "flexible");
    EXPECT_EQ(ways.at(fixed).at("meet"), ways.at(fixed + 1).at("meet"));
    EXPECT_GE(ways.at(fixed + 1).at("end_over_bound"), 1);
  }
  for (const char* own : {"source order", "hierarchical, tokens", "hierarchical, work", "grid, work"})
    EXPECT_EQ(by_name.at(own).at("above_cap"), 0) << own;
  EXPECT_LE(by_name.at("grid, work").at("waiting_every_micro_batch"),
            by_name.at("hierarchical, work").at("waiting_every_micro_batch"));
}

TEST(PlanCommand, compares_the_cost_of_few_shapes_for_ways_that_keep_the_cap) {
  const ScratchFolder scratch;
  std::string lengths = "length\n";
  for (int i = 0; i < 96; ++i) lengths += std::to_string(i % 8 == 0 ? 900 + i : 20 + i) + "\n";
  write_text(scratch / "lengths.csv", lengths);
  const std::string plan = "plan --lengths " + (scratch / "lengths.csv").string() +
                           " --set mesh.dp=4 --set micro_batch.max_tokens=1100 --set micro_batch.shapes=3";
  const ProgramResult compared = run_evenkeel(plan + " --compare --json " + (scratch / "ways.json").string());
  ASSERT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("shapes"));
  const auto ways = nlohmann::json::parse(read_text(scratch / "ways.json"));
  std::map<std::string, double> padding;
  for (const auto& way : ways)
    if (way.contains("padding_to_shapes")) padding[way.at("way")] = way.at("padding_to_shapes");
  EXPECT_THAT(padding, UnorderedElementsAre(Pair("source order", Ge(0)), Pair("hierarchical, tokens", Ge(0)),
                                            Pair("hierarchical, work", Ge(0)), Pair("grid, work", Ge(0))));
  // The default is compared as it is planned.
  const ProgramResult planned = run_evenkeel(plan + " --json " + (scratch / "plan.json").string());
  ASSERT_EQ(planned.status, 0) << planned.err;
  const auto shapes = nlohmann::json::parse(read_text(scratch / "plan.json")).at("shapes");
  EXPECT_DOUBLE_EQ(padding["hierarchical, tokens"],
                   shapes.at("padding").get<double>() / shapes.at("rows").get<double>());
}

TEST(PlanCommand, compares_groups_if_no_cp_divides_the_ranks) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n7\n900\n");
  const std::string plan =
      "plan --compare --lengths " + (scratch / "lengths.csv").string() +
      " --set mesh.dp=7 --set balance.meet=step --set micro_batch.max_tokens_per_rank=600 ";
  const ProgramResult limited = run_evenkeel(plan + "--set mesh.cp=flexible --set mesh.max_cp=2");
  ASSERT_EQ(limited.status, 0) << limited.err;
  EXPECT_THAT(limited.out, HasSubstr("No cp that divides the ranks holds all samples"));
  EXPECT_NE(run_evenkeel(plan + "--set mesh.cp=flexible --set mesh.max_cp=1").status, 0);
}

// With twice as many ranks, the sum of lengths would overflow.
TEST(PlanCommand, compares_under_the_maximum_cap) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n7\n900\n");
  const ProgramResult result = run_evenkeel("plan --compare --lengths " + (scratch / "lengths.csv").string() +
                                            " --set mesh.dp=4 --set micro_batch.max_tokens=2147483647");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("cp flexible"));
}

/// 96 lengths, few of them long, in a separate file.
std::string plan_of_96(const ScratchFolder& scratch) {
  std::string lengths = "length\n";
  for (int i = 0; i < 96; ++i) lengths += std::to_string(i % 8 == 0 ? 900 + i : 20 + i) + "\n";
  write_text(scratch / "lengths.csv", lengths);
  return "plan --lengths " + (scratch / "lengths.csv").string() + " --json " +
         (scratch / "plan.json").string() + " --set micro_batch.max_tokens=1100 ";
}

TEST(PlanCommand, uses_time_if_dp_ranks_have_speeds) {
  const ScratchFolder scratch;
  const std::string plan = plan_of_96(scratch) + "--set mesh.dp=3 --set balance.speeds=[1,0.5,0.5] ";
  const ProgramResult result = run_evenkeel(plan);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("time, max over mean"));
  const auto json = nlohmann::json::parse(read_text(scratch / "plan.json"));
  EXPECT_LT(json.at("balance").at("dp_max_over_mean"), 1.01);
  EXPECT_EQ(json.at("ranks").at(0).at("speed"), 1.0);
  EXPECT_EQ(json.at("ranks").at(1).at("speed"), 0.5);
  EXPECT_NEAR(json.at("ranks").at(0).at("cost").get<double>(),
              2 * json.at("ranks").at(1).at("cost").get<double>(), 100);
  EXPECT_THAT(run_evenkeel(plan + "--compare").out, HasSubstr("hierarchical, speeds"));
  const ProgramResult refused = run_evenkeel(plan + "--set mesh.dp=4");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("balance.speeds: has 3 speeds for 4 DP ranks"));
}

TEST(PlanCommand, packs_by_name_or_counts_by_time) {
  const ScratchFolder scratch;
  const std::string plan = plan_of_96(scratch) + "--set mesh.dp=2 ";
  const auto planned = [&](const std::string& set) {
    const ProgramResult result = run_evenkeel(plan + set);
    EXPECT_EQ(result.status, 0) << result.err;
    const auto json = nlohmann::json::parse(read_text(scratch / "plan.json"));
    for (const auto& rank : json.at("ranks")) {
      for (const auto& micro_batch : rank.at("micro_batches"))
        EXPECT_LE(micro_batch.at("aligned_tokens"), 1100) << set;
    }
    return json.at("num_micro_batches").get<int>();
  };
  const int fewest = planned("");
  for (const char* name : {"first-fit-decreasing", "best-fit-decreasing", "modified-first-fit-decreasing"})
    EXPECT_GE(planned("--set micro_batch.packing=" + std::string(name)), fewest) << name;
  EXPECT_GE(planned("--set micro_batch.count=fastest"), fewest);
}

TEST(PlanCommand, dp_auto_uses_the_remaining_ranks) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\n6\n7\n");
  const std::string plan = "plan --lengths " + (scratch / "lengths.csv").string() + " --set mesh.cp=2 ";
  EXPECT_THAT(run_evenkeel(plan + "--ranks 8").out, HasSubstr("on 4 DP ranks"));
  EXPECT_NE(run_evenkeel(plan + "--ranks 7").status, 0);
  const ProgramResult unsaid = run_evenkeel(plan);
  EXPECT_THAT(unsaid.out, HasSubstr("on 1 DP rank:"));
  EXPECT_THAT(unsaid.err, HasSubstr("--ranks"));
}

TEST(PlanCommand, describes_errors_in_a_length_table) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "length\n5\nmany\n");
  const ProgramResult result = run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string());
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("lengths.csv:3"));
  write_text(scratch / "lengths.csv", "length\n");
  EXPECT_THAT(run_evenkeel("plan --lengths " + (scratch / "lengths.csv").string()).err,
              HasSubstr("lengths.csv: has no samples"));
}

TEST(SynthCommand, equal_seeds_give_equal_files_that_inspect_can_read) {
  const ScratchFolder scratch;
  const std::string synth = "synth --samples 40 --response-median 50 --out ";
  ASSERT_EQ(run_evenkeel(synth + (scratch / "a.jsonl").string()).status, 0);
  ASSERT_EQ(run_evenkeel(synth + (scratch / "b.jsonl").string()).status, 0);
  ASSERT_EQ(run_evenkeel(synth + (scratch / "c.jsonl").string() + " --seed 2").status, 0);
  EXPECT_EQ(read_text(scratch / "a.jsonl"), read_text(scratch / "b.jsonl"));
  EXPECT_NE(read_text(scratch / "a.jsonl"), read_text(scratch / "c.jsonl"));
  const ProgramResult inspect = run_evenkeel("inspect " + (scratch / "a.jsonl").string());
  ASSERT_EQ(inspect.status, 0) << inspect.err;
  EXPECT_THAT(inspect.out, HasSubstr("40 samples in 5 groups"));
  EXPECT_THAT(inspect.out, HasSubstr("reward"));
}

TEST(SynthCommand, takes_numbers_of_tokens_with_a_unit) {
  const ScratchFolder scratch;
  const std::string synth = "synth --samples 40 --out ";
  ASSERT_EQ(run_evenkeel(synth + (scratch / "a.jsonl").string() + " --response-max 1024").status, 0);
  ASSERT_EQ(run_evenkeel(synth + (scratch / "b.jsonl").string() + " --response-max 1k").status, 0);
  EXPECT_EQ(read_text(scratch / "a.jsonl"), read_text(scratch / "b.jsonl"));
}

TEST(ConfigCommand, prints_the_schema_and_checks_a_file) {
  const ScratchFolder scratch;
  EXPECT_THAT(run_evenkeel("config schema").out, HasSubstr("micro_batch.max_tokens"));
  write_text(scratch / "job.yaml", "mesh: {tp: 2}\n");
  const ProgramResult shown =
      run_evenkeel("config show " + (scratch / "job.yaml").string() + " --set mesh.cp=4");
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("tp: 2"));
  EXPECT_THAT(shown.out, HasSubstr("cp: 4"));
  write_text(scratch / "job.yaml", "mesh: {tpp: 2}\n");
  EXPECT_NE(run_evenkeel("config show " + (scratch / "job.yaml").string()).status, 0);
}

}  // namespace
}  // namespace evenkeel
