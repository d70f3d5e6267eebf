#include <utility>

#include "buffer/buffer.hpp"
#include "evenkeel/base/error.hpp"

// The queue of a buffer's requests, and the thread that writes them.
namespace evenkeel {
namespace {

constexpr std::int64_t most_bytes_at_once = std::int64_t{32} << 20;  // of a transaction, but for one request
constexpr std::chrono::seconds between_loads{1};                     // where the store cannot be read

}  // namespace

void Buffer::stop() {
  {
    const std::scoped_lock lock(queue_mutex_, state_mutex_);
    is_stopping_ = true;
  }
  queued_.notify_all();
  changed_.notify_all();
}

void Buffer::submit(std::int64_t bytes, std::function<void(Change&)> act) {
  Request request{std::move(act), bytes, false, nullptr};
  std::unique_lock lock(queue_mutex_);
  if (is_stopping_) throw IoError("buffer", "is being stopped", "Try again");
  queue_.push_back(&request);
  queued_.notify_one();
  request.answered.wait(lock, [&] { return request.is_done; });
  if (request.error) std::rethrow_exception(request.error);
}

/// Who has seen what may not be durable waits for that, as a request does.
void Buffer::wait_until_settled() {
  {
    const std::lock_guard lock(state_mutex_);
    if (is_settled_) return;
  }
  submit(0, [](Change&) {});
}

/// Requests are answered when what they saw is durable: with the transaction after theirs, or at once where
/// nobody waits for one.
void Buffer::write_until_stopped() {
  std::vector<Request*> written;
  bool must_settle = false;
  while (true) {
    const std::vector<Request*> requests = next_requests(!must_settle);
    if (requests.empty() && must_settle) {
      settle(written);
      answer(written);
      must_settle = false;
      continue;
    }
    if (requests.empty() && is_stopping_now()) return;
    if (commit(requests)) answer(written);
    written.insert(written.end(), requests.begin(), requests.end());
    must_settle = !store_->is_settled();
    if (!must_settle) answer(written);
    changed_.notify_all();
  }
}

/// Those that wait, as many as go into one transaction. With `may_wait`, until there is one, a deadline has
/// come, or the buffer is stopped.
std::vector<Buffer::Request*> Buffer::next_requests(bool may_wait) {
  const std::optional<Clock::time_point> deadline = [&] {
    const std::lock_guard lock(state_mutex_);
    return must_load_ ? Clock::now() + between_loads : next_deadline();
  }();
  std::unique_lock lock(queue_mutex_);
  const auto has_work = [&] { return !may_wait || !queue_.empty() || is_stopping_; };
  if (deadline) {
    queued_.wait_until(lock, *deadline, has_work);
  } else {
    queued_.wait(lock, has_work);
  }
  std::vector<Request*> requests;
  std::int64_t bytes = 0;
  while (!queue_.empty() && (requests.empty() || bytes + queue_.front()->bytes <= most_bytes_at_once)) {
    bytes += queue_.front()->bytes;
    requests.push_back(queue_.front());
    queue_.pop_front();
  }
  return requests;
}

bool Buffer::is_stopping_now() {
  const std::lock_guard lock(queue_mutex_);
  return is_stopping_;
}

void Buffer::settle(const std::vector<Request*>& written) {
  try {
    store_->settle();
    const std::lock_guard lock(state_mutex_);
    is_settled_ = true;
  } catch (...) {
    for (Request* request : written) {
      if (!request->error) request->error = std::current_exception();
    }
  }
}

void Buffer::answer(std::vector<Request*>& requests) {
  if (requests.empty()) return;
  const std::lock_guard lock(queue_mutex_);  // a request is gone once its thread has it
  for (Request* request : requests) {
    request->is_done = true;
    request->answered.notify_one();
  }
  requests.clear();
}

}  // namespace evenkeel
