// A job that runs its own buffer, and what the job and `inspect` report about the samples in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/redis_server.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/store/store.hpp"
#include "page/arrivals.hpp"
#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
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
  /// Sends five groups of two samples, repeats one sample, and ends.
  JobWithABuffer() {
    stream::StreamSettings settings = testing_support::groups_of(2);
    settings.max_staleness = 1;
    Buffer buffer(open_lmdb_store(scratch_ / "kept", least_lmdb_capacity), settings);
    for (const char* name : {"a", "b", "c", "d", "e"})
      buffer.accept_samples(received(rollout_line(name, 0) + rollout_line(name, 1)));
    buffer.accept_samples(received(rollout_line("a", 1)));
    buffer.end_stream();
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

TEST_F(JobWithABuffer, trains_fresh_samples_and_accounts_for_every_sample) {
  EXPECT_THAT(inspected(), AllOf(HasSubstr("received       10\n"), HasSubstr("duplicates     1\n"),
                                 HasSubstr("10 in 5 groups that are complete, 0 that are not"),
                                 HasSubstr("last formed    none")));
  const std::string report = (scratch_ / "report").string();
  const std::string metrics = (scratch_ / "run.prom").string();
  const ProgramResult told = run(2, "--report " + report + " --prometheus-file " + metrics);
  ASSERT_EQ(told.status, 0) << told.err;
  EXPECT_THAT(told.err, HasSubstr("samples that arrive, in an unknown number of steps"));
  // All samples are of version 0: those of two steps are fresh enough, and the last group is dropped.
  EXPECT_THAT(told.out,
              AllOf(HasSubstr("10: 8 trained, 0 in steps, 0 waiting, 2 dropped (2 stale); 1 duplicate\n"),
                    HasSubstr("4 by 0, 4 by 1 version\n")));
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
  // The same on the page, also while the job runs.
  EXPECT_THAT(read_text(report + "/report.html"), HasSubstr("\"arrivals\":" + arrivals.dump()));
  std::istringstream lines(read_text(report + "/metrics.jsonl"));
  std::vector<std::int64_t> in_steps;
  for (std::string line; std::getline(lines, line);)
    in_steps.push_back(nlohmann::json::parse(line).at("arrivals").at("formed"));
  EXPECT_THAT(in_steps, ElementsAre(Ge(4), Ge(4)));
  EXPECT_THAT(read_text(metrics),
              AllOf(HasSubstr("\nevenkeel_stream_trained_samples_total 8\n"),
                    HasSubstr("\nevenkeel_stream_waiting_samples 0\n"),
                    HasSubstr("\nevenkeel_stream_dropped_samples_total{reason=\"stale\"} 2\n"),
                    HasSubstr("\nevenkeel_stream_samples_behind_policy_total{versions=\"1\"} 4\n")));
  for_each_arrival_figure([&](const auto& figure) {
    EXPECT_THAT(page, HasSubstr("| `evenkeel_stream_" + std::string(figure.metric) + "` |"));
  });
  EXPECT_THAT(inspected(), AllOf(HasSubstr("trained        8\n"), HasSubstr("dropped        2 (2 stale)\n"),
                                 HasSubstr("behind policy  4 by 0, 4 by 1 version\n"),
                                 HasSubstr("last trained   1\n"), HasSubstr("more may come  no\n")));
}

TEST_F(JobWithABuffer, resumes_on_another_number_of_ranks) {
  const std::string state = "--state " + (scratch_ / "state").string();
  ASSERT_EQ(run(3, state + " --steps 1 --report " + (scratch_ / "report").string()).status, 0);
  EXPECT_THAT(inspected(), HasSubstr("last trained   0\n"));
  const ProgramResult rest = run(2, state + " --resume");
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("8 trained"));
  const ProgramResult again = run(2, "");
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, AllOf(HasSubstr("step 0"), HasSubstr("has freed the samples of steps up to 1")));
}

TEST_F(JobWithABuffer, reads_a_spool_folder_and_may_use_redis) {
  if (!testing_support::no_redis().empty()) GTEST_SKIP() << testing_support::no_redis();
  const testing_support::RedisServer redis;
  const std::filesystem::path spool = scratch_ / "spool";
  std::filesystem::create_directory(spool);
  for (const std::string name : {"a", "b"})
    write_text(spool / (name + ".jsonl"), rollout_line(name, 0) + rollout_line(name, 1));
  write_text(spool / "end", "");
  write_text(scratch_ / "job.yaml", "source: {kind: stream, path: " + spool.string() +
                                        "}\nbatch: {global_batch: 4}\nstream: {listen: '127.0.0.1:0', store: "
                                        "'redis+unix://" +
                                        redis.socket() + "', name: math, group_size: 2}\n");
  const ProgramResult told = run(2, "");
  ASSERT_EQ(told.status, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("4: 4 trained, 0 in steps, 0 waiting, 0"));
  EXPECT_FALSE(std::filesystem::exists(spool / "a.jsonl") || std::filesystem::exists(spool / "end"));
  EXPECT_THAT(run(1, "--set stream.store=redis://:secret@h").err,
              AllOf(HasSubstr("stream.store: contains a password"), HasSubstr("stream.redis_password_file")));
}

TEST_F(JobWithABuffer, is_refused_if_impossible) {
  EXPECT_THAT(run(1, "--set stream.version=trainer").err, HasSubstr("stream.version: is trainer"));
  EXPECT_THAT(run(1, "--set stream.token_file=" + (scratch_ / "none").string()).err,
              HasSubstr("none: cannot be opened"));
  EXPECT_THAT(run_evenkeel("inspect http://127.0.0.1:1").err, HasSubstr("cannot be reached"));
  EXPECT_THAT(run_evenkeel("inspect " + (scratch_ / "job.yaml").string() + " --token-file x").err,
              HasSubstr("--token-file: can only be used with the address of a buffer"));
  EXPECT_THAT(run_evenkeel("inspect " + (scratch_ / "kept").string() + " --token-file x").err,
              HasSubstr("--token-file: can only be used with the address of a buffer"));
}

}  // namespace
}  // namespace evenkeel
