#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "support/run_program.hpp"

// Jobs with data ranks: what they deliver is what their trainers would have delivered alone.

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

constexpr int trainers = 3;
constexpr int hangs = 124;  // the status that timeout(1) gives

/// A folder with rollouts in it, and jobs of three trainers that begin there.
class JobsWithDataRanks : public testing::Test {
 protected:
  JobsWithDataRanks() {
    const ProgramResult synth = run_evenkeel(
        "synth --samples 60 --prompt-median 40 --response-median 60"
        " --prompt-max 200 --response-max 800 --out " +
        (scratch_ / "rollouts.jsonl").string());
    EXPECT_EQ(synth.status, 0) << synth.err;
    write_job("source: {kind: jsonl, path: rollouts.jsonl}\n");
  }

  /// As job.yaml, and as job-1.yaml and job-2.yaml with so many data ranks.
  void write_job(const std::string& source) const {
    const std::string job =
        source + "micro_batch: {max_tokens: 2048}\nbatch: {global_batch: 12, shuffle: true}\n";
    write_text(scratch_ / "job.yaml", job);
    for (const std::string data : {"1", "2"})
      write_text(scratch_ / ("job-" + data + ".yaml"), job + "mesh: {data_ranks: " + data + "}\n");
  }

  /// Launches what follows mpirun in the folder: $run and $serve are the program's commands.
  [[nodiscard]] ProgramResult launch(const std::string& programs) const {
    write_text(scratch_ / "script.sh", "run='" EVENKEEL_PROGRAM " run'\nserve='" EVENKEEL_PROGRAM
                                       " serve'\ncd " +
                                           scratch_.path().string() + "\nexec timeout -k 5 180 " +
                                           testing_support::mpirun_programs + " " + programs + "\n");
    return run_command("bash " + (scratch_ / "script.sh").string());
  }
  /// Without data ranks. `settings` are --set options, `options` those of run alone.
  [[nodiscard]] ProgramResult alone(const std::string& settings, const std::string& options) const {
    return launch("-np 3 $run job.yaml --progress off " + settings + " " + options);
  }
  /// One program, in which a key makes the first ranks data ranks.
  [[nodiscard]] ProgramResult set_aside(int data, const std::string& settings,
                                        const std::string& options) const {
    return launch("-np " + std::to_string(data + trainers) +
                  " $run job.yaml --progress off --set mesh.data_ranks=" + std::to_string(data) + " " +
                  settings + " " + options);
  }
  /// Two programs with the same configuration.
  [[nodiscard]] ProgramResult two_programs(int data, const std::string& settings,
                                           const std::string& options) const {
    const std::string job = "job-" + std::to_string(data) + ".yaml " + settings + " ";
    return launch("-np " + std::to_string(data) + " $serve " + job + ": -np 3 $run " + job +
                  " --progress off " + options);
  }
  static void expect_success(const ProgramResult& result) { EXPECT_EQ(result.status, 0) << result.err; }
  void expect_equal_folders(const std::string& one, const std::string& other) const {
    const ProgramResult compared = run_command("diff -r --exclude=evenkeel-run.json " +
                                               (scratch_ / one).string() + " " + (scratch_ / other).string());
    EXPECT_EQ(compared.status, 0) << compared.out << compared.err;
  }
  [[nodiscard]] nlohmann::json json_of(const std::string& file) const {
    return nlohmann::json::parse(read_text(scratch_ / file));
  }

  ScratchFolder scratch_;
};

/// A job of three trainers.
struct DataRankCase {
  std::string name;
  std::string settings;
  std::string options;  ///< of run alone
  std::string source;   ///< of the job; the rollouts unless it says otherwise
};

void PrintTo(const DataRankCase& job, std::ostream* out) {
  *out << job.name;
}

class FilesWithDataRanks : public JobsWithDataRanks, public testing::WithParamInterface<DataRankCase> {
 protected:
  FilesWithDataRanks() {
    if (!GetParam().source.empty()) write_job(GetParam().source);
  }
  [[nodiscard]] static std::string to(const std::string& folder) {
    return GetParam().options + " --dump " + folder + "/dump --results " + folder + "/results";
  }
};

