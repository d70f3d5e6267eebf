#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/dump_reader.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/jsonl.hpp"
#include "job/hash_consumer.hpp"
#include "support/run_program.hpp"
#include "support/safetensors_file.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing_support::expect_dump_matches;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::run_evenkeel;
using testing_support::SafetensorsFile;
using testing_support::ScratchFolder;
using testing_support::write_text;

constexpr std::int64_t num_samples = 70;

/// A folder with rollouts and a configuration that reads them.
class Run : public testing::Test {
 protected:
  Run() {
    const ProgramResult synth =
        run_evenkeel("synth --samples " + std::to_string(num_samples) + " --out " + rollouts().string() +
                     " --prompt-median 40 --response-median 60" + " --prompt-max 200 --response-max 800");
    EXPECT_EQ(synth.status, 0) << synth.err;
    write_text(scratch_ / "job.yaml", "source: {kind: jsonl, path: " + rollouts().string() + "}\n");
  }

  [[nodiscard]] std::filesystem::path rollouts() const { return scratch_ / "rollouts.jsonl"; }
  [[nodiscard]] std::string job() const { return "run " + (scratch_ / "job.yaml").string() + " "; }

  ScratchFolder scratch_;
};

struct MeshCase {
  GridPoint mesh;
  bool zigzag;
  std::int64_t cap;
  std::int64_t global_batch;
};

std::string name_of(const MeshCase& run) {
  const auto& [mesh, zigzag, cap, global_batch] = run;
  return "tp" + std::to_string(mesh.tp) + "_cp" + std::to_string(mesh.cp) + "_dp" + std::to_string(mesh.dp) +
         "_pp" + std::to_string(mesh.pp) + (zigzag ? "_zigzag" : "_contiguous") + "_cap" +
         std::to_string(cap) + "_batch" + std::to_string(global_batch);
}

void PrintTo(const MeshCase& run, std::ostream* out) {
  *out << name_of(run);
}

class RunOverMeshes : public Run, public testing::WithParamInterface<MeshCase> {};

TEST_P(RunOverMeshes, delivers_every_rank_its_share_of_the_rollouts) {
  const auto& [mesh, zigzag, cap, global_batch] = GetParam();
  const int ranks = mesh.tp * mesh.cp * mesh.dp * mesh.pp;
  const std::string settings = " --set mesh.tp=" + std::to_string(mesh.tp) +
                               " --set mesh.cp=" + std::to_string(mesh.cp) +
                               " --set mesh.pp=" + std::to_string(mesh.pp) +
                               " --set pack.cp_layout=" + (zigzag ? "zigzag" : "contiguous") +
                               " --set micro_batch.max_tokens=" + std::to_string(cap) +
                               " --set batch.global_batch=" + std::to_string(global_batch);
  const ProgramResult result =
      mpirun_evenkeel(ranks, job() + "--dump " + (scratch_ / "dump").string() + settings);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("padding removed"));
  const std::int64_t chunks = mesh.cp == 1 ? 1 : mesh.cp * (zigzag ? 2 : 1);
  expect_dump_matches(scratch_ / "dump", rollouts(),
                      {mesh, zigzag, cap, chunks * mesh.tp, (num_samples + global_batch - 1) / global_batch});
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, RunOverMeshes,
    testing::Values(MeshCase{{1, 1, 1, 1}, true, 1024, 70}, MeshCase{{1, 1, 8, 1}, true, 2048, 32},
                    MeshCase{{2, 2, 2, 1}, true, 1024, 70}, MeshCase{{1, 4, 2, 1}, true, 1536, 24},
                    MeshCase{{1, 4, 2, 1}, false, 1536, 24}, MeshCase{{1, 2, 2, 2}, true, 1024, 33},
                    MeshCase{{1, 2, 2, 1}, false, 4096, 70}, MeshCase{{1, 1, 3, 1}, true, 1024, 16},
                    MeshCase{{1, 1, 5, 1}, true, 16384, 9}, MeshCase{{1, 1, 7, 1}, true, 1024, 3}),
    [](const auto& mesh_case) { return name_of(mesh_case.param); });

class RunInWaysToPlan : public Run, public testing::WithParamInterface<const char*> {};

