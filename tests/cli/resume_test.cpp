#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// 24 samples in steps of 4, two epochs, in a folder that all commands run in.
class Resume : public testing::Test {
 protected:
  Resume() {
    write_text(scratch_ / "job.yaml",
               "source: {kind: synthetic, samples: 24}\n"
               "batch: {global_batch: 4, epochs: 2, shuffle: true}\n"
               "micro_batch: {max_tokens: 1048576}\n");
  }

  /// Runs a shell script in the folder, where $run starts a job of one rank and $run2 one of two.
  [[nodiscard]] ProgramResult shell(const std::string& script) const {
    write_text(scratch_ / "script.sh", "evenkeel='" EVENKEEL_PROGRAM "'\n" +
                                           std::string("mpirun='" EVENKEEL_MPIRUN "'\n") +
                                           "run=\"$evenkeel run job.yaml --progress off\"\n"
                                           "run2=\"$mpirun -np 2 $run\"\nset -e; cd " +
                                           scratch_.path().string() + "\n" + script + "\n");
    return run_command("bash " + (scratch_ / "script.sh").string());
  }
  ProgramResult expect_success(const std::string& script) const {
    ProgramResult result = shell(script);
    EXPECT_EQ(result.status, 0) << script << "\n" << result.err;
    return result;
  }
  void expect_refusal(const std::string& script, const std::vector<std::string>& parts) const {
    const ProgramResult result = shell(script);
    EXPECT_NE(result.status, 0) << script;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part)) << script;
  }
  void expect_equal_folders(const std::string& one, const std::string& other) const {
    expect_success("diff -r --exclude=evenkeel-run.json " + one + " " + other);
  }
  [[nodiscard]] nlohmann::json marker_of(const std::string& folder) const {
    return nlohmann::json::parse(read_text(scratch_ / (folder + "/evenkeel-run.json")));
  }

  ScratchFolder scratch_;
};

TEST_F(Resume, run_after_run_writes_what_one_run_would_have) {
  expect_success("$run --dump whole --results whole-results");
  for (const int upto : {1, 2, 5, 6, 7, 11, 12}) {
    expect_success("$run --dump dump --results results --state state --resume --steps " +
                   std::to_string(upto));
    EXPECT_EQ(marker_of("dump")["steps"], upto);
  }
  expect_equal_folders("whole", "dump");
  expect_equal_folders("whole-results", "results");
  EXPECT_EQ(marker_of("dump")["files"]["dump"], marker_of("whole")["files"]["dump"]);
  EXPECT_EQ(marker_of("results")["files"]["results"], 12);
}

TEST_F(Resume, in_a_window_of_delayed_outliers_continues_with_the_remaining_steps) {
  const std::string delay =
      " --set batch.delay_outliers=3 --set batch.outlier_length=2000 --set batch.outliers_per_step=2"
      " --set balance.cost=flops-7b";
  expect_success("$run --dump in-order --set balance.cost=flops-7b");
  expect_success("$run --dump whole --report report" + delay);
  EXPECT_NE(shell("diff -r --exclude=evenkeel-run.json in-order whole").status, 0);
  const auto report = nlohmann::json::parse(read_text(scratch_ / "report/report.json"));
  EXPECT_GT(report.at("delay").at("samples"), 0);
  EXPECT_LT(report.at("delay").at("planned_over_in_order").at("every_micro_batch"), 1);
  for (const int upto : {1, 2, 3, 5, 6, 7, 12})
    expect_success("$run --dump dump --state state --resume --steps " + std::to_string(upto) + delay);
  expect_equal_folders("whole", "dump");
  expect_refusal("$run --dump dump --state state --resume" + delay + " --set balance.overhead=1",
                 {"balance.overhead was auto and is now 1 (steps would repeat some samples"});
}

