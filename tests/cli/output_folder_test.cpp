#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// 24 samples in steps of 4, unless a test changes that, in a folder that all commands run in.
class OutputFolder : public testing::Test {
 protected:
  OutputFolder() {
    write_text(scratch_ / "job.yaml",
               "source: {kind: synthetic, samples: 24}\n"
               "batch: {global_batch: 4}\n"
               "micro_batch: {max_tokens: 1048576}\n");
  }

  /// Runs a shell script in the folder, where $run starts a job of one rank and $run2 one of two.
  [[nodiscard]] ProgramResult shell(const std::string& script) const {
    write_text(scratch_ / "script.sh", "evenkeel='" EVENKEEL_PROGRAM "'\n" +
                                           std::string("mpirun='" EVENKEEL_MPIRUN "'\n") +
                                           "quiet='--log-level off --progress off'\n"
                                           "run=\"$evenkeel run job.yaml $quiet\"\n"
                                           "run2=\"$mpirun -np 2 $run\"\ncd " +
                                           scratch_.path().string() + "\n" + script + "\n");
    return run_command("bash " + (scratch_ / "script.sh").string());
  }

  void expect_success(const std::string& script) const {
    const ProgramResult result = shell(script);
    EXPECT_EQ(result.status, 0) << script << "\n" << result.err;
  }
  /// Expects one error that names the folder and contains all of `parts`, and an exit status that indicates
  /// failure.
  void expect_refusal(const std::string& script, const std::string& folder,
                      const std::vector<std::string>& parts) const {
    const ProgramResult result = shell(script);
    EXPECT_EQ(result.status, 1) << script;
    EXPECT_THAT(result.err, HasSubstr("evenkeel: error: " + folder + ": ")) << script;
    EXPECT_EQ(result.err.find("evenkeel: error", result.err.find("evenkeel: error") + 1), std::string::npos)
        << result.err;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part)) << script;
  }
  [[nodiscard]] std::string inspect(const std::string& folder) const {
    const ProgramResult result = shell("$evenkeel inspect " + folder);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
  [[nodiscard]] nlohmann::json marker_of(const std::string& folder) const {
    return nlohmann::json::parse(read_text(scratch_ / (folder + "/evenkeel-run.json")));
  }
  /// Returns all files below a folder, except the marker.
  [[nodiscard]] std::set<std::string> files_in(const std::string& folder) const {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(scratch_ / folder)) {
      if (!entry.is_directory()) files.insert(fs::relative(entry.path(), scratch_ / folder).string());
    }
    files.erase("evenkeel-run.json");
    return files;
  }
  [[nodiscard]] bool exists(const std::string& name) const { return fs::exists(scratch_ / name); }

  ScratchFolder scratch_;
};

TEST_F(OutputFolder, of_a_successful_run_is_complete) {
  expect_success("$run2 --dump dump --results results --report report");
  for (const auto& [folder, files] : {std::pair{"dump", 12}, {"results", 6}, {"report", 4}}) {
    const nlohmann::json marker = marker_of(folder);
    EXPECT_EQ(marker.at("state"), "complete");
    EXPECT_EQ(marker.at("steps"), 6);
    EXPECT_EQ(marker.at("files").at(folder), files);
    EXPECT_EQ(files_in(folder).size(), static_cast<std::size_t>(files));
    EXPECT_EQ(marker.at("run"), marker_of("dump").at("run"));
    EXPECT_THAT(inspect(folder), AllOf(HasSubstr("complete"), HasSubstr(std::to_string(files) + " files"),
                                       HasSubstr("missing        nothing")));
  }
  EXPECT_THAT(inspect("dump"), AllOf(HasSubstr("6 steps, 12 files"), HasSubstr("2 ranks")));
}