TEST_P(RunInWaysToPlan, delivers_every_rank_its_share_of_the_rollouts) {
  const ProgramResult result = mpirun_evenkeel(
      4, job() + "--dump " + (scratch_ / "dump").string() +
             " --set mesh.cp=2 --set micro_batch.max_tokens=1400 --set batch.global_batch=35 " + GetParam());
  ASSERT_EQ(result.status, 0) << result.err;
  expect_dump_matches(scratch_ / "dump", rollouts(), {{1, 2, 2, 1}, true, 1400, 4, 2});
}

INSTANTIATE_TEST_SUITE_P(Planned, RunInWaysToPlan,
                         testing::Values("--set balance.strategy=grid",
                                         "--set balance.strategy=grid --set balance.cost=flops-7b",
                                         "--set balance.speeds=[1,0.5]", "--set micro_batch.count=fastest",
                                         "--set micro_batch.packing=modified-first-fit-decreasing",
                                         "--set balance.cost=measured"));

TEST_F(Run, padded_and_fixed_micro_batches_hold_the_same_rollouts) {
  for (const auto& [mode, alignment] : {std::pair{"padded", 64}, {"fixed", 8}}) {
    for (const std::int64_t cap : {1024, 16384}) {
      const std::filesystem::path dump = scratch_ / (mode + std::to_string(cap));
      const ProgramResult result = mpirun_evenkeel(
          8, job() + "--dump " + dump.string() + " --set micro_batch.mode=" + mode +
                 " --set micro_batch.size=5 --set mesh.tp=2 --set mesh.cp=2 --set batch.global_batch=35" +
                 " --set micro_batch.max_tokens=" + std::to_string(cap));
      ASSERT_EQ(result.status, 0) << result.err;
      expect_dump_matches(dump, rollouts(), {{2, 2, 2, 1}, true, cap, alignment, 2});
    }
  }
}

TEST_F(Run, a_padded_micro_batch_is_dumped_as_a_rectangle) {
  const ProgramResult result = mpirun_evenkeel(
      2, job() + "--dump " + (scratch_ / "dump").string() + " --set micro_batch.mode=padded --set mesh.cp=2");
  ASSERT_EQ(result.status, 0) << result.err;
  const SafetensorsFile file(scratch_ / "dump/step-000000/dp-000/cp-001/tp-000/pp-000/mb-00000.safetensors");
  const std::vector<std::int64_t> shape = file.at("input_ids").shape;
  ASSERT_EQ(shape.size(), 2U);
  EXPECT_EQ(shape[0], file.at("sample_index").shape.at(0));
  EXPECT_EQ(shape[1] * 2 % 64, 0);
  EXPECT_EQ(file.metadata().at("layout"), "padded");
}

TEST_F(Run, runs_several_profiles_per_step_with_a_folder_each) {
  const ProgramResult result = mpirun_evenkeel(
      4,
      job() + "--profiles log_prob,update --dump " + (scratch_ / "dump").string() + " --results " +
          (scratch_ / "results").string() + " --report " + (scratch_ / "report").string() +
          " --set mesh.cp=2 --set batch.global_batch=40 --set profiles.log_prob.micro_batch.max_tokens=8192"
          " --set profiles.update.micro_batch.max_tokens=1024");
  ASSERT_EQ(result.status, 0) << result.err;
  expect_dump_matches(scratch_ / "dump/log_prob", rollouts(), {{1, 2, 2, 1}, true, 8192, 4, 2});
  expect_dump_matches(scratch_ / "dump/update", rollouts(), {{1, 2, 2, 1}, true, 1024, 4, 2});
  EXPECT_EQ(read_text(scratch_ / "results/log_prob/step-000001.safetensors"),
            read_text(scratch_ / "results/update/step-000001.safetensors"));
  const auto steps = nlohmann::json::parse(read_text(scratch_ / "report/report.json")).at("steps");
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[1].at("profile"), "update");
  EXPECT_EQ(steps[1].at("bytes").at("sent"), 0);  // no token moves twice
  EXPECT_THAT(result.out, HasSubstr("profile update"));
}

