#include "source/arriving/heartbeats.hpp"

#include <chrono>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::chrono::seconds between_beats{2};
// Time limit for an answer. It is short, since the destructor may wait for two calls: a heartbeat in progress
// and leave().
constexpr std::chrono::seconds longest_answer{2};

}  // namespace

Heartbeats::Heartbeats(JobClient client) : client_(std::move(client)) {
  client_.set_answer_timeout(longest_answer);
  thread_ = std::thread([this] { run_heartbeat_loop(); });
}

Heartbeats::~Heartbeats() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  end_condition_.notify_all();
  thread_.join();
  try {
    client_.leave();
  } catch (const std::exception&) {
    // Ignore the error. Either another job has fenced this one, or the buffer cannot be reached. In the
    // latter case, the buffer allows another job to begin after a timeout.
  }
}

// Ignores errors: if the buffer cannot be reached, the calls that form or read steps will report it.
void Heartbeats::run_heartbeat_loop() {
  std::unique_lock lock(mutex_);
  while (!end_condition_.wait_for(lock, between_beats, [&] { return has_ended_; })) {
    lock.unlock();
    try {
      client_.send_heartbeat();
    } catch (const std::exception&) {
    }
    lock.lock();
  }
}

}  // namespace evenkeel
