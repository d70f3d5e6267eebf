#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "buffer/buffer.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/server.hpp"
#include "buffer/store/store.hpp"
#include "support/run_program.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// A folder with 40 rollouts for 10 prompts, and a buffer in this process.
class Feed : public testing::Test {
 protected:
  Feed() {
    made("synth --samples 40 --group-size 4 --response-median 30 --prompt-median 20 --out " + in("a.jsonl"));
  }
  ~Feed() override { close(); }

  void open(std::int64_t group_size, std::int64_t capacity = 64 << 20) {
    close();
    buffer_ = std::make_unique<Buffer>(make_memory_store(capacity), testing_support::groups_of(group_size));
    server_ = std::make_unique<BufferServer>(*buffer_, ServerSettings{.port = 0});
    thread_ = std::thread([this] { server_->serve(); });
  }
  void close() {
    if (!server_) return;
    buffer_->stop();
    server_->stop();
    thread_.join();
    server_.reset();
  }

  [[nodiscard]] std::string in(const std::string& name) const { return (scratch_ / name).string(); }
  static void made(const std::string& arguments) {
    const ProgramResult result = run_evenkeel(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  [[nodiscard]] ProgramResult feed(const std::string& what) const {
    return run_evenkeel("feed " + what + " --to " + server_->url() + " --progress off");
  }
  void expect_refused(const std::string& what, const testing::Matcher<std::string>& text) const {
    const ProgramResult result = feed(what);
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.err, text);
  }
  /// The samples in a job's dump, without the fields that only a stream has.
  void convert_dump(const std::string& dump, const std::string& drop, const std::string& to) const {
    made("convert " + in(dump) + " " + in(to) + " --from dump --progress off --drop " + drop);
  }

  ScratchFolder scratch_;
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<BufferServer> server_;
  std::thread thread_;
};

TEST_F(Feed, sends_the_samples_that_a_job_would_read_from_the_files) {
  open(1);
  const ProgramResult sent = feed(in("a.jsonl") + " --end");
  ASSERT_EQ(sent.status, 0) << sent.err;
  EXPECT_THAT(sent.out, HasSubstr("sent 40 samples, "));
  EXPECT_THAT(sent.out, HasSubstr("; 40 new, 0 duplicates, 0 stale, 0 dropped\n"));
  write_text(scratch_ / "job.yaml", "source: {kind: stream, path: '" + server_->url() +
                                        "'}\nbatch: {global_batch: 8}\nstream: {patience: 60}\n");
  ASSERT_EQ(mpirun_evenkeel(2, "run " + in("job.yaml") + " --dump " + in("fed")).status, 0);
  write_text(scratch_ / "file.yaml",
             "source: {kind: jsonl, path: " + in("a.jsonl") + "}\nbatch: {global_batch: 8}\n");
  ASSERT_EQ(mpirun_evenkeel(2, "run " + in("file.yaml") + " --dump " + in("read")).status, 0);
  convert_dump("fed", "uid,index,version", "fed.jsonl");
  convert_dump("read", "uid", "read.jsonl");
  EXPECT_TRUE(read_text(in("fed.jsonl")) == read_text(in("read.jsonl")));
}

TEST_F(Feed, sends_the_same_keys_when_it_is_started_again) {
  for (const std::int64_t group_size : {1, 4}) {
    open(group_size);
    const std::string what = in("a.jsonl") + " --set batch.shuffle=true";
    EXPECT_THAT(feed(what).out, HasSubstr("; 40 new, 0 duplicates, 0 stale, 0 dropped\n"));
    EXPECT_THAT(feed(what).out, HasSubstr("; 0 new, 40 duplicates, 0 stale, 0 dropped\n"));
    EXPECT_EQ(buffer_->status().stream.ready_groups, 40 / group_size);
  }
}

TEST_F(Feed, other_samples_under_the_same_name_are_refused) {
  open(1);
  ASSERT_EQ(feed(in("a.jsonl")).status, 0);
  expect_refused(in("a.jsonl") + " --set batch.shuffle=true", HasSubstr("different content"));
  EXPECT_THAT(feed(in("a.jsonl") + " --set batch.shuffle=true --name shuffled").out, HasSubstr("; 40 new, "));
}

TEST_F(Feed, filters_samples_and_reads_every_kind_of_source) {
  made("convert " + in("a.jsonl") + " " + in("b.safetensors") + " --progress off");
  open(1);
  EXPECT_THAT(feed(in("b.safetensors")).out, HasSubstr("sent 40 samples"));
  write_text(scratch_ / "job.yaml", "sources: {short: {kind: jsonl, path: " + in("a.jsonl") +
                                        "}, again: {kind: safetensors, path: " + in("b.safetensors") +
                                        "}}\nmesh: {tp: 2}\n"
                                        "batch: {max_length: 50, too_long: drop, epochs: 2}\n");
  const ProgramResult filtered = feed("--config " + in("job.yaml"));
  EXPECT_EQ(filtered.status, 0) << filtered.err;
  EXPECT_THAT(filtered.err, HasSubstr("too long"));
}

TEST_F(Feed, waits_for_room_in_a_full_buffer_and_loses_nothing) {
  made("synth --samples 400 --response-median 1000 --out " + in("large.jsonl"));
  open(1, 1 << 20);
  expect_refused(in("large.jsonl") + " --patience 1", HasSubstr("full"));
  auto feeder = std::async(std::launch::async, [&] { return feed(in("large.jsonl") + " --end"); });
  write_text(scratch_ / "job.yaml",
             "source: {kind: stream, path: '" + server_->url() +
                 "'}\nbatch: {global_batch: 20}\nmicro_batch: {max_tokens: 64k}\nstream: {patience: 60}\n");
  const ProgramResult job = mpirun_evenkeel(2, "run " + in("job.yaml") + " --state " + in("state"));
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_EQ(feeder.get().status, 0);
  EXPECT_EQ(buffer_->status().stream.trained.samples, 400);
}

TEST_F(Feed, refuses_samples_without_a_key_and_settings_that_depend_on_the_job) {
  open(2);
  write_text(scratch_ / "stream.yaml", "source: {kind: stream, path: '" + server_->url() + "'}\n");
  expect_refused(in("a.jsonl"), AllOf(HasSubstr("is one too many for its group"), HasSubstr("have 2")));
  write_text(scratch_ / "no_uid.jsonl", "{\"prompt_ids\": [1], \"response_ids\": [2]}\n");
  expect_refused(in("no_uid.jsonl"), AllOf(HasSubstr("has no uid"), HasSubstr("--group-size 1")));
  expect_refused(in("a.jsonl") + " --set batch.too_long=drop", HasSubstr("batch.max_length"));
  expect_refused("", HasSubstr("has nothing to read"));
  std::filesystem::create_directory(scratch_ / "dump");
  expect_refused(in("dump") + " --set fields.values.at=token",
                 AllOf(HasSubstr("fields.values.at"), HasSubstr("shift them a second time")));
  expect_refused("--config " + in("stream.yaml"), HasSubstr("Name the files to read"));
}

}  // namespace
}  // namespace evenkeel