TEST_F(OutputFolder, with_an_earlier_runs_files_is_refused) {
  expect_success("$run2 --dump dump --results results --report report");
  for (const std::string name : {"dump", "results", "report"}) {
    const std::string before = read_text(scratch_ / (name + "/evenkeel-run.json"));
    expect_refusal("$run2 --" + name + " " + name, name,
                   {"holds an earlier run of 6 steps", marker_of(name).at("started"), "--overwrite",
                    "Give --" + name + " another folder"});
    EXPECT_EQ(read_text(scratch_ / (name + "/evenkeel-run.json")), before);
    EXPECT_THAT(inspect(name), HasSubstr("missing        nothing"));
  }
}

TEST_F(OutputFolder, with_files_of_a_run_but_without_a_marker_is_refused) {
  expect_success("$run2 --dump dump --results results --report report; rm */evenkeel-run.json");
  for (const auto& [name, example] :
       {std::pair{"dump", "step-000000/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors"},
        {"results", "step-000000.safetensors"},
        {"report", "metrics.jsonl"}}) {
    expect_refusal("$run --" + std::string(name) + " " + name, name, {example, "--overwrite"});
    expect_success("$run --overwrite --" + std::string(name) + " " + name);
    EXPECT_THAT(inspect(name), HasSubstr("missing        nothing"));
  }
}

TEST_F(OutputFolder, is_overwritten_without_touching_other_files) {
  const std::string smaller = " --set batch.global_batch=12 --set source.seed=2";
  expect_success("$run2 --dump dump --results results --report report");
  expect_success("$run2 --dump expected" + smaller);
  const std::set<std::string> own{"notes.txt",
                                  "step-000003/dp-000/notes.txt",
                                  "step-000003/dp-001/cp-000/tp-000/pp-000/mb-00000.safetensors.old",
                                  "step-000100/weights.safetensors",
                                  "step-0000000/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors",
                                  "other/step-000000/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors"};
  for (const std::string& file : own) {
    fs::create_directories((scratch_ / ("dump/" + file)).parent_path());
    write_text(scratch_ / ("dump/" + file), "mine");
  }
  write_text(scratch_ / "dump/step-000005/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors.tmp-77-0", "half");
  write_text(scratch_ / "dump/evenkeel-run.json.tmp-77-0", "half");
  expect_success("$run2 --dump dump --results results --report report --overwrite" + smaller);
  std::set<std::string> all = own;
  all.merge(files_in("expected"));
  EXPECT_EQ(files_in("dump"), all);
  for (const std::string& file : files_in("expected"))
    EXPECT_TRUE(read_text(scratch_ / ("dump/" + file)) == read_text(scratch_ / ("expected/" + file))) << file;
  for (const std::string& file : own) EXPECT_EQ(read_text(scratch_ / ("dump/" + file)), "mine");
  EXPECT_FALSE(exists("dump/step-000005"));
  EXPECT_EQ(files_in("results"),
            (std::set<std::string>{"step-000000.safetensors", "step-000001.safetensors"}));
  EXPECT_EQ(nlohmann::json::parse(read_text(scratch_ / "report/report.json")).at("steps").size(), 2U);
}

TEST_F(OutputFolder, of_several_profiles_is_overwritten_in_all_its_folders) {
  const std::string profiles =
      " --profiles a,b --set profiles.a.micro_batch.max_samples=8 --set profiles.b.micro_batch.max_samples=4";
  expect_success("$run2 --dump dump --results results" + profiles);
  EXPECT_THAT(inspect("dump"), AllOf(HasSubstr("a, b"), HasSubstr("6 steps"), HasSubstr("nothing")));
  expect_refusal("$run2 --dump dump", "dump", {"holds an earlier run"});
  expect_refusal("$run2 --results results/a", "results/a", {"is among the files of the run in"});
  expect_success("$run2 --dump dump --results results --overwrite --set batch.global_batch=24");
  EXPECT_FALSE(exists("dump/a") || exists("dump/b") || exists("results/a") || exists("results/b"));
  EXPECT_EQ(files_in("results"), std::set<std::string>{"step-000000.safetensors"});
  expect_success("$run2 --dump dump --overwrite" + profiles);
  EXPECT_FALSE(exists("dump/step-000000"));
  EXPECT_TRUE(exists("dump/a/step-000005"));
}