TEST_F(Run, counts_and_reports_samples_and_steps_without_loss) {
  const auto rollout = [](const char* uid, const char* mask) {
    return std::string(R"({"uid": ")") + uid +
           R"(", "prompt_ids": [1, 2], "response_ids": [3, 4], "loss_mask": )" + mask + "}\n";
  };
  write_text(scratch_ / "masked.jsonl", rollout("a", "[0, 1]") + rollout("b", "[0, 0]") +
                                            rollout("c", "[0, 0]") + rollout("d", "[0, 0]"));
  const std::string masked =
      job() + " --set source.path=" + (scratch_ / "masked.jsonl").string() + " --set batch.global_batch=2 ";
  const auto reported = [&](const std::string& settings) {
    const std::filesystem::path report = scratch_ / "report";
    const ProgramResult result =
        mpirun_evenkeel(2, masked + settings + " --overwrite --report " + report.string());
    EXPECT_EQ(result.status, 0) << result.err;
    return std::pair(result, nlohmann::json::parse(read_text(report / "report.json")));
  };
  const auto [kept, of_kept] = reported("");
  EXPECT_THAT(kept.err, HasSubstr("step 0: 1 sample has no token that carries loss"));
  EXPECT_THAT(kept.err, HasSubstr("step 1: no token carries loss, so it trains nothing"));
  EXPECT_THAT(kept.out, HasSubstr("1; 3 samples have none"));
  EXPECT_EQ(of_kept.at("steps").at(0).at("loss_tokens"), 1);
  EXPECT_EQ(of_kept.at("steps").at(1).at("samples_without_loss"), 2);
  EXPECT_THAT(of_kept.at("advice").dump(), HasSubstr("no token carries loss"));

  const auto [dropped, of_dropped] = reported("--set batch.without_loss=drop");
  EXPECT_THAT(dropped.out, HasSubstr("1; 3 samples without any were dropped"));
  EXPECT_EQ(of_dropped.at("steps").at(0).at("samples"), 1);
  EXPECT_EQ(of_dropped.at("steps").at(1).at("dropped_without_loss"), 2);
  EXPECT_EQ(of_dropped.at("steps").at(1).at("samples"), 0);

  const ProgramResult refused = mpirun_evenkeel(2, masked + "--set batch.without_loss=error");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("sample 1: has no token that carries loss"));
}

TEST_F(Run, a_sample_above_the_maximum_length_is_an_error_before_the_first_step) {
  const ProgramResult result = mpirun_evenkeel(2, job() + "--set batch.max_length=10");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("tokens; batch.max_length is 10. Raise it, or set batch.too_long to"));
}

TEST_F(Run, refuses_processes_that_mpi_does_not_connect) {
  const auto started_by = [&](const std::string& variables) {
    return run_command("env " + variables + " " + EVENKEEL_PROGRAM + " " + job());
  };
  for (const auto& [variables, launcher] :
       {std::pair{"WORLD_SIZE=4 RANK=0 LOCAL_RANK=0", "torchrun started 4 processes (WORLD_SIZE=4)"},
        {"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=8 SLURM_PROCID=0", "srun started 8 processes"},
        {"PMI_SIZE=2 PMI_RANK=0", "an MPI launcher (PMI) started 2 processes (PMI_SIZE=2)"},
        {"MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_RANK=0", "the mpirun of MVAPICH started 2 processes"}}) {
    const ProgramResult result = started_by(variables);
    EXPECT_EQ(result.status, 2) << variables;
    EXPECT_THAT(result.err, HasSubstr(launcher));
  }
  const ProgramResult other = started_by("WORLD_SIZE=4 RANK=1 LOCAL_RANK=1");
  EXPECT_EQ(other.status, 2);
  EXPECT_EQ(other.err, "");
  // A Slurm allocation, a pod, an interactive step, and a launcher with one process.
  for (const char* variables :
       {"SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_JOB_ID=1", "WORLD_SIZE=2 RANK=0",
        "SLURM_NTASKS=8 SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=1", "WORLD_SIZE=1 RANK=0 LOCAL_RANK=0"})
    EXPECT_EQ(started_by(variables).status, 0) << variables;
}

TEST_F(Run, an_unknown_profile_is_an_error_that_lists_the_names) {
  const ProgramResult result =
      mpirun_evenkeel(2, job() + "--profiles updat --set profiles.update.micro_batch.max_tokens=1024");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("there is no profile 'updat'. The profiles are: update"));
}