TEST_P(FilesWithDataRanks, are_those_that_the_trainers_alone_would_have_written) {
  const std::string settings = GetParam().settings;
  expect_success(alone(settings, to("alone")));
  ASSERT_TRUE(std::filesystem::exists(scratch_ / "alone/dump"));
  for (const int data : {1, 2}) {
    const std::string number = std::to_string(data);
    expect_success(set_aside(data, settings, to("set-aside-" + number)));
    expect_equal_folders("alone", "set-aside-" + number);
    expect_success(two_programs(data, settings, to("two-programs-" + number)));
    expect_equal_folders("alone", "two-programs-" + number);
  }
}

const std::string mixed_sources =
    "sources:\n"
    "  rollouts: {kind: jsonl, path: rollouts.jsonl, weight: 2}\n"
    "  made_up: {kind: synthetic, samples: 40, seed: 2, epochs: 2}\n";
const std::string filters =
    "--set batch.mix=tokens --set batch.too_long=split --set batch.max_length=300 --set batch.empty=drop";

INSTANTIATE_TEST_SUITE_P(
    Jobs, FilesWithDataRanks,
    testing::Values(DataRankCase{"plain", "", "", ""},
                    DataRankCase{"two_passes",
                                 "--set profiles.log_prob.micro_batch.max_tokens=8192"
                                 " --set profiles.update.pack.align_lcm=16 --set batch.mini_batches=2",
                                 "--profiles log_prob,update", ""},
                    DataRankCase{"shared_prompts", "--set prefix.share=true", "", ""},
                    DataRankCase{"shared_trees", "--set prefix.share=tree --set mesh.cp=3", "", ""},
                    DataRankCase{"mixed_sources_with_filters", filters, "", mixed_sources},
                    DataRankCase{"padded", "--set micro_batch.mode=padded --set mesh.cp=3", "", ""},
                    DataRankCase{"nothing_made_ahead", "--set exchange.prefetch=0 --set mesh.tp=3", "", ""},
                    DataRankCase{"much_made_ahead", "--set exchange.prefetch=4 --set batch.epochs=2", "", ""},
                    DataRankCase{"made_up_samples", "--set micro_batch.max_tokens=65536", "",
                                 "source: {kind: synthetic, samples: 60}\n"}),
    [](const auto& job) { return job.param.name; });

TEST_F(JobsWithDataRanks, have_reports_of_the_same_steps_that_count_the_data_ranks) {
  expect_success(alone("", "--report alone"));
  const nlohmann::json expected = json_of("alone/report.json");
  EXPECT_EQ(expected.at("data_ranks"), 0);
  EXPECT_THAT(read_text(scratch_ / "alone/report.txt"), Not(HasSubstr("data rank")));
  expect_success(set_aside(1, "", "--report set-aside"));
  expect_success(two_programs(2, "", "--report two-programs"));
  for (const auto& [folder, data, words] :
       {std::tuple{"set-aside", 1, "and 1 data rank"}, {"two-programs", 2, "and 2 data ranks"}}) {
    const nlohmann::json report = json_of(std::string(folder) + "/report.json");
    EXPECT_EQ(report.at("data_ranks"), data);
    EXPECT_EQ(report.at("mesh"), expected.at("mesh"));
    EXPECT_THAT(read_text(scratch_ / folder / "report.txt"), HasSubstr(words));
    ASSERT_EQ(report.at("steps").size(), expected.at("steps").size());
    for (std::size_t s = 0; s < expected.at("steps").size(); ++s) {
      for (const char* key : {"step", "samples", "tokens", "aligned_tokens", "num_micro_batches", "balance"})
        EXPECT_EQ(report.at("steps")[s].at(key), expected.at("steps")[s].at(key)) << key;
    }
  }
}

/// The ranks whose work a trace shows.
std::set<int> tracks_of(const nlohmann::json& trace) {
  std::set<int> ranks;
  for (const auto& event : trace) {
    if (event.at("ph") == "X") ranks.insert(event.at("pid").get<int>());
  }
  return ranks;
}

