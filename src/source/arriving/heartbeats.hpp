#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "buffer/job_client.hpp"

namespace evenkeel {

/// Reports to a buffer every two seconds that the job is alive, so that no other job can begin in this
/// buffer. When this object is destroyed, the job leaves the buffer. If the job is killed, the buffer
/// considers it gone after a timeout.
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