TEST_F(Run, presets_deliver_every_rollout_and_the_report_shows_broken_caps) {
  for (const char* preset : {"mindspeed-rl", "roll", "verl"}) {
    const std::filesystem::path report = scratch_ / preset;
    const ProgramResult result =
        mpirun_evenkeel(2, job() + "--report " + report.string() + " --dump " +
                               (scratch_ / "dump" / preset).string() + " --set balance.preset=" + preset);
    ASSERT_EQ(result.status, 0) << result.err;
    const auto step = nlohmann::json::parse(read_text(report / "report.json")).at("steps").at(0);
    const bool above = step.at("widest_micro_batch") > step.at("max_tokens");
    EXPECT_EQ(step.at("micro_batches_above_cap") > 0, above);
    // A cap that is far above any micro-batch of this run.
    expect_dump_matches(scratch_ / "dump" / preset, rollouts(), {{1, 1, 2, 1}, true, 1 << 20, 1, 1});
  }
}

/// Returns the hash of every token, computed from the rollouts directly.
std::vector<std::int64_t> expected_hashes(const std::filesystem::path& rollouts) {
  const InputFile file(rollouts);
  const LineScan scan = scan_lines(file);
  const RaggedBatch batch = read_samples(file, scan.lines, infer_schema(file, scan.lines));
  const auto tokens = batch.at("input_ids").values<std::int64_t>();
  std::vector<std::int64_t> hashes;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      hashes.push_back(token_hash(tokens[static_cast<std::size_t>(row)], SampleId{i}, row - rows.begin));
    }
  }
  return hashes;
}

TEST_F(Run, collects_results_in_source_order) {
  const std::vector<std::int64_t> expected = expected_hashes(rollouts());
  for (const auto& [ranks, mesh] : {std::pair{1, ""},
                                    {2, "--set mesh.cp=2"},
                                    {3, ""},
                                    {4, "--set mesh.cp=4"},
                                    {7, ""},
                                    {8, "--set mesh.tp=2 --set mesh.cp=2"},
                                    {8, "--set mesh.cp=2 --set mesh.pp=2"},
                                    {4, "--set mesh.cp=2 --set micro_batch.mode=padded"},
                                    {4, "--set micro_batch.mode=fixed --set micro_batch.size=3"},
                                    {2, "--set exchange.prefetch=0"},
                                    {3, "--set exchange.prefetch=2"},
                                    {4, "--set batch.mini_batches=3 --set batch.keep_mini_batch=false"}}) {
    const std::filesystem::path results = scratch_ / "results";
    std::filesystem::remove_all(results);
    const ProgramResult run =
        mpirun_evenkeel(ranks, job() + mesh + " --results " + results.string() +
                                   " --set batch.global_batch=29 --set micro_batch.max_tokens=1024");
    ASSERT_EQ(run.status, 0) << run.err;
    std::vector<std::int64_t> hashes;
    std::int64_t sample = 0;
    for (const char* step : {"step-000000", "step-000001", "step-000002"}) {
      const SafetensorsFile file(results / (std::string(step) + ".safetensors"));
      const std::span<const std::byte> bytes = file.at("token_hash").bytes;
      const std::size_t before = hashes.size();
      hashes.resize(before + bytes.size() / sizeof(std::int64_t));
      std::memcpy(hashes.data() + before, bytes.data(), bytes.size());
      sample += file.at("sample_index").shape.at(0);
    }
    EXPECT_EQ(sample, num_samples);
    EXPECT_TRUE(hashes == expected) << ranks << " ranks " << mesh;
  }
}