TEST_F(OutputFolder, of_a_running_or_killed_run_is_incomplete) {
  const std::string start =
      "$run --dump dump --set source.samples=100000 --set batch.global_batch=1 & job=$!\n"
      "for i in $(seq 200); do ls dump/step-000003 >/dev/null 2>&1 && break; sleep 0.05; done\n";
  const ProgramResult both =
      shell(start + "$run --dump dump --overwrite 2>refused; echo $? >status; $evenkeel inspect dump\n" +
            "kill -9 $job; wait $job\necho $job >process; $evenkeel inspect dump");
  EXPECT_EQ(read_text(scratch_ / "status"), "1\n");
  std::string process = read_text(scratch_ / "process");
  process.pop_back();
  EXPECT_THAT(read_text(scratch_ / "refused"),
              AllOf(HasSubstr("evenkeel: error: dump: another run is writing to it (started"),
                    HasSubstr("process " + process), HasSubstr("Wait until it has ended")));
  EXPECT_THAT(both.out, HasSubstr("state          running"));
  EXPECT_THAT(both.out, HasSubstr("state          incomplete: the run did not finish"));
  EXPECT_EQ(marker_of("dump").at("state"), "running");
  expect_refusal("$run --dump dump", "dump",
                 {"a run that did not finish", "process " + process, "--overwrite"});
  expect_success("$run --dump dump --overwrite");
  EXPECT_THAT(inspect("dump"),
              AllOf(HasSubstr("complete"), HasSubstr("6 steps, 6 files"), HasSubstr("nothing")));
}

TEST_F(OutputFolder, of_a_run_that_failed_is_incomplete) {
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines += R"({"prompt_ids":[1],"response_ids":[2,3)" + std::string(i < 10 ? "" : ",4,5,6,7,8,9") + "]}\n";
  write_text(scratch_ / "rollouts.jsonl", lines);
  const std::string failing =
      "$run2 --dump dump --set source.kind=jsonl --set source.path=rollouts.jsonl --set "
      "micro_batch.max_tokens=8 ";
  const ProgramResult result = shell(failing);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("cap of 8"));
  EXPECT_THAT(inspect("dump"), AllOf(HasSubstr("incomplete"), HasSubstr("2 steps, ")));
  EXPECT_THAT(shell(failing).err, HasSubstr("dump: holds the files of a run that did not finish"));
}

TEST_F(OutputFolder, of_a_run_that_failed_before_writing_is_unchanged) {
  fs::create_directories(scratch_ / "there");
  for (const std::string wrong : {"--set micro_batch.max_tokens=2", "--report job.yaml",
                                  "--set source.kind=jsonl --set source.path=absent.jsonl"}) {
    EXPECT_EQ(shell("$run2 --dump there --results new/results " + wrong).status, 1) << wrong;
    EXPECT_TRUE(fs::is_empty(scratch_ / "there")) << wrong;
    EXPECT_FALSE(exists("new")) << wrong;
  }
}

TEST_F(OutputFolder, is_not_cleared_if_another_folder_is_refused) {
  expect_success("$run2 --dump dump --report report");
  expect_refusal("$run2 --dump dump --report report/report.txt --overwrite", "report/report.txt",
                 {"--report"});
  EXPECT_THAT(inspect("dump"), HasSubstr("missing        nothing"));
}

TEST_F(OutputFolder, must_be_writable) {
  write_text(scratch_ / "file", "in the way");
  for (const std::string option : {"--dump", "--results", "--report"}) {
    expect_refusal("$run2 " + option + " file", "file", {"cannot create the folder of " + option});
    expect_refusal("$run2 " + option + " /sys/none", "/sys/none", {"cannot create the folder of " + option});
    expect_refusal("$run2 " + option + " /sys/kernel", "/sys/kernel",
                   {"cannot be used as the folder of " + option});
  }
}