TEST_F(JobsWithDataRanks, are_traced_and_measured_like_others) {
  expect_success(alone("", "--trace trace"));
  const std::set<int> expected = tracks_of(json_of("trace/trace.json"));
  for (const bool one_program : {true, false}) {
    const std::string options = "--overwrite --trace trace --report report --prometheus-file run.prom";
    const ProgramResult result = one_program ? set_aside(2, "", options) : two_programs(2, "", options);
    expect_success(result);
    double tokens = 0;
    double sent = 0;
    const nlohmann::json report = json_of("report/report.json");
    for (const auto& step : report.at("steps")) {
      tokens += step.at("tokens").get<double>();
      sent += step.at("bytes").at("sent").get<double>();
    }
    EXPECT_GT(sent, 0);
    EXPECT_EQ(tracks_of(json_of("trace/trace.json")), expected);
    const std::string metrics = read_text(scratch_ / "run.prom");
    const std::string name = "evenkeel_tokens_total{profile=\"\"} ";
    ASSERT_THAT(metrics, HasSubstr("\n" + name));
    EXPECT_EQ(std::stod(metrics.substr(metrics.find("\n" + name) + 1 + name.size())), tokens);
  }
}

TEST_F(JobsWithDataRanks, tell_what_data_ranks_of_their_own_program_have_read) {
  const ProgramResult result = two_programs(1, "", "");
  expect_success(result);
  EXPECT_THAT(result.err, HasSubstr("read 60 samples in 5 steps on this data rank of 1"));
  EXPECT_THAT(result.err, HasSubstr("60 samples, 5 steps"));
}

TEST_F(JobsWithDataRanks, that_stop_early_end_well_with_the_steps_until_there) {
  for (const std::string settings : {"", "--set exchange.prefetch=0", "--set exchange.prefetch=4"}) {
    expect_success(alone(settings, "--overwrite --steps 2 --dump alone"));
    expect_success(set_aside(2, settings, "--overwrite --steps 2 --dump set-aside"));
    expect_equal_folders("alone", "set-aside");
    expect_success(two_programs(1, settings, "--overwrite --steps 2 --dump two-programs"));
    expect_equal_folders("alone", "two-programs");
  }
}

TEST_F(JobsWithDataRanks, that_were_stopped_go_on_with_fewer_more_or_none) {
  const std::string settings = "--set batch.epochs=2";
  expect_success(alone(settings, "--dump whole --results whole-results"));
  const std::string options = "--dump dump --results results --state state --resume --steps ";
  expect_success(set_aside(2, settings, options + "2"));
  expect_success(alone(settings, options + "3"));
  expect_success(two_programs(1, settings, options + "5"));
  expect_success(two_programs(2, settings, options + "7"));
  expect_success(set_aside(1, settings, options + "8"));
  const ProgramResult last = alone(settings, options + "100");
  expect_success(last);
  EXPECT_THAT(last.err, HasSubstr("resumes with step 8, 2 steps left"));
  EXPECT_THAT(last.err, Not(HasSubstr("accepted")));
  expect_equal_folders("whole", "dump");
  expect_equal_folders("whole-results", "results");
}

TEST_F(JobsWithDataRanks, refuse_a_state_of_another_job_and_leave_all_as_it_is) {
  expect_success(two_programs(1, "", "--dump dump --state state --steps 2"));
  const ProgramResult refused = two_programs(1, "--set batch.seed=8", "--dump dump --state state --resume");
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("batch.seed was 1 and is 8"));
  const std::string rollouts = read_text(scratch_ / "rollouts.jsonl");
  write_text(scratch_ / "rollouts.jsonl", rollouts + rollouts);
  const ProgramResult other = set_aside(1, "", "--dump dump --state state --resume");
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.err, HasSubstr("belongs to another job: rollouts.jsonl had "));
  EXPECT_EQ(json_of("dump/evenkeel-run.json").at("steps"), 2);
}

/// One message that says all of `parts`, the status that goes with it, and no hang.
void expect_one_message(const ProgramResult& result, int status, const std::vector<std::string>& parts) {
  EXPECT_NE(result.status, hangs);
  EXPECT_EQ(result.status, status) << result.err;
  std::size_t messages = 0;
  for (std::size_t at = result.err.find("evenkeel: "); at != std::string::npos;
       at = result.err.find("evenkeel: ", at + 1)) {
    ++messages;
  }
  EXPECT_EQ(messages, 1U) << result.err;
  for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
}

