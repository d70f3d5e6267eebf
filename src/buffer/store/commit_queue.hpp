#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Queue of requests to change a store, with a thread that commits several requests in one transaction. A
/// `Change` collects the changes of all requests of a transaction.
template <typename Change>
class CommitQueue {
 public:
  using Clock = std::chrono::steady_clock;
  struct Request {
    std::function<void(Change&)> act;
    std::int64_t bytes = 0;
    bool is_done = false;
    std::exception_ptr error{};
    std::condition_variable answered{};  // wakes the thread that submitted this request
  };
  using Requests = std::vector<Request*>;

  /// Time between attempts to read the store again after a failed commit left its content unknown.
  static constexpr std::chrono::seconds reload_interval{1};

  /// Callbacks, called by the queue's thread.
  struct Hooks {
    /// Applies the requests to a new Change and commits it to the store. Sets the error of each failed
    /// request. Returns whether the store has changed.
    std::function<bool(const Requests&)> commit;
    /// Returns the time at which `commit` must be called even if there are no requests; nullopt if never.
    std::function<std::optional<Clock::time_point>()> deadline = [] { return std::nullopt; };
    std::function<void()> after_commit = [] {};
    /// Called after Store::make_durable() has made the latest commit durable.
    std::function<void()> on_durable = [] {};
  };

  /// Errors name the queue's owner as `name`.
  CommitQueue(std::string name, Store& store, Hooks hooks)
      : name_(std::move(name)), store_(store), hooks_(std::move(hooks)) {}
  /// Stops the queue and waits until all earlier requests have been answered.
  ~CommitQueue() {
    stop();
    if (writer_.joinable()) writer_.join();
  }
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  /// Starts the thread. Call this once.
  void start_thread() {
    writer_ = std::thread([this] { write_until_stopped(); });
  }
  /// Makes later calls of submit() throw IoError. Irreversible.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    queued_.notify_all();
  }

  /// Runs `act` in the queue's thread and returns when its changes are durable. `bytes` is an estimate of the
  /// bytes that `act` adds to the store. Throws IoError if the queue was stopped. Rethrows exceptions from
  /// `act` and from the commit.
  void submit(std::int64_t bytes, std::function<void(Change&)> act) {
    Request request{std::move(act), bytes};
    std::unique_lock lock(mutex_);
    if (is_stopping_) throw IoError(name_, "is being stopped", "Try again");
    queue_.push_back(&request);
    queued_.notify_one();
    request.answered.wait(lock, [&] { return request.is_done; });
    if (request.error) std::rethrow_exception(request.error);
  }

 private:
  // Maximum number of bytes in a transaction. A larger request gets its own transaction.
  static constexpr std::int64_t max_bytes_at_once = std::int64_t{32} << 20;

  /// Commits requests until the queue is stopped. Answers a request once the store's content after the
  /// request is durable. Each commit makes the preceding commit durable; if no request is waiting,
  /// Store::make_durable() is called instead.
  void write_until_stopped() {
    Requests written;
    bool must_make_durable = false;
    while (true) {
      const Requests requests = dequeue_requests(!must_make_durable);
      if (requests.empty() && must_make_durable) {
        make_durable(written);
        answer(written);
        must_make_durable = false;
        continue;
      }
      if (requests.empty() && is_stopping_now()) return;
      if (hooks_.commit(requests)) answer(written);
      written.insert(written.end(), requests.begin(), requests.end());
      must_make_durable = !store_.is_durable();
      if (!must_make_durable) answer(written);
      hooks_.after_commit();
    }
  }

  /// Removes the first requests from the queue, as many as fit in one transaction, and returns them. If
  /// `may_wait`, first waits until there is a request, the deadline has passed, or the queue is stopped.
  Requests dequeue_requests(bool may_wait) {
    const std::optional<Clock::time_point> deadline = hooks_.deadline();
    std::unique_lock lock(mutex_);
    const auto has_work = [&] { return !may_wait || !queue_.empty() || is_stopping_; };
    if (deadline) {
      queued_.wait_until(lock, *deadline, has_work);
    } else {
      queued_.wait(lock, has_work);
    }
    Requests requests;
    std::int64_t bytes = 0;
    while (!queue_.empty() && (requests.empty() || bytes + queue_.front()->bytes <= max_bytes_at_once)) {
      bytes += queue_.front()->bytes;
      requests.push_back(queue_.front());
      queue_.pop_front();
    }
    return requests;
  }

  [[nodiscard]] bool is_stopping_now() {
    const std::lock_guard lock(mutex_);
    return is_stopping_;
  }

  void make_durable(const Requests& written) {
    try {
      store_.make_durable();
      hooks_.on_durable();
    } catch (...) {
      for (Request* request : written) {
        if (!request->error) request->error = std::current_exception();
      }
    }
  }

  void answer(Requests& requests) {
    if (requests.empty()) return;
    const std::lock_guard lock(mutex_);  // the submitting thread destroys its request when it sees is_done
    for (Request* request : requests) {
      request->is_done = true;
      request->answered.notify_one();
    }
    requests.clear();
  }

  const std::string name_;
  Store& store_;
  const Hooks hooks_;
  std::mutex mutex_;  // guards `queue_`, `is_stopping_`, and Request::is_done of all requests
  std::condition_variable queued_;
  std::deque<Request*> queue_;
  bool is_stopping_ = false;
  std::thread writer_;
};

}  // namespace evenkeel
