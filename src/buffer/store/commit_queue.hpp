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

/// Queue of requests that change a store, and the thread that commits them, several in one transaction.
/// `Change` collects the changes of all requests in one transaction.
template <typename Change>
class CommitQueue {
 public:
  using Clock = std::chrono::steady_clock;
  struct Request {
    std::function<void(Change&)> act;
    std::int64_t bytes = 0;
    bool is_done = false;
    std::exception_ptr error{};
    std::condition_variable answered{};  // one per request, to wake only its own thread
  };
  using Requests = std::vector<Request*>;

  /// Time between attempts to read the store again after a failed commit has left its content unknown.
  static constexpr std::chrono::seconds between_loads{1};

  /// Callbacks, which the queue's thread calls.
  struct Hooks {
    /// Runs the requests on a new Change, and commits the change to the store. Sets the error of each request
    /// that failed. Returns whether the store has changed.
    std::function<bool(const Requests&)> commit;
    /// Returns the time of the next commit that is due even if there are no requests.
    std::function<std::optional<Clock::time_point>()> deadline = [] { return std::nullopt; };
    std::function<void()> after_commit = [] {};
    /// Called after the latest commit has become durable through settle(), without a further commit.
    std::function<void()> after_settle = [] {};
  };

  /// `name` is the owner's name in errors.
  CommitQueue(std::string name, Store& store, Hooks hooks)
      : name_(std::move(name)), store_(store), hooks_(std::move(hooks)) {}
  ~CommitQueue() { end(); }
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  /// Starts the thread. Call this once.
  void begin() {
    writer_ = std::thread([this] { write_until_stopped(); });
  }
  /// Makes further requests throw IoError. Irreversible.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    queued_.notify_all();
  }
  /// Stops the queue, and waits until all earlier requests have been answered.
  void end() {
    stop();
    if (writer_.joinable()) writer_.join();
  }

  /// Runs `act` in the queue's thread, and returns when its changes are durable. Throws what `act` throws,
  /// and the errors of the commit. `bytes` estimates how much `act` adds to the store.
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
  // Maximum size of a transaction, except that a larger request gets its own transaction.
  static constexpr std::int64_t max_bytes_at_once = std::int64_t{32} << 20;

  /// Writes requests until the queue is stopped. A request is answered once the state that it saw is durable.
  /// The next transaction makes its predecessor durable; if no request is waiting, settle() does.
  void write_until_stopped() {
    Requests written;
    bool must_settle = false;
    while (true) {
      const Requests requests = next_requests(!must_settle);
      if (requests.empty() && must_settle) {
        settle(written);
        answer(written);
        must_settle = false;
        continue;
      }
      if (requests.empty() && is_stopping_now()) return;
      if (hooks_.commit(requests)) answer(written);
      written.insert(written.end(), requests.begin(), requests.end());
      must_settle = !store_.is_settled();
      if (!must_settle) answer(written);
      hooks_.after_commit();
    }
  }

  /// Removes from the queue the waiting requests that fit in one transaction. If `may_wait`, first waits
  /// until there is a request, a deadline has passed, or the queue is stopped.
  Requests next_requests(bool may_wait) {
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

  void settle(const Requests& written) {
    try {
      store_.settle();
      hooks_.after_settle();
    } catch (...) {
      for (Request* request : written) {
        if (!request->error) request->error = std::current_exception();
      }
    }
  }

  void answer(Requests& requests) {
    if (requests.empty()) return;
    const std::lock_guard lock(mutex_);  // a request is destroyed as soon as its thread sees is_done
    for (Request* request : requests) {
      request->is_done = true;
      request->answered.notify_one();
    }
    requests.clear();
  }

  const std::string name_;
  Store& store_;
  const Hooks hooks_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable queued_;
  std::deque<Request*> queue_;
  bool is_stopping_ = false;
  std::thread writer_;
};

}  // namespace evenkeel
