#include "base/activity.hpp"

#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

namespace evenkeel {
namespace {

constexpr const char* own_code = "its own code";

struct Lane {
  std::atomic<bool> taken{false};
  std::atomic<const char*> phase{own_code};
  std::atomic<std::int64_t> step{no_step};
  std::atomic<const char*> wait{nullptr};
  std::atomic<WaitFor> whom{WaitFor::nobody};
  std::atomic<std::uint64_t> num_reports{0};
  std::atomic<std::int32_t> thread{0};

  void increment_num_reports() noexcept { num_reports.fetch_add(1, std::memory_order_release); }
};

std::array<Lane, max_reported_threads> lanes;
Lane unseen;  // reports of threads for which no other lane is free; never read
std::atomic<bool> exiting{false};

std::int32_t current_thread_id() noexcept {
#ifdef __linux__
  return static_cast<std::int32_t>(syscall(SYS_gettid));
#else
  return 0;
#endif
}

/// Reserves a lane for the calling thread's reports until the thread ends. If no lane is free, uses `unseen`.
class OwnLane {
 public:
  OwnLane() noexcept {
    for (Lane& lane : lanes) {
      if (lane.taken.exchange(true)) continue;
      lane.phase = own_code;
      lane.step = no_step;
      lane.wait = nullptr;
      lane.whom = WaitFor::nobody;
      lane.thread = current_thread_id();
      lane_ = &lane;
      return;
    }
  }
  OwnLane(const OwnLane&) = delete;
  OwnLane& operator=(const OwnLane&) = delete;
  ~OwnLane() {
    if (lane_ == &unseen) return;
    lane_->thread = 0;
    lane_->taken = false;
  }

  [[nodiscard]] Lane& get() const noexcept { return *lane_; }

 private:
  Lane* lane_ = &unseen;
};

Lane& current_lane() noexcept {
  thread_local const OwnLane lane;
  return lane.get();
}

}  // namespace

Phase::Phase(const char* name, std::int64_t step) noexcept {
  Lane& lane = current_lane();
  outer_ = lane.phase.exchange(name);
  outer_step_ = lane.step;
  if (step != no_step) lane.step = step;
  lane.increment_num_reports();
}

Phase::~Phase() {
  Lane& lane = current_lane();
  lane.phase = outer_;
  lane.step = outer_step_;
  lane.increment_num_reports();
}

void Phase::switch_to(const char* name) noexcept {
  Lane& lane = current_lane();
  lane.phase = name;
  lane.increment_num_reports();
}

Waiting::Waiting(const char* in, WaitFor whom) noexcept {
  Lane& lane = current_lane();
  outer_ = lane.wait.exchange(in);
  outer_whom_ = lane.whom.exchange(whom);
  lane.increment_num_reports();
}

Waiting::~Waiting() {
  Lane& lane = current_lane();
  lane.whom = outer_whom_;
  lane.wait = outer_;
  lane.increment_num_reports();
}

void begin_exit(const char* phase) noexcept {
  Lane& lane = current_lane();
  lane.phase = phase;
  lane.step = no_step;
  lane.wait = phase;
  lane.whom = WaitFor::end;
  lane.increment_num_reports();
  exiting = true;
}

bool is_exiting() noexcept {
  return exiting;
}

void record_progress() noexcept {
  current_lane().increment_num_reports();
}

std::array<ThreadActivity, max_reported_threads> activities() noexcept {
  std::array<ThreadActivity, max_reported_threads> all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Lane& lane = lanes[i];
    ThreadActivity& activity = all[i];
    activity.num_reports = lane.num_reports.load(std::memory_order_acquire);
    activity.thread = lane.thread;
    if (!lane.taken || activity.thread == 0) continue;
    activity.phase = lane.phase;
    activity.step = lane.step;
    activity.wait = lane.wait;
    activity.whom = lane.whom;
  }
  return all;
}

}  // namespace evenkeel
