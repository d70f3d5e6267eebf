// Tests files that producers rename into a folder, and that a separate process of a buffer takes from there.
#include "buffer/spool/spool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "buffer/buffer.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/sample_tensors.hpp"
#include "buffer/server.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "support/error_message.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::spool_test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing_support::message_of;
using testing_support::read_text;
using testing_support::rollout_line;
using testing_support::sample_tensors;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// A buffer that takes files from a folder, as in a job.
class Taking {
 public:
  Taking(std::unique_ptr<Store> store, const std::filesystem::path& folder)
      : spool_(std::in_place, folder,
               [this](const std::string& line) {
                 const std::lock_guard lock(mutex_);
                 said_ += line + "\n";
               }),
        buffer_(std::move(store), testing_support::groups_of(2)),
        server_(buffer_, {.port = 0}),
        thread_([this] { server_.serve(); }) {
    spool_->start_sending(JobClient(server_.url()));
  }
  ~Taking() {
    spool_.reset();
    buffer_.stop();
    server_.stop();
    thread_.join();
  }

  Buffer* operator->() { return &buffer_; }
  [[nodiscard]] std::string said() const {
    const std::lock_guard lock(mutex_);
    return said_;
  }

 private:
  mutable std::mutex mutex_;
  std::string said_;
  std::optional<Spool> spool_;
  Buffer buffer_;
  BufferServer server_;
  std::thread thread_;
};

bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

class SpoolFolder : public testing::Test {
 protected:
  SpoolFolder() { std::filesystem::create_directory(folder_); }

