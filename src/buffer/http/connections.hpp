#pragma once

#include <httplib.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "buffer/http/connection.hpp"

namespace evenkeel {

/// All open connections. A connection is unauthenticated until it sends a request with the token. If a new
/// connection exceeds the limit on unauthenticated connections, the oldest unauthenticated connection is
/// closed, so unauthenticated clients can never lock out other clients.
class OpenConnections {
  struct Entry {
    Connection* connection = nullptr;
    bool is_unauthenticated = true;
    bool is_being_answered = false;  // whether a request with the token is being answered
  };

 public:
  /// Keeps a connection in the list for the lifetime of this object.
  class Registration {
   public:
    Registration(OpenConnections& all, Connection& connection) : all_(all), entry_(all.add(connection)) {}
    ~Registration() { all_.remove(entry_); }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    /// Records that a request's head was read, and whether the request has the token.
    void begin_answer(bool has_token) {
      const std::lock_guard lock(all_.mutex_);
      if (has_token) all_.mark_authenticated(entry_);
      entry_->is_being_answered = has_token;
    }
    /// Records that the whole answer was sent.
    void end_answer() {
      const std::lock_guard lock(all_.mutex_);
      entry_->is_being_answered = false;
      if (all_.is_ending_) entry_->connection->interrupt();
      all_.changed_.notify_all();
    }

   private:
    OpenConnections& all_;
    const std::list<Entry>::iterator entry_;
  };

  /// Closes all connections. Connections whose requests are being answered get up to `grace` to finish; all
  /// other connections are closed at once.
  void close_all(std::chrono::seconds grace) {
    std::unique_lock lock(mutex_);
    is_ending_ = true;
    for (const Entry& entry : entries_)
      if (!entry.is_being_answered) entry.connection->interrupt();
    changed_.wait_for(lock, grace, [&] { return std::ranges::none_of(entries_, &Entry::is_being_answered); });
    for (const Entry& entry : entries_) entry.connection->interrupt();
  }

 private:
  /// Returns a quarter of this process's limit on file descriptors, clamped to [16, 1024].
  static std::size_t max_unauthenticated() {
    struct rlimit files {};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return least_unauthenticated;
    return std::clamp<std::size_t>(files.rlim_cur / 4, least_unauthenticated, most_unauthenticated);
  }

  std::list<Entry>::iterator add(Connection& connection) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({&connection});
    if (is_ending_) connection.interrupt();
    if (++unauthenticated_ > max_unauthenticated_) {
      const auto oldest = std::ranges::find_if(entries_, &Entry::is_unauthenticated);
      mark_authenticated(oldest);  // no longer counted as unauthenticated, since its thread is about to end
      oldest->connection->interrupt();
    }
    return std::prev(entries_.end());
  }

  void remove(std::list<Entry>::iterator entry) {
    const std::lock_guard lock(mutex_);
    mark_authenticated(entry);
    entries_.erase(entry);
    changed_.notify_all();
  }

  void mark_authenticated(std::list<Entry>::iterator entry) {
    if (std::exchange(entry->is_unauthenticated, false)) --unauthenticated_;
  }

  static constexpr std::size_t least_unauthenticated = 16;
  static constexpr std::size_t most_unauthenticated = 1024;

  const std::size_t max_unauthenticated_ = max_unauthenticated();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> entries_;  // open connections, oldest first
  std::size_t unauthenticated_ = 0;
  bool is_ending_ = false;
};

/// Runs one thread per open connection, up to 2048, so that a silent connection does not delay other
/// connections. Threads live until shutdown().
class ConnectionThreads : public httplib::TaskQueue {
 public:
  /// enqueue() returns bool since cpp-httplib 0.14 (whether the task was accepted); before that, it returned
  /// void.
  using EnqueueResult = decltype(std::declval<httplib::TaskQueue&>().enqueue(std::function<void()>()));

  explicit ConnectionThreads(OpenConnections& open) : open_(open) {}

  EnqueueResult enqueue(std::function<void()> task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() > idle_ && threads_.size() < max_threads) add_thread();
    waiting_.notify_one();
    return static_cast<EnqueueResult>(true);
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    waiting_.notify_all();
    open_.close_all(grace);
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  static constexpr std::size_t max_threads = 2048;
  static constexpr std::chrono::seconds grace{3};

  void add_thread() {
    try {
      threads_.emplace_back([this] { run_tasks(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // otherwise an existing thread takes the task later
    }
  }

  void run_tasks() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      waiting_.wait(lock, [&] { return !tasks_.empty() || is_ending_; });
      --idle_;
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  OpenConnections& open_;
  std::mutex mutex_;
  std::condition_variable waiting_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace evenkeel
