#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_program.hpp"

// Results are not tested, only that each benchmark finishes for a small case and writes the documented keys.

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::ScratchFolder;
using testing_support::write_text;

ProgramResult run_bench(const std::string& arguments) {
  return run_command(std::string(EVENKEEL_BENCH) + " " + arguments);
}

ProgramResult mpirun_bench(int ranks, const std::string& arguments) {
  return run_command(std::string(EVENKEEL_MPIRUN) + " -np " + std::to_string(ranks) + " " + EVENKEEL_BENCH +
                     " " + arguments);
}

nlohmann::json written(const ScratchFolder& scratch) {
  return nlohmann::json::parse(read_text(scratch / "bench.json"));
}

std::string json_option(const ScratchFolder& scratch) {
  return " --json " + (scratch / "bench.json").string();
}

void expect_machine_and_sizes(const nlohmann::json& report) {
  EXPECT_FALSE(report.at("machine").at("cpu").get<std::string>().empty());
  EXPECT_GE(report.at("machine").at("cores"), 1);
  EXPECT_FALSE(report.at("sizes").empty());
}

TEST(BenchPack, writes_every_case_with_its_spread_and_its_speed_against_memcpy) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_bench("pack --sequences 9 --row-bytes 3 --cp 2 --repeat 2" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("| pack |"));
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  EXPECT_EQ(report.at("ragged").at(0).at("case"), "memcpy");
  for (const char* table : {"ragged", "padded", "groups", "derived"}) {
    for (const auto& row : report.at(table)) {
      EXPECT_LE(row.at("ms_min"), row.at("ms_median"));
      EXPECT_LE(row.at("ms_median"), row.at("ms_max"));
      EXPECT_GT(row.at("bytes"), 0);
      EXPECT_GT(row.at("speed"), 0);
    }
  }
}

TEST(BenchPack, warm_times_the_kernels_on_one_set_of_buffers) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_bench("pack --warm --sequences 9 --cp 2 --repeat 2" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  EXPECT_EQ(report.at("sizes").at("buffer_sets"), 1);
  EXPECT_GT(report.at("ragged").at(1).at("speed"), 0);
  EXPECT_FALSE(report.contains("derived"));
}

TEST(BenchPack, explains_a_missing_comparison_with_another_language) {
  const ProgramResult result = run_bench("pack --sequences 2 --repeat 1 --python no-such-python");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("'no-such-python' cannot be run"));
}