/// Returns the bytes of one result of a run with one step.
std::string result_bytes(const std::filesystem::path& results, const char* name) {
  const SafetensorsFile file(results / "step-000000.safetensors");
  const std::span<const std::byte> bytes = file.at(name).bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(Run, shared_prefixes_give_the_same_results_for_every_response) {
  const auto run = [&](int ranks, const std::string& settings) {
    const ProgramResult result =
        mpirun_evenkeel(ranks, job() + "--overwrite --dump " + (scratch_ / "dump").string() + " --results " +
                                   (scratch_ / "results").string() + " --report " +
                                   (scratch_ / "report").string() + settings);
    EXPECT_EQ(result.status, 0) << result.err;
    return result_bytes(scratch_ / "results", "response_hash") +
           result_bytes(scratch_ / "results", "sample_hash");
  };
  const std::string expected = run(1, "");
  for (const auto& [ranks, mesh] :
       {std::pair{1, ""}, {2, ""}, {4, " --set mesh.cp=2"}, {8, " --set mesh.cp=2"}}) {
    for (const char* share : {"true", "tree"}) {
      EXPECT_TRUE(run(ranks, std::string(mesh) + " --set micro_batch.max_tokens=1024 --set prefix.share=" +
                                 share) == expected)
          << ranks << " ranks, " << share;
    }
  }
  const SafetensorsFile file(scratch_ / "dump/step-000000/dp-000/cp-001/tp-000/pp-000/mb-00000.safetensors");
  const std::int64_t segments = file.at("cu_seqlens").shape.at(0) - 1;
  for (const char* name : {"segment_sample", "segment_group", "segment_parent"})
    EXPECT_EQ(file.at(name).shape, std::vector<std::int64_t>{segments}) << name;
  EXPECT_EQ(file.at("sample_index").shape.at(0) + 1, file.at("prediction_offsets").shape.at(0));
  const auto step = nlohmann::json::parse(read_text(scratch_ / "report/report.json")).at("steps").at(0);
  EXPECT_LT(step.at("sharing").at("tokens"), step.at("sharing").at("tokens_without"));
  EXPECT_LT(step.at("sharing").at("score_entries"), step.at("sharing").at("score_entries_without"));
}

TEST_F(Run, writes_a_report_for_people_and_one_for_programs) {
  const ProgramResult result =
      mpirun_evenkeel(4, job() + "--set mesh.cp=2 --report " + (scratch_ / "report").string());
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(read_text(scratch_ / "report/report.txt"), result.out);
  const auto report = nlohmann::json::parse(read_text(scratch_ / "report/report.json"));
  EXPECT_EQ(report.at("mesh").at("dp"), 2);
  ASSERT_EQ(report.at("steps").size(), 1U);
  const auto& step = report.at("steps")[0];
  EXPECT_EQ(step.at("samples"), num_samples);
  EXPECT_GT(step.at("padded_tokens"), step.at("aligned_tokens"));
  EXPECT_GE(step.at("dp_max_over_mean_before"), step.at("balance").at("dp_max_over_mean"));
  EXPECT_GE(step.at("num_micro_batches"), step.at("micro_batches_lower_bound"));
  EXPECT_EQ(step.at("micro_batches_above_cap"), 0);
  EXPECT_GT(step.at("waited_seconds"), 0);
  const auto& metrics = step.at("metrics");
  EXPECT_EQ(metrics.at("dynamic_batching/valid_tokens"), step.at("tokens"));
  EXPECT_EQ(metrics.at("dynamic_batching/actual_tokens"), step.at("aligned_tokens"));
  EXPECT_GT(metrics.at("dynamic_batching/removed_padding_ratio"), 0);
  EXPECT_LE(metrics.at("global_seqlen/balanced_max"), metrics.at("global_seqlen/max"));
  EXPECT_GE(metrics.at("global_seqlen/balanced_min"), metrics.at("global_seqlen/min"));
}

TEST_F(Run, epochs_deliver_every_sample_again) {
  const ProgramResult result = mpirun_evenkeel(
      2, job() + "--set batch.epochs=2 --set batch.shuffle=true --report " + (scratch_ / "r").string());
  ASSERT_EQ(result.status, 0) << result.err;
  const auto report = nlohmann::json::parse(read_text(scratch_ / "r/report.json"));
  std::int64_t samples = 0;
  for (const auto& step : report.at("steps")) samples += step.at("samples").get<std::int64_t>();
  EXPECT_EQ(samples, 2 * num_samples);
}

TEST_F(Run, the_plan_is_the_same_on_every_rank_count_and_path) {
  const auto dumped = [&](int ranks, const std::string& path) {
    const std::filesystem::path dump = scratch_ / ("dump-" + std::to_string(ranks) + path);
    const ProgramResult result =
        mpirun_evenkeel(ranks, job() + "--dump " + dump.string() +
                                   " --set mesh.dp=2 --set mesh.tp=" + std::to_string(ranks / 2) +
                                   " --set pack.align=1 --set exchange.path=" + path);
    EXPECT_EQ(result.status, 0) << result.err;
    return testing_support::read_part(dump / "step-000000/dp-001/cp-000/tp-000/pp-000/mb-00000.safetensors");
  };
  const auto expected = dumped(2, "auto");
  EXPECT_TRUE(dumped(2, "alltoallv") == expected);
  EXPECT_TRUE(dumped(4, "point-to-point") == expected);
  EXPECT_TRUE(dumped(8, "shared-memory") == expected);
  EXPECT_TRUE(dumped(8, "alltoallv") == expected);
}

}  // namespace
}  // namespace evenkeel
