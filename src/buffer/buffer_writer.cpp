#include <utility>

#include "buffer/buffer.hpp"

// Member functions of Buffer that use its queue of requests.
namespace evenkeel {

void Buffer::stop() {
  queue_.stop();
  {
    const std::lock_guard lock(state_mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
}

void Buffer::submit(std::int64_t bytes, std::function<void(Change&)> act) {
  queue_.submit(bytes, std::move(act));
}

/// Waits until all changes so far are durable.
void Buffer::wait_until_durable() {
  {
    const std::lock_guard lock(state_mutex_);
    if (is_durable_) return;
  }
  submit(0, [](Change&) {});
}

std::optional<Buffer::Clock::time_point> Buffer::next_commit_time() const {
  const std::lock_guard lock(state_mutex_);
  return must_load_ ? Clock::now() + Queue::reload_interval : next_deadline();
}

void Buffer::mark_durable() {
  const std::lock_guard lock(state_mutex_);
  is_durable_ = true;
}

}  // namespace evenkeel