TEST(BenchStream, forms_steps_and_simulates_jobs_with_synthetic_and_given_lengths) {
  const ScratchFolder scratch;
  write_text(scratch / "lengths.csv", "prompt_length,response_length\n10,900\n20,30\n30,200\n40000,1\n");
  const ProgramResult result = run_bench("stream --groups 4 --group-size 2 --steps 3 --repeat 1 --lengths " +
                                         (scratch / "lengths.csv").string() + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  EXPECT_EQ(report.at("forming").size(), 9);
  EXPECT_EQ(report.at("steps").back().at("lengths"), "lengths");
  for (const auto& row : report.at("steps")) EXPECT_GE(row.at("first_come"), 0.99);
  for (const auto& row : report.at("jobs")) EXPECT_GT(row.at("speed"), 0);
}

TEST(BenchBuffer, measures_intake_and_a_full_buffer) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_bench("buffer --bytes 4000000 --held 4000000 --producers 2 --repeat 1 --idle 0.1 --folder " +
                scratch.path().string() + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  for (const char* table : {"durable", "memory", "fields"}) EXPECT_EQ(report.at(table).size(), 2) << table;
  for (const auto& row : report.at("memory")) EXPECT_GT(row.at("x"), 0);
  EXPECT_GT(report.at("held").at(0).at("memory_mib"), 1);
}

TEST(BenchPlan, never_breaks_the_cap_and_agrees_with_python) {
  const ScratchFolder scratch;
  std::string lengths = "length\n200000\n";
  for (int i = 1; i <= 80; ++i) lengths += std::to_string(i * 400) + "\n";
  write_text(scratch / "lengths.csv", lengths);
  const ProgramResult result = run_bench("plan --max-items 600 --draws 5 --repeat 1 --lengths " +
                                         (scratch / "lengths.csv").string() + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  ASSERT_EQ(report.at("karmarkar_karp").size(), 2U);
  if (report.at("notes").empty()) {  // there is a Python
    for (const auto& row : report.at("karmarkar_karp")) EXPECT_EQ(row.at("equal_sums"), "yes");
  }
  for (const auto& row : report.at("automatic")) EXPECT_GE(row.at("max_over_lower_bound"), 1.0);
  for (const char* table : {"capped", "capped_from_table"}) {
    const nlohmann::json& ours = report.at(table).back();
    EXPECT_EQ(ours.at("method"), "evenkeel");
    EXPECT_EQ(ours.at("broken"), 0);
    EXPECT_GE(ours.at("max_over_mean"), ours.at("least_max_over_mean"));
  }
  EXPECT_FALSE(report.contains("scale"));  // more samples than --max-items
  EXPECT_FALSE(report.contains("ranks"));
}

TEST(BenchPlan, reports_a_missing_table_of_lengths_first) {
  const ProgramResult result = run_bench("plan --lengths /does/not/exist.csv");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("/does/not/exist.csv"), std::string::npos) << result.err;
}

TEST(BenchPlan, compares_grids_and_placement_with_baselines_and_bounds) {
  const ScratchFolder scratch;
  const ProgramResult result = run_bench("plan --max-items 600 --draws 1 --repeat 1" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  ASSERT_EQ(report.at("grid").size(), 3U);
  for (const auto& row : report.at("grid")) {
    EXPECT_LT(row.at("grid_every"), row.at("twice_every"));
    EXPECT_GE(row.at("grid_every"), row.at("least"));
  }
  ASSERT_EQ(report.at("placement").size(), 1U);
  const nlohmann::json& placement = report.at("placement").front();
  EXPECT_LT(placement.at("moved"), placement.at("moved_by_number"));
  EXPECT_EQ(placement.at("ratio"), placement.at("least_ratio"));
}

TEST(BenchExchange, compares_every_path_with_memcpy_and_alltoallv) {
  const ScratchFolder scratch;
  const ProgramResult result =
      mpirun_bench(3, "exchange --bytes 100000 --samples 7 --repeat 2" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  EXPECT_EQ(report.at("sizes").at("ranks"), 3);
  EXPECT_GT(report.at("sizes").at("bytes_over_all_ranks"), 100000);
  ASSERT_GE(report.at("exchange").size(), 4U);
  for (const auto& row : report.at("exchange")) EXPECT_GT(row.at("speed_of_alltoallv"), 0);
}

TEST(BenchLayers, counts_what_narrowing_saves_and_compares_with_memcpy) {
  const ScratchFolder scratch;
  const ProgramResult result =
      mpirun_bench(4, "layers --bytes 400000 --samples 4 --repeat 2" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  EXPECT_EQ(report.at("sizes").at("mesh"), "cp 1 x dp 1 x pp 4");
  ASSERT_EQ(report.at("layers").size(), 5U);
  const std::int64_t brought = report.at("sizes").at("bytes_over_all_ranks");
  EXPECT_EQ(report.at("layers").at(2).at("bytes"), brought) << "each layer of each token, once";
  EXPECT_EQ(report.at("layers").at(3).at("bytes"), brought)
      << "one node: nothing is sent, nor narrowed for it";
  EXPECT_EQ(report.at("layers").at(4).at("bytes"), brought / 2);
  for (const auto& row : report.at("layers")) EXPECT_GT(row.at("speed_of_memcpy"), 0);
  ASSERT_EQ(report.at("rows").size(), 2U);
  EXPECT_EQ(report.at("rows").at(1).at("bytes"), report.at("rows").at(0).at("bytes")) << "each row once";
  EXPECT_GT(report.at("rows").at(1).at("bytes"), 0);
  for (const auto& row : report.at("rows")) EXPECT_GT(row.at("speed_of_memcpy"), 0);
}

TEST(BenchStep, shows_phases_that_add_up_to_the_step) {
  const ScratchFolder scratch;
  const ProgramResult result =
      mpirun_bench(2, "step --bytes 100000 --samples 8 --repeat 3" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  const double step = report.at("phases").back().at("ms");
  EXPECT_EQ(report.at("phases").back().at("phase"), "step");
  for (const char* column : {"ms", "front_ms"}) {
    double sum = 0;
    for (const auto& row : report.at("phases")) sum += row.at(column).get<double>();
    EXPECT_NEAR(sum, 2 * step, 1e-6 * step) << column;
  }
  const double planning = report.at("planning").at(0).at("ms_median");
  EXPECT_NEAR(report.at("planning").at(0).at("share"), planning / step * 100, 1e-6);
  EXPECT_NEAR(report.at("steps").at(0).at("ms_median"), step, 1e-6 * step);
}

TEST(BenchRead, reads_all_of_a_file_in_every_order) {
  const ScratchFolder scratch;
  const ProgramResult result = mpirun_bench(2, "read --bytes 1048576 --samples 8 --repeat 1 --folder " +
                                                   scratch.path().string() + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  ASSERT_EQ(report.at("reads").size(), 18U);
  for (const auto& row : report.at("reads")) {
    EXPECT_GT(row.at("mib_s_median"), 0);
    EXPECT_GT(row.at("of_sequential"), 0);
  }
}

TEST(BenchPrefix, packs_and_sends_every_prefix_once_per_group) {
  const ScratchFolder scratch;
  const ProgramResult result =
      mpirun_bench(2, "prefix --tokens 3000 --response 8 --repeat 1" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  ASSERT_EQ(report.at("packed").size(), 16U);
  ASSERT_EQ(report.at("moved").size(), 16U);
  const auto triangle = [](std::int64_t rows) { return rows * (rows + 1) / 2; };
  for (std::size_t i = 0; i < 16; ++i) {
    const nlohmann::json& packed = report.at("packed").at(i);
    const nlohmann::json& moved = report.at("moved").at(i);
    const std::int64_t size = packed.at("group_size");
    const std::int64_t groups = packed.at("groups");
    const std::int64_t response = 8;
    const auto prefix = static_cast<std::int64_t>(packed.at("ratio").get<double>() * 8);
    EXPECT_EQ(packed.at("rows"), groups * (prefix + size * response));
    EXPECT_EQ(packed.at("repeated_rows"), groups * size * (prefix + response));
    EXPECT_EQ(packed.at("repeated_score_entries"), groups * size * triangle(prefix + response));
    EXPECT_EQ(packed.at("score_entries"),
              groups * (triangle(prefix) + size * (triangle(prefix + response) - triangle(prefix))));
    EXPECT_EQ(moved.at("bytes"), 8 * groups * (prefix + size * response));
    EXPECT_EQ(moved.at("repeated_bytes"), 8 * groups * size * (prefix + response));
  }
  EXPECT_EQ(report.at("packed").front().at("ratio"), 0.25);
  EXPECT_EQ(report.at("packed").back().at("ratio"), 16);
  EXPECT_EQ(report.at("packed").back().at("group_size"), 64);
}

TEST(BenchPrefix, counts_the_prefixes_that_groups_above_the_cap_repeat) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_bench("prefix --tokens 100 --response 4 --cap 80 --repeat 1" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  // G 4, prefix 64: 64 + 4 * 4 = 80 just fits. G 8: two sub-groups of 4.
  EXPECT_EQ(report.at("packed").at(3).at("rows"), 80);
  EXPECT_EQ(report.at("packed").at(7).at("rows"), 160);
}

TEST(BenchSoak, reports_speed_and_memory_of_ten_parts_and_continues_after_errors) {
  const ScratchFolder scratch;
  const ProgramResult result =
      mpirun_bench(3, "soak --steps 100 --samples 12 --fail-every 10" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  EXPECT_EQ(report.at("sizes").at("errors"), 10);
  ASSERT_EQ(report.at("soak").size(), 10U);
  for (const auto& part : report.at("soak")) {
    EXPECT_EQ(part.at("steps"), 10);
    EXPECT_GT(part.at("steps_per_second"), 0);
    EXPECT_GT(part.at("own_mib"), 0);
  }
}

TEST(BenchSoak, requires_a_step_in_each_part) {
  EXPECT_EQ(run_bench("soak --steps 9").status, 2);
}

TEST(BenchStep, shows_how_long_a_trainer_waits_for_steps_made_ahead) {
  const ScratchFolder scratch;
  const ProgramResult result =
      mpirun_bench(2, "step --bytes 100000 --samples 8 --repeat 3 --prefetch 2" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = written(scratch);
  ASSERT_EQ(report.at("prefetch").size(), 2U);
  for (const auto& row : report.at("prefetch")) {
    EXPECT_GE(row.at("cores"), 1);
    EXPECT_EQ(row.at("depth"), 2);
    EXPECT_NEAR(row.at("compute_ms").get<double>(), 1.2 * row.at("data_ms").get<double>(), 1e-6);
    EXPECT_LE(row.at("wait_ms_median"), row.at("wait_ms_max"));
  }
}

TEST(Bench, refuses_wrong_words_with_status_2) {
  for (const auto& [words, line] : std::vector<std::pair<std::string, std::string>>{
           {"", "See: evenkeel-bench --help"},
           {"plan --cap 32kb", "--cap: '32kb' is not an integer; allowed: 1 to 2^63 - 1"},
           {"pack --repeat x", "--repeat: 'x' is not an integer; allowed: 1 to 2147483647"},
           {"read --folder ''", "--folder: needs a value, but the value is empty"}}) {
    const ProgramResult result = run_bench(words);
    EXPECT_EQ(result.status, 2) << words;
    EXPECT_THAT(result.err, HasSubstr(line));
  }
  EXPECT_EQ(mpirun_bench(2, "exchange --bytes none").status, 2);
  EXPECT_THAT(run_bench("--help").out, HasSubstr("evenkeel-bench pack"));
}

}  // namespace
}  // namespace evenkeel
