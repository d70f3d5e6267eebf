#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "buffer/job_client.hpp"

namespace evenkeel {

/// Reports to a buffer every two seconds that the job is alive, so that another job cannot begin in this
/// buffer. When this object is destroyed, the job leaves the buffer. If the job is killed, the buffer allows
/// another job to begin after a timeout.
class Heartbeats {
 public:
  explicit Heartbeats(JobClient client);
  ~Heartbeats();
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

 private:
  void run_heartbeat_loop();

  JobClient client_;
  std::mutex mutex_;
  std::condition_variable end_condition_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace evenkeel
