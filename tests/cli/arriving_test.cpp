// A job that has its buffer itself, and what it and `inspect` tell of the samples there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "buffer/buffer.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/store/store.hpp"
#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::received;
using testing_support::rollout_line;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

class JobWithABuffer : public testing::Test {
 protected:
  /// Five groups of two samples, one sample again, and no more.
  JobWithABuffer() {
    stream::StreamSettings settings = testing_support::groups_of(2);
    settings.max_staleness = 1;
    Buffer buffer(open_lmdb_store(scratch_ / "kept", least_lmdb_capacity), settings);
    for (const char* name : {"a", "b", "c", "d", "e"})
      buffer.take(received(rollout_line(name, 0) + rollout_line(name, 1)));
    buffer.take(received(rollout_line("a", 1)));
    buffer.end();
    write_text(scratch_ / "job.yaml", "source: {kind: stream}\nbatch: {global_batch: 4}\nstream: {dir: " +
                                          (scratch_ / "kept").string() +
                                          ", listen: '127.0.0.1:0', capacity: 16MiB, group_size: 2, "
                                          "max_staleness: 1}\n");
  }

  [[nodiscard]] ProgramResult run(int ranks, const std::string& more) const {
    return mpirun_evenkeel(ranks, "run " + (scratch_ / "job.yaml").string() + " " + more);
  }
  [[nodiscard]] std::string inspected() const {
    return run_evenkeel("inspect " + (scratch_ / "kept").string()).out;
  }

  ScratchFolder scratch_;
};

TEST_F(JobWithABuffer, trains_what_is_fresh_enough_and_accounts_for_each_sample) {
  EXPECT_THAT(inspected(), AllOf(HasSubstr("received       10\n"), HasSubstr("duplicates     1\n"),
                                 HasSubstr("10 in 5 groups that are complete, 0 that are not"),
                                 HasSubstr("last formed    none")));
  const std::string report = (scratch_ / "report").string();
  const ProgramResult told = run(2, "--report " + report);
  ASSERT_EQ(told.status, 0) << told.err;
  EXPECT_THAT(told.err, HasSubstr("samples that arrive, no end known"));
  // Of version 0 are all: two steps' are fresh enough, and the last group is dropped.
  EXPECT_THAT(told.out,
              AllOf(HasSubstr("10: 8 trained, 0 in steps, 0 waiting, 2\n"),
                    HasSubstr("dropped (2 stale); 1 duplicate\n"), HasSubstr("4 by 0, 4 by 1 version\n")));
  const auto arrivals = nlohmann::json::parse(read_text(report + "/report.json")).at("arrivals");
  EXPECT_EQ(arrivals.at("trained"), 8);
  EXPECT_EQ(arrivals.at("dropped").at("stale"), 2);
  EXPECT_EQ(arrivals.at("staleness"), (nlohmann::json{{"0", 4}, {"1", 4}}));
  EXPECT_EQ(arrivals.at("received_tokens"), 30);
  const std::string page = read_text(EVENKEEL_SOURCE_DIR "/docs/report.md");
  for (const auto& [key, value] : arrivals.items())
    EXPECT_THAT(page, HasSubstr("| `arrivals." + key + "` |"));
  for (const char* row : {"samples that arrived", "response tokens of a sample", "samples behind the policy",
                          "seconds steps waited for samples"})
    EXPECT_THAT(page, HasSubstr("| " + std::string(row) + " |"));
  EXPECT_THAT(inspected(), AllOf(HasSubstr("trained        8\n"), HasSubstr("dropped        2 (2 stale)\n"),
                                 HasSubstr("last trained   1\n"), HasSubstr("more may come  no\n")));
}

TEST_F(JobWithABuffer, may_have_data_ranks_that_read_and_resume_on_others) {
  const std::string state = "--state " + (scratch_ / "state").string();
  ASSERT_EQ(run(3, state + " --set mesh.data_ranks=1 --steps 1").status, 0);
  EXPECT_THAT(inspected(), HasSubstr("last trained   0\n"));
  const ProgramResult rest = run(2, state + " --resume");
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("8 trained"));
  const ProgramResult again = run(2, "");
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, AllOf(HasSubstr("step 0"), HasSubstr("has freed the samples of steps up to 1")));
}

TEST_F(JobWithABuffer, is_refused_where_it_cannot_be) {
  EXPECT_THAT(run(1, "--set stream.version=trainer").err, HasSubstr("stream.version: is trainer"));
  EXPECT_THAT(run(1, "--set stream.token_file=" + (scratch_ / "none").string()).err,
              HasSubstr("none: cannot be opened"));
  EXPECT_THAT(run_evenkeel("inspect http://127.0.0.1:1").err, HasSubstr("cannot be reached"));
  EXPECT_THAT(run_evenkeel("inspect " + (scratch_ / "job.yaml").string() + " --token-file x").err,
              HasSubstr("--token-file: is for the address of a buffer"));
}

}  // namespace
}  // namespace evenkeel
