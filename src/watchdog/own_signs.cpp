#include "watchdog/own_signs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>

namespace evenkeel {
namespace {

// A process that sleeps has threads of MPI that wake up now and then, which use less.
constexpr double least_share = 0.01;
constexpr double least_processor_seconds = 0.01;
constexpr std::int64_t least_bytes = 4096;

double seconds_of(clockid_t clock) noexcept {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;  // its thread has ended
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// A small file of /proc. Takes no memory. Empty where there is none.
class SmallFile {
 public:
  explicit SmallFile(const char* path) noexcept {
    const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    size_ = std::max<ssize_t>(0, ::read(descriptor, text_.data(), text_.size()));
    ::close(descriptor);
  }

  [[nodiscard]] std::string_view text() const noexcept {
    return {text_.data(), static_cast<std::size_t>(size_)};
  }

 private:
  std::array<char, 1024> text_;
  ssize_t size_ = 0;
};

std::int64_t number_after(std::string_view text, std::string_view name) noexcept {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  std::int64_t value = 0;
  std::from_chars(text.data() + at + name.size(), text.data() + text.size(), value);
  return value;
}

}  // namespace

void OwnSigns::sample(double seconds) noexcept {
  threads_ = activities();
  moves_ = 0;
  for (const ThreadActivity& thread : threads_) moves_ += thread.moves;
  at_work_ += processor_seconds_at_work();
  passed_ += seconds;
  const bool has_worked = at_work_ >= std::max(least_processor_seconds, least_share * passed_);
  const bool has_moved = has_moved_bytes();
  if (!has_worked && !has_moved && !waits_for_disk()) return;
  ++efforts_;
  at_work_ = passed_ = 0;
}

// A thread that waits for other ranks polls, which is no work.
double OwnSigns::processor_seconds_at_work() noexcept {
  const double before = of_process_;
  const double own_before = of_own_;
  of_process_ = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  of_own_ = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  double at_work = of_process_ - before - (of_own_ - own_before);
  bool any_works = false;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const ThreadActivity& thread = threads_[i];
    Used& used = used_[i];
    if (thread.phase == nullptr) {
      used = {};
      continue;
    }
    const double total = seconds_of(thread.clock);
    const double more = used.thread == thread.thread ? total - used.seconds : total;
    used = {thread.thread, total};
    if (thread.whom == WaitFor::nobody) {
      any_works = true;
    } else {
      at_work -= more;
    }
  }
  return any_works && before > 0 && !has_left_for_good() ? std::max(0.0, at_work) : 0.0;
}

bool OwnSigns::has_moved_bytes() noexcept {
  const SmallFile file("/proc/self/io");
  const std::string_view text = file.text();
  if (text.empty()) return false;
  const std::int64_t bytes = number_after(text, "rchar: ") + number_after(text, "wchar: ") +
                             number_after(text, "\nread_bytes: ") + number_after(text, "\nwrite_bytes: ") -
                             read_here_;
  read_here_ += static_cast<std::int64_t>(text.size());
  if (bytes - bytes_ < least_bytes) return false;
  bytes_ = bytes;
  return true;
}

bool OwnSigns::waits_for_disk() noexcept {
  return std::ranges::any_of(threads_, [this](const ThreadActivity& thread) {
    if (thread.phase == nullptr || thread.whom != WaitFor::nobody) return false;
    std::array<char, 64> path{};
    std::snprintf(path.data(), path.size(), "/proc/self/task/%d/stat", static_cast<int>(thread.thread));
    const SmallFile file(path.data());
    const std::string_view text = file.text();
    read_here_ += static_cast<std::int64_t>(text.size());
    const std::size_t name_ends = text.rfind(')');  // a name may hold anything
    return name_ends != std::string_view::npos && text.substr(name_ends).starts_with(") D");
  });
}

}  // namespace evenkeel