TEST_F(OutputFolder, may_be_a_symbolic_link) {
  fs::create_directories(scratch_ / "disk");
  fs::create_directory_symlink(scratch_ / "disk", scratch_ / "link");
  expect_success("$run2 --dump link");
  EXPECT_EQ(files_in("disk").size(), 12U);
  expect_refusal("$run2 --dump disk", "disk", {"holds an earlier run"});
  expect_success("$run2 --dump link --overwrite");
  EXPECT_TRUE(fs::is_symlink(scratch_ / "link"));
}

TEST_F(OutputFolder, is_never_cleared_through_symbolic_links) {
  expect_success(
      "$run2 --dump dump --results results; mv dump/step-000002 results/step-000002.safetensors .");
  fs::create_directory_symlink(scratch_ / "step-000002", scratch_ / "dump/step-000002");
  fs::create_symlink(scratch_ / "step-000002.safetensors", scratch_ / "results/step-000002.safetensors");
  for (const std::string name : {"dump", "results"}) {
    const ProgramResult result = shell("$run2 --overwrite --" + name + " " + name);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(name + "/step-000002"));
    EXPECT_THAT(result.err, HasSubstr("was not made by a run"));
  }
  EXPECT_EQ(files_in("step-000002").size(), 2U);
  EXPECT_EQ(files_in("dump").size(), 10U);
  EXPECT_TRUE(exists("step-000002.safetensors"));
}

TEST_F(OutputFolder, may_be_shared_by_a_dump_and_a_report) {
  expect_success("$run2 --dump out --report out");
  EXPECT_THAT(inspect("out"), AllOf(HasSubstr("6 steps, 12 files"), HasSubstr("report         4 files"),
                                    HasSubstr("nothing")));
  expect_refusal("$run2 --dump out", "out", {"holds an earlier run"});
  expect_success("$run2 --report out --overwrite");
  EXPECT_EQ(files_in("out"),
            (std::set<std::string>{"metrics.jsonl", "report.html", "report.json", "report.txt"}));
  expect_success("$run2 --dump all/dump --results all/results --report all");
  EXPECT_THAT(inspect("all") + inspect("all/dump") + inspect("all/results"), Not(HasSubstr("incomplete")));
}

TEST_F(OutputFolder, must_not_be_inside_of_another) {
  expect_refusal("$run2 --dump out --results ./out", "./out",
                 {"--results would write among the files of --dump"});
  expect_refusal("$run2 --dump out --results out/results", "out/results", {"--results would write among"});
  expect_refusal("$run2 --dump out --report out/step-000001", "out/step-000001",
                 {"--report would write among"});
  EXPECT_FALSE(exists("out"));
  expect_success("$run --dump out");
  expect_refusal("$run --dump out/step-000001", "out/step-000001", {"is among the files of the run in"});
}

TEST_F(OutputFolder, may_be_a_different_one_on_every_node) {
  // Each rank starts in a different folder, like ranks with local disks.
  const auto on_own_disks = [](const std::string& options) {
    return "$mpirun -np 3 sh -c 'mkdir -p disk-$OMPI_COMM_WORLD_RANK; cd disk-$OMPI_COMM_WORLD_RANK; "
           "exec " EVENKEEL_PROGRAM " run ../job.yaml --log-level off --dump dump --report report " +
           options + "'";
  };
  expect_success(on_own_disks(""));
  for (const std::string disk : {"disk-0", "disk-1", "disk-2"}) {
    EXPECT_EQ(marker_of(disk + "/dump").at("run"), marker_of("disk-0/dump").at("run"));
    EXPECT_THAT(inspect(disk + "/dump"), AllOf(HasSubstr("6 steps, 6 files"), HasSubstr("nothing")));
  }
  EXPECT_FALSE(exists("disk-1/report"));
  fs::remove_all(scratch_ / "disk-0");
  expect_refusal(on_own_disks(""), "dump", {"holds an earlier run", "(rank 1)"});
  EXPECT_FALSE(exists("disk-0/dump"));
  expect_success(on_own_disks("--overwrite --set batch.global_batch=24"));
  EXPECT_EQ(files_in("disk-2/dump").size(), 1U);
}