class WrongDataRanks : public JobsWithDataRanks {};

constexpr int work_failed = 1;
constexpr int wrong_configuration = 2;

TEST_F(WrongDataRanks, that_come_after_the_trainers_are_told_to_come_first) {
  expect_one_message(launch("-np 3 $run job-2.yaml : -np 2 $serve job-2.yaml"), wrong_configuration,
                     {"mesh.data_ranks", "ranks 0 to 1 are data ranks, but rank 0 trains",
                      "mpirun -n 2 evenkeel serve CONFIG : -n ..."});
}

TEST_F(WrongDataRanks, that_are_more_or_fewer_than_the_key_says_are_named) {
  expect_one_message(launch("-np 1 $serve job-2.yaml : -np 3 $run job-2.yaml"), wrong_configuration,
                     {"mesh.data_ranks", "ranks 0 to 1 are data ranks, but rank 1 trains"});
  expect_one_message(launch("-np 3 $serve job-2.yaml : -np 2 $run job-2.yaml"), wrong_configuration,
                     {"mesh.data_ranks", "ranks 0 to 1 are data ranks, but rank 2 serves"});
}

TEST_F(WrongDataRanks, of_which_the_programs_have_other_numbers_show_both) {
  expect_one_message(launch("-np 2 $serve job-2.yaml : -np 3 $run job-1.yaml"), wrong_configuration,
                     {"mesh.data_ranks", "is 2 on", "1 on"});
  expect_one_message(launch("-np 1 $serve job-1.yaml : -np 1 $serve job-2.yaml : -np 2 $run job-1.yaml"),
                     wrong_configuration, {"mesh.data_ranks", "is 1 on rank 0 and 2 on rank 1"});
}

TEST_F(WrongDataRanks, of_which_the_trainers_know_nothing_show_both_numbers) {
  expect_one_message(launch("-np 2 $serve job-2.yaml : -np 3 $run job.yaml"), wrong_configuration,
                     {"mesh.data_ranks", "is 2 on", "0 on"});
}

TEST_F(WrongDataRanks, without_the_key_are_told_to_set_it) {
  for (const char* trainers_job : {"job.yaml", "job-2.yaml"}) {
    expect_one_message(launch(std::string("-np 2 $serve job.yaml : -np 3 $run ") + trainers_job),
                       wrong_configuration, {"mesh.data_ranks", "is 0, but rank 0 serves", "evenkeel serve"});
  }
}

TEST_F(WrongDataRanks, that_leave_none_to_train_are_too_many) {
  for (const char* programs : {"-np 2 $run job-2.yaml", "-np 1 $run job-2.yaml", "-np 2 $serve job-2.yaml",
                               "-np 1 $serve job-2.yaml"})
    expect_one_message(launch(programs), wrong_configuration,
                       {"mesh.data_ranks: 2 of ", "leave none to train"});
  expect_one_message(launch("-np 3 $serve job-2.yaml"), wrong_configuration,
                     {"mesh.data_ranks", "rank 2 serves"});
  expect_one_message(run_evenkeel("serve " + (scratch_ / "job-2.yaml").string()), wrong_configuration,
                     {"2 of 1 ranks leave none to train"});
}

TEST_F(WrongDataRanks, whose_trainers_are_no_mesh_say_what_would_be_one) {
  const std::string settings = "--set mesh.tp=2";
  for (const ProgramResult& result : {set_aside(2, settings, ""), two_programs(2, settings, "")})
    expect_one_message(result, wrong_configuration, {"tp 2 x cp 1 x pp 1 = 2 does not divide the 3 ranks"});
}

