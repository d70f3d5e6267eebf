// Tests which job may train from a buffer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/job_client.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/server.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "support/error_message.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing_support::groups_of;
using testing_support::message_of;
using testing_support::received;
using testing_support::rollout_line;
using testing_support::ScratchFolder;

/// A buffer in a folder and its server, which can be restarted with other rules at the same port.
class RestartedBuffer {
 public:
  explicit RestartedBuffer(const stream::StreamSettings& settings) { start(settings); }
  ~RestartedBuffer() { stop(); }

  void restart(const stream::StreamSettings& settings) {
    stop();
    start(settings);
  }
  [[nodiscard]] std::string url() const { return server_->url(); }
  Buffer* operator->() { return buffer_.get(); }

 private:
  void start(const stream::StreamSettings& settings) {
    buffer_ = std::make_unique<Buffer>(open_lmdb_store(scratch_ / "kept", least_lmdb_capacity), settings);
    server_.emplace(*buffer_, ServerSettings{.port = port_});
    port_ = server_->port();
    serving_ = std::thread([this] { server_->serve(); });
  }
  void stop() {
    buffer_->stop();
    server_->stop();
    serving_.join();
    server_.reset();
    buffer_.reset();
  }

  ScratchFolder scratch_;
  int port_ = 0;
  std::unique_ptr<Buffer> buffer_;
  std::optional<BufferServer> server_;
  std::thread serving_;
};

/// Returns all calls of a job except begin.
std::vector<std::function<void()>> calls_of(JobClient& job) {
  return {[&] { job.wait_for_groups(1, 1, 0ms); },
          [&] { job.wait_for_step(0, 0s); },
          [&] { job.fetch_samples(std::vector<std::int64_t>{1}); },
          [&] { job.schema(); },
          [&] { job.untrained_steps(0); },
          [&] {
            static_cast<void>(job.form_step({0, 0, {{"a", 1}}, {}, {}}));
          },
          [&] { job.drop_filtered(std::vector<std::int64_t>{1}); },
          [&] { job.publish(9); },
          [&] { job.report_trained(0); },
          [&] { job.abandon_step(0, "a zombie has failed"); },
          [&] { job.send_heartbeat(); },
          [&] { job.leave(); }};
}

TEST(JobsOfBuffer, are_fenced_in_every_call_once_another_job_has_begun) {
  RestartedBuffer buffer(groups_of(1));
  buffer->accept_samples(received(rollout_line("a", 0)));
  JobClient zombie(buffer.url());
  JobClient job(buffer.url());
  static_cast<void>(zombie.begin(1));
  static_cast<void>(job.begin(1, {.takes_over = true}));
  const auto are_refused = [&] {
    for (const auto& call : calls_of(zombie))
      EXPECT_THAT(message_of(call), HasSubstr("job 1: is fenced: job 2 now trains"));
  };
  are_refused();
  buffer.restart(groups_of(1));
  are_refused();
  EXPECT_EQ(buffer->status().stream.waiting.samples, 1) << "the zombie has changed nothing";
  EXPECT_EQ(buffer->status().stream.version, 0);
  EXPECT_TRUE(job.wait_for_step(0, 0s).failure.empty());
  EXPECT_TRUE(job.form_step({0, 0, {{"a", 1}}, {}, {}}));
  EXPECT_TRUE(job.wait_for_step(0, 0s).step);
}

TEST(JobsOfBuffer, do_not_begin_while_another_job_is_alive) {
  RestartedBuffer buffer(groups_of(1));
  buffer->set_job_timeout(300ms);
  JobClient first(buffer.url());
  static_cast<void>(first.begin(1));
  std::atomic<bool> is_over = false;
  std::thread alive([&] {
    while (!is_over) first.send_heartbeat();
  });
  EXPECT_THAT(message_of([&] { static_cast<void>(JobClient(buffer.url()).begin(1)); }),
              AllOf(HasSubstr("job 1: already trains from the buffer"), HasSubstr("stream.take_over")));
  is_over = true;
  alive.join();
  first.leave();
  buffer->set_job_timeout(1h);
  static_cast<void>(JobClient(buffer.url()).begin(1));
  buffer->set_job_timeout(1ms);
  static_cast<void>(JobClient(buffer.url()).begin(1));
  EXPECT_EQ(buffer->status().job, 3) << "the second job has made no calls, as one that was killed";
}

TEST(JobsOfBuffer, end_with_the_difference_when_the_buffer_restarts_with_different_rules) {
  stream::StreamSettings settings = groups_of(2);
  RestartedBuffer buffer(settings);
  JobClient job(buffer.url());
  static_cast<void>(job.begin(4));
  buffer.restart(settings);
  EXPECT_NO_THROW(job.send_heartbeat()) << "with the same rules the job goes on";
  settings.ticket_deadline = 7;
  buffer.restart(settings);
  EXPECT_NO_THROW(job.send_heartbeat()) << "no step depends on the deadline of tickets";
  settings.group_size = 4;
  settings.max_staleness = 0;
  settings.on_stale = OnStale::mask;
  buffer.restart(settings);
  for (const auto& call : calls_of(job)) {
    EXPECT_THROW(call(), ConfigError);
    EXPECT_THAT(message_of(call),
                AllOf(HasSubstr("has different rules than when the job began"),
                      HasSubstr("group_size was 2 and is 4, max_staleness was null and is 0, on_stale was "
                                "\"wait\" and is \"mask\"")));
  }
}

TEST(JobsOfBuffer, are_unknown_to_a_new_store) {
  RestartedBuffer buffer(groups_of(1));
  RestartedBuffer other(groups_of(1));
  JobClient job(buffer.url());
  const JobPass pass = job.begin(1).pass;
  JobClient elsewhere(other.url(), {}, {}, pass);
  EXPECT_THAT(message_of([&] { elsewhere.send_heartbeat(); }), HasSubstr("is unknown to the buffer"));
  static_cast<void>(JobClient(other.url()).begin(1));
  EXPECT_THAT(message_of([&] { elsewhere.send_heartbeat(); }), HasSubstr("is fenced"))
      << "of the same number";
}

}  // namespace
}  // namespace evenkeel
