#include "watchdog/own_progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

namespace evenkeel {
namespace {

// Minimum share of a processor that a thread must use to count as working. Threads of MPI or torch that wake
// up periodically use less, although all of them together may use more.
constexpr double least_share = 0.01;
constexpr double least_processor_seconds = 0.01;
constexpr std::int64_t least_bytes = 4096;

double seconds_of(clockid_t clock) noexcept {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;  // the thread has ended
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Returns the CPU-time clock of the thread with this id, like pthread_getcpuclockid(). The low bits are the
// kernel's CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED.
clockid_t cpu_clock_of(std::int32_t thread) noexcept {
  return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3U | 6U);
}

bool is_computing(const ThreadActivity& thread) noexcept {
  return thread.phase != nullptr && thread.whom == WaitFor::nobody;
}

}  // namespace

void OwnProgress::sample(double seconds) {
  const std::uint64_t moves = std::exchange(moves_, 0);
  threads_ = activities();
  for (const ThreadActivity& thread : threads_) moves_ += thread.num_reports;
  update_cpu_time();
  passed_ += seconds;
  const bool worked = detect_work();
  const bool moved = detect_moved_bytes();
  if (moves == moves_ && !worked && !moved && !waits_for_disk()) return;
  ++progress_count_;
  for (auto& [thread, used] : cpu_times_) used.at_work = 0;
  passed_ = 0;
}

// Ignores the processor time of waiting threads, since they poll.
void OwnProgress::update_cpu_time() {
  const std::map<std::int32_t, CpuTime> before = std::exchange(cpu_times_, {});
  const auto update_thread_time = [&](std::int32_t thread, double total) {
    const auto earlier = before.find(thread);
    CpuTime& used = cpu_times_[thread] = earlier == before.end() ? CpuTime{} : earlier->second;
    const bool waits = std::ranges::any_of(threads_, [&](const ThreadActivity& told) {
      return told.phase != nullptr && told.whom != WaitFor::nobody && told.thread == thread;
    });
    if (!waits) used.at_work += std::max(0.0, total - used.total);
    used.total = total;
  };
  double of_ended = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
  std::error_code error;  // ignored: only Linux lists threads
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const auto thread = static_cast<std::int32_t>(std::stoi(entry.path().filename()));
    if (thread == ::gettid()) continue;
    const double total = seconds_of(cpu_clock_of(thread));
    of_ended -= total;
    update_thread_time(thread, total);
  }
  update_thread_time(0, of_ended);
}

bool OwnProgress::detect_work() {
  if (std::ranges::none_of(threads_, is_computing) || is_exiting()) {
    for (auto& [thread, used] : cpu_times_) used.at_work = 0;
  }
  const double least = std::max(least_processor_seconds, least_share * passed_);
  return std::ranges::any_of(cpu_times_, [&](const auto& used) { return used.second.at_work >= least; });
}

bool OwnProgress::detect_moved_bytes() {
  std::istringstream counts(read_file("/proc/self/io"));
  std::int64_t bytes = -read_here_;
  std::int64_t count = 0;
  for (std::string name; counts >> name >> count;) {
    if (name == "rchar:" || name == "wchar:" || name == "read_bytes:" || name == "write_bytes:")
      bytes += count;
  }
  if (bytes - bytes_ < least_bytes) return false;
  bytes_ = bytes;
  return true;
}

bool OwnProgress::waits_for_disk() {
  return std::ranges::any_of(threads_, [this](const ThreadActivity& thread) {
    if (!is_computing(thread)) return false;
    const std::string text = read_file("/proc/self/task/" + std::to_string(thread.thread) + "/stat");
    // The name of the thread, which is in parentheses before the state, may itself contain parentheses.
    const std::size_t name_ends = text.rfind(')');
    return name_ends != std::string::npos && text.compare(name_ends, 3, ") D") == 0;
  });
}

std::string OwnProgress::read_file(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  read_here_ += static_cast<std::int64_t>(text.size());
  return text;
}

}  // namespace evenkeel