TEST_F(Resume, without_a_state_starts_a_new_job) {
  const ProgramResult first = expect_success("$run --dump dump --state state --resume");
  EXPECT_THAT(first.err, testing::Not(HasSubstr("goes on")));
  const ProgramResult again = expect_success("$run --dump dump --state state --resume");
  EXPECT_THAT(again.err, HasSubstr("resumes with step 12, 0 steps left"));
}

TEST_F(Resume, with_an_earlier_last_step_changes_nothing) {
  expect_success("$run --dump dump --state state --steps 5");
  expect_success("$run --dump dump --state state --resume --steps 3");
  EXPECT_EQ(marker_of("dump")["steps"], 5);
  EXPECT_THAT(expect_success("$evenkeel inspect dump").out, HasSubstr("missing        nothing"));
  expect_success("$run --dump whole; $run --dump dump --state state --resume");
  expect_equal_folders("whole", "dump");
}

TEST_F(Resume, on_another_mesh_gives_the_steps_that_mesh_would_have_had) {
  expect_success("$run2 --dump one --set mesh.cp=2");
  expect_success("$run2 --dump two");
  expect_success("$run2 --dump dump --state state --steps 7 --set mesh.cp=2");
  expect_success("$run2 --dump dump --state state --resume");
  for (const auto* const script :
       {"for s in 0 1 2 3 4 5 6; do diff -r one/step-00000$s dump/step-00000$s; done",
        "for s in 07 08 09 10 11; do diff -r two/step-0000$s dump/step-0000$s; done"})
    expect_success(script);
  for (const std::string dump : {"one", "dump"})
    expect_success("$evenkeel convert --progress off " + dump + " " + dump + ".safetensors");
  expect_success("cmp one.safetensors dump.safetensors");
}

TEST_F(Resume, reports_missing_files_of_earlier_runs) {
  expect_success("$run2 --dump whole");
  expect_success("$run2 --dump dump --results results --state state --steps 4");
  const std::string lost = "step-000001/dp-001/cp-000/tp-000/pp-000/mb-00000.safetensors";
  fs::remove(scratch_ / ("dump/" + lost));
  fs::remove(scratch_ / "results/step-000002.safetensors");
  expect_success("$run2 --dump dump --results results --state state --resume");
  const int written = marker_of("whole")["files"]["dump"];
  EXPECT_THAT(expect_success("$evenkeel inspect dump").out,
              HasSubstr("missing        1 of " + std::to_string(written) +
                        " files of the dump, the first at " + lost));
  EXPECT_THAT(expect_success("$evenkeel inspect results").out,
              HasSubstr("missing        1 of 12 files of the results, the first at step-000002"));
  expect_refusal("$evenkeel convert dump d.safetensors", {lost + ": is missing"});
}

TEST_F(Resume, with_other_profiles_refuses_the_folders_of_the_first_run) {
  write_text(scratch_ / "job.yaml", read_text(scratch_ / "job.yaml") + "profiles: {a: {}, b: {}}\n");
  expect_success("$run --profiles a,b --dump dump --results results --state state --steps 2");
  const std::string before = read_text(scratch_ / "dump/evenkeel-run.json");
  expect_refusal("$run --profiles a --dump dump --state state --resume",
                 {"dump: has steps before 2 of this job with --profiles a,b", "steps with --profiles a"});
  expect_refusal("$run --results results --state state --resume", {"results: has steps", "no --profiles"});
  EXPECT_EQ(read_text(scratch_ / "dump/evenkeel-run.json"), before);
  expect_success("$run --profiles a --dump other --state state --resume --steps 4");
  expect_success("$run --profiles a,b --dump dump --state another --steps 1 --overwrite");
}

TEST_F(Resume, a_dump_started_by_a_later_run_contains_the_steps_from_there) {
  expect_success("$run --state state --steps 2");
  expect_success("$run --dump dump --state state --resume --steps 5");
  expect_success("$run --dump dump --state state --resume");
  EXPECT_EQ(marker_of("dump")["from"]["dump"], 2);
  EXPECT_THAT(expect_success("$evenkeel inspect dump").out, HasSubstr("missing        nothing"));
  EXPECT_THAT(expect_success("$evenkeel convert --progress off dump d.safetensors").out,
              HasSubstr("d.safetensors: 40 samples"));
}

