#pragma once

#include <httplib.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace evenkeel {

/// A thread for each connection that is open at the same time, up to 2048: one that is silent keeps no other
/// waiting. Threads stay until shutdown().
class Connections : public httplib::TaskQueue {
 public:
  /// Since cpp-httplib 0.14 whether the task was taken, before nothing.
  using Taken = decltype(std::declval<httplib::TaskQueue&>().enqueue(std::function<void()>()));

  Taken enqueue(std::function<void()> task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() > idle_ && threads_.size() < most_threads) add_thread();
    waiting_.notify_one();
    return static_cast<Taken>(true);
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    waiting_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  static constexpr std::size_t most_threads = 2048;

  void add_thread() {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // else one of those that there are takes the task later
    }
  }

  void work() {
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

  std::mutex mutex_;
  std::condition_variable waiting_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace evenkeel
