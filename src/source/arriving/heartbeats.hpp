#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "buffer/job_client.hpp"

namespace evenkeel {

/// Shows a buffer every two seconds that its job is alive, so that no other job begins there. The job leaves
/// the buffer when this is destroyed; a job that is killed lapses.
class Heartbeats {
 public:
  explicit Heartbeats(JobClient client);
  ~Heartbeats();
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

 private:
  void beat();

  JobClient client_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace evenkeel