TEST_F(Resume, rewrites_steps_after_the_state) {
  expect_success("$run --dump whole");
  expect_success("$run2 --dump dump --state state --state-every 5 --steps 7 --set mesh.cp=2");
  // As if the job had been killed after step 7, with its last checkpoint after step 5.
  expect_success(
      "cp state/evenkeel-state.previous.json state/evenkeel-state.json; touch dump/step-000003/mine");
  const ProgramResult result = expect_success("$run --dump dump --state state --resume");
  EXPECT_THAT(result.err, HasSubstr("resumes with step 5, 7 steps left"));
  EXPECT_FALSE(fs::exists(scratch_ / "dump/step-000006/dp-000/cp-001"));
  EXPECT_TRUE(fs::exists(scratch_ / "dump/step-000004/dp-000/cp-001"));
  EXPECT_TRUE(fs::exists(scratch_ / "dump/step-000003/mine"));
  expect_success("for s in 05 06 07 08 09 10 11; do diff -r whole/step-0000$s dump/step-0000$s; done");
  EXPECT_EQ(marker_of("dump")["first_step"], 5);
}

TEST_F(Resume, refuses_the_folder_of_another_job) {
  expect_success("$run --dump dump --state other --steps 3");
  expect_success("$run --state state --steps 3");
  expect_refusal("$run --dump dump --state state --resume", {"dump: holds an earlier run of 3 steps"});
  EXPECT_EQ(marker_of("dump")["state"], "complete");
}

TEST_F(Resume, of_a_changed_job_is_refused_with_the_changes_unless_allowed) {
  write_text(scratch_ / "a.jsonl", R"({"prompt_ids":[1],"response_ids":[2,3]})"
                                   "\n"
                                   R"({"prompt_ids":[4],"response_ids":[5,6]})"
                                   "\n");
  const std::string run =
      "$run --set source.kind=jsonl --set source.path=a.jsonl --set batch.global_batch=1 "
      "--state state --dump dump ";
  expect_success(run + "--steps 1");
  expect_success("sed -i s/6/7/ a.jsonl");
  expect_refusal(run + "--resume",
                 {"a.jsonl has different content", "steps would repeat some samples and skip others"});
  expect_refusal(run + "--resume --set batch.seed=4",
                 {"batch.seed was 1 and is now 4", "a.jsonl has different content"});
  EXPECT_EQ(marker_of("dump")["state"], "complete");  // nothing was touched
  const ProgramResult accepted = expect_success(run + "--resume --accept-changes");
  EXPECT_THAT(accepted.err, HasSubstr("accepted: a.jsonl has different content"));
}

TEST_F(Resume, accepts_a_copy_of_the_source_elsewhere) {
  write_text(scratch_ / "a.jsonl", R"({"prompt_ids":[1],"response_ids":[2,3]})"
                                   "\n"
                                   R"({"prompt_ids":[4],"response_ids":[5,6]})"
                                   "\n");
  const std::string run = "$run --set source.kind=jsonl --set batch.global_batch=1 --state state --resume ";
  expect_success(run + "--set source.path=a.jsonl --steps 1; mkdir b; mv a.jsonl b/c.jsonl");
  expect_success(run + "--set source.path=b/c.jsonl");
}

TEST_F(Resume, does_not_replace_a_state_by_mistake) {
  expect_success("$run --state state --steps 3");
  expect_refusal("$run --state state",
                 {"evenkeel-state.json: has the state of a job before step 3", "--resume"});
  expect_success("$run --state state --overwrite --steps 2");
  expect_success("$run --state state --resume");
}