  /// Writes a file as a producer does: under another name, renamed when it is complete.
  void put(const std::string& name, const std::string& lines) const {
    write_text(folder_ / ("." + name), lines);
    std::filesystem::rename(folder_ / ("." + name), folder_ / name);
  }
  [[nodiscard]] bool has(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  [[nodiscard]] bool is_taken(const std::string& name) const {
    return comes_true([&] { return !has(name); });
  }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_ / "spool";
};

TEST_F(SpoolFolder, files_are_read_in_the_order_of_their_names_and_other_files_are_ignored) {
  put("end", "");
  put("y.jsonl", rollout_line("y", 0) + rollout_line("y", 1));
  put("x.jsonl", rollout_line("x", 0) + rollout_line("x", 1));
  put("unfinished.jsonl.part", rollout_line("c", 0));
  write_text(folder_ / ".hidden.jsonl", rollout_line("d", 0));
  Taking taking(make_memory_store(1 << 20), folder_);
  ASSERT_TRUE(is_taken("end"));
  const WaitingGroups waiting = taking->wait_for_groups(2, 2, 0s);
  ASSERT_EQ(waiting.groups.size(), 2);
  EXPECT_EQ(waiting.groups[0].uid, Uid("x"));
  EXPECT_TRUE(waiting.stream.ended);
  EXPECT_EQ(waiting.stream.received.samples, 4);
  EXPECT_FALSE(has("x.jsonl") || has("y.jsonl"));
  EXPECT_TRUE(has("unfinished.jsonl.part") && has(".hidden.jsonl"));
}

TEST_F(SpoolFolder, a_rejected_file_is_renamed_with_the_reason_and_does_not_delay_others) {
  put("a.jsonl", "{\"uid\": \"a\"}\n");
  put("b.jsonl", rollout_line("b", 0));
  Taking taking(make_memory_store(1 << 20), folder_);
  ASSERT_TRUE(is_taken("b.jsonl"));
  EXPECT_TRUE(has("a.jsonl.refused"));
  EXPECT_THAT(read_text(folder_ / "a.jsonl.refused.txt"),
              AllOf(HasSubstr("body:1"), HasSubstr("prompt_ids")));
  EXPECT_THAT(taking.said(), HasSubstr("a.jsonl.refused"));
}

TEST_F(SpoolFolder, unreadable_files_are_renamed_and_delay_neither_others_nor_the_end) {
  std::filesystem::create_symlink("nowhere", folder_ / "a.jsonl");
  std::filesystem::create_directory(folder_ / "b.jsonl");
  put("b.jsonl.refused", "from before");
  put("c.JSONL", rollout_line("c", 0) + rollout_line("c", 1));
  put("d.json", rollout_line("d", 0));
  put("end", "");
  Taking taking(make_memory_store(1 << 20), folder_);
  ASSERT_TRUE(is_taken("end"));
  EXPECT_EQ(taking->status().stream.received.samples, 2);
  EXPECT_TRUE(has("a.jsonl.refused.txt") && has("b.jsonl.refused-2") && has("d.json"));
  EXPECT_EQ(read_text(folder_ / "b.jsonl.refused"), "from before");
  EXPECT_THAT(taking.said(), AllOf(HasSubstr("a.jsonl is rejected"), HasSubstr("d.json is ignored")));
}

TEST_F(SpoolFolder, json_lines_are_rejected_after_files_of_tensors) {
  put("a.safetensors", sample_tensors());
  put("b.jsonl", rollout_line("b", 0));
  Taking taking(make_memory_store(1 << 20), folder_);
  ASSERT_TRUE(is_taken("b.jsonl"));
  EXPECT_FALSE(has("a.safetensors") || has("a.safetensors.refused"));
  EXPECT_EQ(taking->status().stream.received.samples, 1);
  EXPECT_THAT(read_text(folder_ / "b.jsonl.refused.txt"),
              HasSubstr("earlier samples were sent as safetensors"));
}

TEST_F(SpoolFolder, files_wait_while_the_buffer_is_full) {
  const std::string many = rollout_line("a", 0, 0, 3000) + rollout_line("a", 1, 0, 3000);
  put("a.jsonl", many);
  put("b.jsonl", rollout_line("b", 0, 0, 3000) + rollout_line("b", 1, 0, 3000));
  Taking taking(make_memory_store(std::ssize(many) * 3 / 2), folder_);
  ASSERT_TRUE(comes_true([&] { return taking.said().find("b.jsonl waits: ") != std::string::npos; }));
  EXPECT_TRUE(has("b.jsonl"));
  taking->form_step({.step = 0, .version = 0, .groups = {{Uid("a"), 2}}, .masked = {}, .passed = {}});
  taking->mark_trained(0);
  EXPECT_TRUE(is_taken("b.jsonl"));
}

TEST_F(SpoolFolder, files_are_read_by_one_process_only) {
  const Taking taking(make_memory_store(1 << 20), folder_);
  EXPECT_THAT(message_of([&] { Taking(make_memory_store(1 << 20), folder_); }),
              HasSubstr("another process takes files"));
  EXPECT_THAT(message_of([&] { Taking(make_memory_store(1 << 20), scratch_ / "none"); }),
              HasSubstr("is not a folder"));
}

TEST_F(SpoolFolder, each_file_is_read_once_however_often_its_process_is_killed) {
  constexpr int files = 120;
  for (int f = 0; f < files; ++f)
    put(std::to_string(1000 + f) + ".jsonl",
        rollout_line("g" + std::to_string(f), 0) + rollout_line("g" + std::to_string(f), 1));
  const auto left = [&] {
    return std::ranges::distance(std::filesystem::directory_iterator(folder_)) - 1;  // the lock
  };
  for (const int until : {90, 50, 10}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const Taking taking(open_lmdb_store(scratch_ / "kept", least_lmdb_capacity), folder_);
      while (true) std::this_thread::sleep_for(1h);
    }
    EXPECT_TRUE(comes_true([&] { return left() <= until; }));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  Taking taking(open_lmdb_store(scratch_ / "kept", least_lmdb_capacity), folder_);
  ASSERT_TRUE(comes_true([&] { return left() == 0; }));
  const stream::Status status = taking->status().stream;
  EXPECT_EQ(status.received.samples, 2 * files);
  EXPECT_EQ(status.ready_groups, files);
}

}  // namespace
}  // namespace evenkeel::spool_test