TEST_F(OutputFolder, reports_missing_files) {
  expect_success("$run2 --dump dump --results results --set micro_batch.max_samples=1");
  const int written = marker_of("dump").at("files").at("dump");
  const std::string of_all = " of " + std::to_string(written) + " files of the dump, the first at ";
  const std::string lost = "step-000004/dp-001/cp-000/tp-000/pp-000/mb-00001.safetensors";
  fs::remove(scratch_ / ("dump/" + lost));
  EXPECT_THAT(inspect("dump"), HasSubstr("missing        1" + of_all + lost));
  fs::remove_all(scratch_ / "dump/step-000005");
  const auto left = static_cast<int>(files_in("dump").size());
  EXPECT_THAT(inspect("dump"),
              HasSubstr("missing        " + std::to_string(written - left) + of_all + "step-000005"));
  fs::remove(scratch_ / "results/step-000003.safetensors");
  EXPECT_THAT(inspect("results"), HasSubstr("1 of 6 files of the results, the first at step-000003"));
  write_text(scratch_ / "results/step-000003.safetensors", "");
  write_text(scratch_ / "results/step-000300.safetensors", "");
  EXPECT_THAT(inspect("results"), HasSubstr("too many       1 file of the results"));
}

TEST_F(OutputFolder, without_a_valid_marker_is_reported) {
  fs::create_directories(scratch_ / "dump");
  const ProgramResult unknown = shell("$evenkeel inspect dump");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("evenkeel: error: dump: is a folder without evenkeel-run.json"));
  for (const std::string text : {"", "{", "[]", "{\"state\":7}", "{\"evenkeel\":\"1\",\"state\":\"over\"}"}) {
    write_text(scratch_ / "dump/evenkeel-run.json", text);
    const ProgramResult spoilt = shell("$evenkeel inspect dump");
    EXPECT_EQ(spoilt.status, 1) << text;
    EXPECT_THAT(spoilt.err, HasSubstr("evenkeel: error: dump/evenkeel-run.json: ")) << text;
    expect_refusal("$run --dump dump", "dump", {"has a damaged evenkeel-run.json", "--overwrite"});
  }
  expect_success("$run --dump dump --overwrite");
}

TEST_F(OutputFolder, on_a_full_disk_of_one_rank_fails_all_ranks) {
  if (shell("unshare -m mount -t tmpfs none " + scratch_.path().string()).status != 0)
    GTEST_SKIP() << "this machine does not permit a file system for a test";
  // Each rank exits with 0 after saving its status: once one has failed, mpirun ends the others.
  const std::string run = EVENKEEL_PROGRAM
      " run job.yaml --log-level off --dump dump --set source.samples=4000 --set batch.global_batch=400; "
      "echo $? >status-$OMPI_COMM_WORLD_RANK";
  const ProgramResult result = shell(
      "echo 'mount -t tmpfs -o size=64k none dump && " + run + "' >full.sh; echo '" + run +
      "' >roomy.sh; mkdir dump\n$mpirun -np 2 sh -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || exec unshare -m sh "
      "full.sh; exec sh roomy.sh'\ncat status-*");
  EXPECT_EQ(result.out, "1\n1\n") << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("evenkeel: error: dump/step-"), HasSubstr("No space left on device (rank 1)")));
  EXPECT_THAT(inspect("dump"), Not(HasSubstr("nothing")));
}

}  // namespace
}  // namespace evenkeel