TEST_F(Resume, a_damaged_state_is_refused_and_names_the_one_before) {
  expect_success(
      "$run --state state --steps 3; sed -i 's/\"next_step\": 3/\"next_step\": 5/' "
      "state/evenkeel-state.json");
  expect_refusal("$run --state state --resume",
                 {"was truncated or modified", "state/evenkeel-state.previous.json"});
  expect_success(
      "mv state/evenkeel-state.previous.json state/evenkeel-state.json; $run --state state --resume");
}

TEST_F(Resume, two_runs_do_not_share_a_state) {
  expect_success(
      "mkdir state; "
      "python3 - <<'END'\n"
      "import fcntl, struct, subprocess, os\n"
      "lock = open('state/.evenkeel-run.lock', 'w')\n"
      "fcntl.fcntl(lock, 37, struct.pack('hhqqhh', fcntl.F_WRLCK, 0, 0, 0, 0, 0))\n"
      "result = subprocess.run(['bash', '-c', '" EVENKEEL_PROGRAM
      " run job.yaml --state state'],\n"
      "                        capture_output=True, text=True)\n"
      "assert result.returncode == 1, result\n"
      "assert 'is in use: another run keeps its state there' in result.stderr, result.stderr\n"
      "END");
}

TEST_F(Resume, with_a_report_goes_on_with_its_metrics) {
  expect_success("$run --state state --report report --steps 5");
  expect_success("$run --state state --report report --resume");
  std::vector<std::int64_t> steps;
  std::istringstream lines(read_text(scratch_ / "report/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) steps.push_back(nlohmann::json::parse(line).at("step"));
  EXPECT_THAT(steps, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  const auto report = nlohmann::json::parse(read_text(scratch_ / "report/report.json"));
  EXPECT_EQ(report.at("first_step"), 5);
  EXPECT_EQ(report.at("steps").size(), 7U);
}

TEST_F(Resume, the_effect_of_a_filter_is_logged_and_reported) {
  const ProgramResult result =
      expect_success("$run --report report --set batch.too_long=drop --set batch.max_length=1000");
  EXPECT_THAT(result.err, HasSubstr("too long and dropped"));
  EXPECT_THAT(result.out, HasSubstr("left out or cut of a source"));
  const auto source = nlohmann::json::parse(read_text(scratch_ / "report/report.json")).at("sources")[0];
  EXPECT_EQ(source.at("samples"), 24);
  EXPECT_EQ(source.at("taken").get<int>() + source.at("dropped_too_long").get<int>(), 24);
}

TEST_F(Resume, a_state_is_explained_by_inspect) {
  expect_success("$run --state state --steps 3");
  for (const std::string path : {"state", "state/evenkeel-state.json"}) {
    const ProgramResult told = expect_success("$evenkeel inspect " + path);
    EXPECT_THAT(told.out, AllOf(HasSubstr("next step      3"), HasSubstr("synthetic: 24 samples"),
                                HasSubstr("batch.epochs: 2")));
  }
  const ProgramResult damaged = shell("echo >> state/evenkeel-state.json; $evenkeel inspect state");
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.err, HasSubstr("its checksum differs"));
}

/// Returns a line with each kind of field: layers by token, axes and ranges of tokens, rows, a text; some of
/// them empty.
std::string line_of_all_fields(int i) {
  nlohmann::json line{{"prompt_ids", {1, 2}}, {"response_ids", nlohmann::json::array()}};
  for (int t = 0; t < i % 7; ++t) line["response_ids"].push_back(t);
  line["patches"] = nlohmann::json::array();
  for (int row = 0; row < i % 4; ++row) line["patches"].push_back({row, i});
  line["data_source"] = i % 3 == 0 ? "" : "set " + std::to_string(i);
  line["positions"] = {nlohmann::json::array(), nlohmann::json::array()};
  for (int t = 0; t < 2 + i % 7; ++t) {
    line["experts"].push_back({{i % 5, t}, {t, 3}});
    line["positions"][0].push_back(t);
    line["positions"][1].push_back(i);
  }
  line["versions"] = {{i, 1 + i % 7}, {i + 1, 1}};
  return line.dump() + "\n";
}

TEST_F(Resume, fields_of_every_kind_equal_those_of_one_run_and_of_its_dump) {
  std::string lines;
  for (int i = 0; i < 24; ++i) lines += line_of_all_fields(i);
  write_text(scratch_ / "lines.jsonl", lines);
  write_text(scratch_ / "job.yaml",
             "source: {kind: jsonl, path: lines.jsonl}\n"
             "batch: {global_batch: 4, shuffle: true}\n"
             "mesh: {cp: 2}\n"
             "fields: {patches: {read_as: rows}, data_source: {read_as: text},\n"
             "         positions: {read_as: axes}, versions: {read_as: runs},\n"
             "         experts: {layers: stage, wire_dtype: narrow}}\n");
  expect_success("$run2 --dump whole");
  for (const int upto : {2, 6})
    expect_success("$run2 --dump dump --state state --resume --steps " + std::to_string(upto));
  expect_equal_folders("whole", "dump");
  // Starting from the dump: two more jobs, each of which reads what the previous one received.
  const std::string settings =
      "batch: {global_batch: 4}\nmesh: {cp: 2}\nfields: {experts: {layers: stage}}\n";
  write_text(scratch_ / "job.yaml", "source: {kind: dump, path: whole}\n" + settings);
  expect_success("$run2 --dump again");
  write_text(scratch_ / "job.yaml", "source: {kind: dump, path: again}\n" + settings);
  expect_success("$run2 --dump once_more");
  expect_equal_folders("again", "once_more");
}

TEST_F(Resume, dumps_of_passes_with_different_fields_can_be_read) {
  std::string lines;
  for (int i = 0; i < 24; ++i) lines += line_of_all_fields(i);
  write_text(scratch_ / "lines.jsonl", lines);
  const std::string batches = "batch: {global_batch: 4}\nmesh: {cp: 2}\n";
  write_text(scratch_ / "job.yaml",
             batches +
                 "source: {kind: jsonl, path: lines.jsonl}\n"
                 "profiles: {encoder: {}, model: {pack: {align_lcm: 16}}}\n"
                 "fields: {patches: {read_as: rows, profiles: [encoder]},\n"
                 "         experts: {layers: stage, profiles: [encoder]},\n"
                 "         positions: {read_as: axes, profiles: [model]},\n"
                 "         versions: {read_as: runs}, data_source: {read_as: text}}\n");
  expect_success("$run2 --profiles encoder,model --dump dump");
  for (const std::string pass : {"encoder", "model"}) {
    const bool is_encoder = pass == "encoder";
    const std::string fields = is_encoder ? "fields: {experts: {layers: stage}}\n" : "";
    write_text(scratch_ / "job.yaml", batches + "source: {kind: dump, path: dump/" + pass + "}\n" + fields);
    expect_success("$run2 --dump again_" + pass);
    const ProgramResult seen =
        expect_success("$evenkeel inspect $(find again_" + pass + " -name '*.safetensors' | head -n 1)");
    for (const char* name : {"patches ", "experts "})
      EXPECT_EQ(seen.out.find(name) != std::string::npos, is_encoder) << name;
    EXPECT_EQ(seen.out.find("positions ") != std::string::npos, !is_encoder);
  }
}

TEST_F(Resume, options_that_need_others_say_so) {
  expect_refusal("$run --resume", {"--resume", "--state"});
  expect_refusal("$run --state state --accept-changes", {"--accept-changes", "--resume"});
  expect_refusal("$run --state state --state-every 0", {"--state-every"});
  expect_refusal("$run --state out --dump ./out/", {"--state: names the same folder as --dump"});
  expect_success("$run --state out/state --dump out");
}

}  // namespace
}  // namespace evenkeel
