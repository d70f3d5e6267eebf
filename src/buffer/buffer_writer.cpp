#include <utility>

#include "buffer/buffer.hpp"
#include "evenkeel/base/error.hpp"

// Request queue of a buffer, and the thread that writes the requests.
namespace evenkeel {
namespace {

constexpr std::int64_t max_bytes_at_once = std::int64_t{32} << 20;  // per transaction, or one larger request
constexpr std::chrono::seconds between_loads{1};  // interval of attempts while the store cannot be read

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

/// Waits until the state that the caller has seen is durable.
void Buffer::wait_until_settled() {
  {
    const std::lock_guard lock(state_mutex_);
    if (is_settled_) return;
  }
  submit(0, [](Change&) {});
}

/// Writes requests until the buffer is stopped. A request is answered once the state that it saw is durable:
/// with the next transaction, which makes its predecessor durable, or after settle() if no request is
/// waiting.
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

/// Removes from the queue the waiting requests that fit in one transaction. If `may_wait`, first waits until
/// there is a request, a deadline has passed, or the buffer is stopped.
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
  while (!queue_.empty() && (requests.empty() || bytes + queue_.front()->bytes <= max_bytes_at_once)) {
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
  const std::lock_guard lock(queue_mutex_);  // a request is destroyed as soon as its thread sees is_done
  for (Request* request : requests) {
    request->is_done = true;
    request->answered.notify_one();
  }
  requests.clear();
}

}  // namespace evenkeel
