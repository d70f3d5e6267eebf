#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// A folder with a file for every command, in which the program runs with its standard output redirected.
class FilesForAll {
 public:
  FilesForAll() {
    write_text(scratch_ / "job.yaml", "source: {kind: synthetic, samples: 16}\n");
    write_text(scratch_ / "lengths.csv", "length\n5\n6\n7\n");
    write_text(scratch_ / "rollouts.jsonl", R"({"uid":"a","prompt_ids":[1,2],"response_ids":[3]})"
                                            "\n");
  }

  /// Runs a shell script in the folder; $evenkeel and $mpirun are the programs.
  [[nodiscard]] ProgramResult shell(const std::string& script) const {
    write_text(scratch_ / "script.sh", "evenkeel='" EVENKEEL_PROGRAM "'\nmpirun='" EVENKEEL_MPIRUN "'\ncd " +
                                           scratch_.path().string() + "\n" + script + "\n");
    return run_command("bash " + (scratch_ / "script.sh").string());
  }
  [[nodiscard]] std::string text_of(const std::string& file) const { return read_text(scratch_ / file); }

 private:
  ScratchFolder scratch_;
};

class EveryCommandThatPrints : public FilesForAll, public testing::TestWithParam<const char*> {};

TEST_P(EveryCommandThatPrints, fails_if_its_output_cannot_be_written) {
  const ProgramResult full = shell(std::string("$evenkeel ") + GetParam() + " >/dev/full");
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.err, HasSubstr("evenkeel: error: standard output: cannot be written: No space left"));
}

TEST_P(EveryCommandThatPrints, fails_if_its_output_is_closed) {
  const ProgramResult closed = shell(std::string("$evenkeel ") + GetParam() + " >&-");
  EXPECT_EQ(closed.status, 1);
  EXPECT_THAT(closed.err, HasSubstr("evenkeel: error: standard output: cannot be written: Bad file"));
}

TEST_P(EveryCommandThatPrints, ends_silently_if_its_reader_is_gone) {
  for (const char* sigpipe : {"", "trap '' PIPE; "}) {
    const ProgramResult result = shell(std::string(sigpipe) + "{ sleep 0.1; $evenkeel " + GetParam() +
                                       " 2>told; echo $? >status; } | true; cat status");
    EXPECT_EQ(result.out, "141\n") << sigpipe;
    EXPECT_THAT(text_of("told"), testing::Not(HasSubstr("error"))) << sigpipe;
  }
}

INSTANTIATE_TEST_SUITE_P(Program, EveryCommandThatPrints,
                         testing::Values("--help", "--version", "run --help", "config schema",
                                         "config show job.yaml", "plan --lengths lengths.csv",
                                         "plan --compare --ranks 2 --lengths lengths.csv",
                                         "inspect rollouts.jsonl", "inspect lengths.csv",
                                         "synth --samples 2 --out made.jsonl",
                                         "run job.yaml --log-level off --progress off"),
                         [](const auto& command) {
                           std::string name = command.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

class StandardOutput : public FilesForAll, public testing::Test {};

TEST_F(StandardOutput, closed_is_never_mixed_into_a_file) {
  const ProgramResult result = shell("$evenkeel plan --lengths lengths.csv --json plan.json >&- <&-");
  EXPECT_EQ(result.status, 1);
  const std::string plan = text_of("plan.json");
  EXPECT_TRUE(plan.empty() || nlohmann::json::accept(plan)) << plan;
}

TEST_F(StandardOutput, an_error_on_rank_0_fails_all_ranks) {
  const ProgramResult result =
      shell("$mpirun -np 3 sh -c '" EVENKEEL_PROGRAM
            " run job.yaml --report report >/dev/full; echo $? >status-$OMPI_COMM_WORLD_RANK'\ncat status-*");
  EXPECT_EQ(result.out, "1\n1\n1\n");
  EXPECT_THAT(result.err, HasSubstr("standard output: cannot be written: No space left"));
  EXPECT_TRUE(nlohmann::json::accept(text_of("report/report.json")));
}

TEST_F(StandardOutput, errors_of_benchmarks_are_detected) {
  const std::string bench = "$mpirun -np 2 sh -c 'exec " EVENKEEL_BENCH " step --repeat 1 --bytes 10000 ";
  const ProgramResult full = shell(bench + ">/dev/full'");
  EXPECT_NE(full.status, 0);
  EXPECT_THAT(full.err, HasSubstr("evenkeel: error: standard output: cannot be written: No space left"));
  const ProgramResult absent = shell(bench + "--json /no/such/folder/figures.json'");
  EXPECT_NE(absent.status, 0);
  EXPECT_THAT(absent.err, HasSubstr("evenkeel: error: /no/such/folder/figures.json: cannot be created"));
}

TEST(OutputFile, above_the_limit_on_file_sizes_is_an_error_that_names_it) {
  const FilesForAll files;
  const ProgramResult result =
      files.shell("ulimit -f 1\n$evenkeel synth --samples 2000 --out large.jsonl\necho $?; ls large*");
  EXPECT_EQ(result.out, "1\n");
  EXPECT_THAT(result.err, HasSubstr("evenkeel: error: large.jsonl: cannot be written: File too large"));
}

}  // namespace
}  // namespace evenkeel
