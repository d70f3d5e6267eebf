#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::run_command;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

const std::string program = EVENKEEL_PROGRAM;
const std::string mpirun_of_two = std::string(EVENKEEL_MPIRUN) + " -np 2 " + program;

/// A job that differs from the default one in what its report contains.
class RunConfiguration : public testing::Test {
 protected:
  RunConfiguration() {
    write_text(scratch_ / "job.yaml",
               "source: {kind: synthetic, samples: 24}\nmicro_batch: {max_tokens: 20000}\n");
  }

  [[nodiscard]] std::string job() const { return (scratch_ / "job.yaml").string(); }
  [[nodiscard]] static ProgramResult in_bash(const std::string& command) {
    return run_command("timeout 180 bash -c '" + command + "'");
  }
  static void expect_ran(const ProgramResult& result) {
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(" 24 in 1 step"));
    EXPECT_THAT(result.out, HasSubstr("of 20,000 tokens"));
  }

  ScratchFolder scratch_;
};

TEST_F(RunConfiguration, may_come_from_a_pipe) {
  expect_ran(in_bash(program + " run <(cat " + job() + ")"));
  expect_ran(in_bash(program + " run /dev/stdin < " + job()));
  expect_ran(in_bash("cat " + job() + " | " + program + " run /dev/stdin"));
}

TEST_F(RunConfiguration, may_come_to_rank_0_through_the_launcher) {
  expect_ran(in_bash(mpirun_of_two + " run /dev/stdin < " + job()));
  const std::string pipe = (scratch_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_ran(in_bash("cat " + job() + " > " + pipe + " & " + mpirun_of_two + " run " + pipe));
}

TEST_F(RunConfiguration, lost_by_a_launcher_is_refused_with_a_remedy) {
  const ProgramResult result = in_bash(mpirun_of_two + " run <(cat " + job() + ")");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("mpirun ... run /dev/stdin < FILE"));
}

TEST_F(RunConfiguration, without_a_source_is_refused_with_a_list_of_kinds) {
  write_text(scratch_ / "job.yaml", "mesh: {tp: 1}\n");
  const ProgramResult result = mpirun_evenkeel(2, "run " + job());
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("source.kind: is not set"));
  for (const char* kind : {"jsonl (", "lengths (", "synthetic ("}) EXPECT_THAT(result.err, HasSubstr(kind));
  EXPECT_EQ(mpirun_evenkeel(2, "run " + job() + " --set source.kind=synthetic --set source.samples=8").status,
            0);
  EXPECT_EQ(run_evenkeel("config show " + job()).status, 0);
}

TEST_F(RunConfiguration, empty_is_not_the_default_job) {
  const ProgramResult result = mpirun_evenkeel(2, "run /dev/null --set source.kind=synthetic");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("/dev/null: contains no keys"));
}

TEST_F(RunConfiguration, errors_are_reported_once_with_their_place) {
  write_text(scratch_ / "wrong.yaml", "source: {kind: synthetic}\nmesh: {tp: x}\n");
  for (const std::string& wrong : {(scratch_ / "wrong.yaml").string(), job() + " --set mesh.tp=x"}) {
    const ProgramResult result = mpirun_evenkeel(2, "run " + wrong);
    EXPECT_EQ(result.status, 2);
    const std::string message = "mesh.tp=x: expected an integer, found x\n";
    const std::string in_file = "wrong.yaml:2: mesh.tp: expected an integer, found x\n";
    EXPECT_THAT(result.err, testing::AnyOf(HasSubstr(message), HasSubstr(in_file)));
    EXPECT_EQ(result.err.find("expected"), result.err.rfind("expected"));
  }
}

TEST_F(RunConfiguration, ends_where_its_document_ends) {
  for (const char* arguments : {"config show ", "run "}) {
    const ProgramResult result =
        run_command("timeout 20 " + program + " " + arguments + job() + " --set 'balance.speeds=[1, 1],'");
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr("found \",\" after the end of the document"));
  }
}

TEST_F(RunConfiguration, each_pass_over_a_step_has_its_profile) {
  const std::string profile = " --set profiles.a.micro_batch.min_count=2 ";
  const ProgramResult twice = mpirun_evenkeel(2, "run " + job() + profile + "--profiles a,a");
  EXPECT_NE(twice.status, 0);
  EXPECT_THAT(twice.err, HasSubstr("--profiles: names a twice"));
  EXPECT_THAT(twice.out, Not(HasSubstr("profile a")));
  EXPECT_EQ(mpirun_evenkeel(2, "run " + job() + profile + "--profiles a").status, 0);
}

TEST_F(RunConfiguration, different_between_ranks_is_everybodys_error) {
  const std::string one = " -np 1 " + program + " run " + job();
  for (const char* options : {" --steps 1 --set batch.epochs=2", " --profiles a"}) {
    const std::string command = testing_support::mpirun_programs + one +
                                " --set batch.epochs=2 --set profiles.a.micro_batch.min_count=2 :" + one +
                                options;
    const ProgramResult result = in_bash(command);
    EXPECT_EQ(result.status, 2) << options;
    EXPECT_THAT(result.err, HasSubstr(" on rank 0 and ")) << options;
  }
}

TEST(PlanConfiguration, suggests_a_cap_that_can_be_set) {
  const ScratchFolder scratch;
  write_text(scratch / "long.csv", "length\n2147483647\n");
  const std::string plan = "plan --lengths " + (scratch / "long.csv").string() + " --set mesh.dp=1 ";
  const ProgramResult beyond = run_evenkeel(plan + "--set mesh.tp=2");
  EXPECT_EQ(beyond.status, 1);
  EXPECT_THAT(beyond.err, HasSubstr("Shorten or drop the sample: the cap cannot be more than 2147483647"));
  const ProgramResult within = run_evenkeel(plan);
  EXPECT_THAT(within.err, HasSubstr("Raise micro_batch.max_tokens (or micro_batch.max_tokens_per_rank times "
                                    "mesh.cp) to at least 2147483647"));
  EXPECT_EQ(run_evenkeel(plan + "--set micro_batch.max_tokens=2147483647").status, 0);
}

}  // namespace
}  // namespace evenkeel