TEST_F(WrongDataRanks, without_a_configuration_name_it_on_either_side) {
  for (const char* programs : {"-np 2 $serve no-such.yaml : -np 3 $run job-2.yaml",
                               "-np 2 $serve job-2.yaml : -np 3 $run no-such.yaml",
                               "-np 2 $serve no-such.yaml : -np 3 $run no-such.yaml",
                               "-np 1 $serve job-2.yaml : -np 1 $serve no-such.yaml : -np 3 $run job-2.yaml"})
    expect_one_message(launch(programs), wrong_configuration, {"no-such.yaml", "No such file"});
  for (const char* programs : {"-np 2 $serve job-2.yaml --set mesh.tpp=1 : -np 3 $run job-2.yaml",
                               "-np 2 $serve job-2.yaml : -np 3 $run job-2.yaml --set mesh.tpp=1"})
    expect_one_message(launch(programs), wrong_configuration, {"mesh.tpp=1", "unknown key"});
}

TEST_F(WrongDataRanks, with_another_configuration_than_trainers_show_the_key_and_both_values) {
  expect_one_message(launch("-np 2 $serve job-2.yaml --set batch.seed=7 : -np 3 $run job-2.yaml"),
                     wrong_configuration, {"batch.seed: is 1 on rank 0 and 7 on rank 3"});
  expect_one_message(launch("-np 2 $serve job-2.yaml : -np 3 $run job-2.yaml --set source.path=other.jsonl"),
                     wrong_configuration, {"source.path", "other.jsonl"});
}

TEST_F(WrongDataRanks, whose_job_lacks_a_profile_name_those_there_are) {
  const std::string settings = "--set profiles.update.micro_batch.max_tokens=4096";
  for (const ProgramResult& result :
       {set_aside(1, settings, "--profiles updat"), two_programs(1, settings, "--profiles updat")})
    expect_one_message(result, wrong_configuration, {"there is no profile 'updat'. Profiles: update"});
}

TEST_F(WrongDataRanks, that_find_no_source_name_it) {
  const std::string settings = "--set source.path=no-such.jsonl";
  for (const ProgramResult& result : {set_aside(2, settings, ""), two_programs(2, settings, "")})
    expect_one_message(result, work_failed, {"no-such.jsonl: cannot be opened: No such file"});
}

TEST_F(WrongDataRanks, that_read_a_sample_above_the_cap_name_it_with_its_length) {
  for (const std::string prefetch : {"0", "2"}) {
    const std::string settings = "--set micro_batch.max_tokens=70 --set exchange.prefetch=" + prefetch;
    for (const ProgramResult& result : {set_aside(2, settings, ""), two_programs(2, settings, "")})
      expect_one_message(result, work_failed, {"sample ", "above the cap of 70 tokens"});
  }
}

TEST_F(WrongDataRanks, that_read_a_malformed_line_name_it_whichever_of_them_reads_it) {
  const ProgramResult lines = run_command("wc -l " + (scratch_ / "rollouts.jsonl").string());
  ASSERT_THAT(lines.out, HasSubstr("60 "));
  const std::string good = read_text(scratch_ / "rollouts.jsonl");
  for (const std::string line : {"20", "31", "60"}) {
    write_text(scratch_ / "rollouts.jsonl", good);
    run_command("sed -i '" + line + "s/.$//' " + (scratch_ / "rollouts.jsonl").string());
    for (const ProgramResult& result : {set_aside(2, "", ""), two_programs(2, "", "")})
      expect_one_message(result, work_failed, {"rollouts.jsonl:" + line});
  }
}

TEST_F(WrongDataRanks, leave_an_earlier_runs_files_alone) {
  expect_success(two_programs(1, "", "--steps 1 --dump dump"));
  for (const ProgramResult& result : {set_aside(2, "", "--dump dump"), two_programs(2, "", "--dump dump")}) {
    EXPECT_NE(result.status, 0);
    expect_one_message(result, result.status, {"dump: holds an earlier run of 1 step"});
  }
}

TEST_F(WrongDataRanks, have_no_options_of_trainers) {
  const ProgramResult result = run_evenkeel("serve job-1.yaml --dump dump");
  expect_one_message(result, wrong_configuration, {"--dump"});
  EXPECT_THAT(run_evenkeel("serve --help").out,
              AllOf(HasSubstr("mpirun -n 2 evenkeel serve job.yaml : -n 8 trainer job.yaml"),
                    Not(HasSubstr("--dump"))));
}

}  // namespace
}  // namespace evenkeel
