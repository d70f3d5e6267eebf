#include "watchdog/own_signs.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

namespace evenkeel {
namespace {

// Of one thread. A process that sleeps has threads that wake up now and then, of MPI, and of torch one for
// each group: each uses less, but many of them together use more.
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

/// Of this process, by the system's numbers, in ascending order. Takes no memory. Names none where there is
/// no /proc.
template <typename Does>
void for_each_thread(Does&& does) {
  const int folder = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  alignas(dirent64) std::array<char, 4096> entries;
  while (true) {
    const long size = ::syscall(SYS_getdents64, folder, entries.data(), entries.size());
    if (size <= 0) break;
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      std::int32_t thread = 0;
      if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc{}) does(thread);
    }
  }
  ::close(folder);
}

/// What pthread_getcpuclockid() makes, which needs a pthread_t: three bits say "of a thread, all its time".
clockid_t clock_of(std::int32_t thread) noexcept {
  return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3U | 6U);
}

std::int64_t number_after(std::string_view text, std::string_view name) noexcept {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  std::int64_t value = 0;
  std::from_chars(text.data() + at + name.size(), text.data() + text.size(), value);
  return value;
}

}  // namespace

void OwnSigns::sample(double seconds) {
  threads_ = activities();
  moves_ = 0;
  for (const ThreadActivity& thread : threads_) moves_ += thread.moves;
  look_at_threads();
  passed_ += seconds;
  const bool has_worked = any_has_worked();
  const bool has_moved = has_moved_bytes();
  if (!has_worked && !has_moved && !waits_for_disk()) return;
  ++efforts_;
  for (Used& used : used_) used.at_work = 0;
  ended_.at_work = passed_ = 0;
}

// A thread that waits for other ranks polls, which is no work.
void OwnSigns::look_at_threads() {
  std::swap(used_, earlier_);
  used_.clear();
  const bool is_first = of_process_ == 0;
  const auto own = static_cast<std::int32_t>(::gettid());
  const double before = std::exchange(of_process_, seconds_of(CLOCK_PROCESS_CPUTIME_ID));
  const double own_before = std::exchange(of_own_, seconds_of(CLOCK_THREAD_CPUTIME_ID));
  double of_ended = of_process_ - before - (of_own_ - own_before);
  for_each_thread([&](std::int32_t thread) {
    if (thread == own) return;
    const auto found = std::ranges::lower_bound(earlier_, thread, {}, &Used::thread);
    Used used = found != earlier_.end() && found->thread == thread ? *found : Used{thread};
    const double total = seconds_of(clock_of(thread));
    const double more = total >= used.seconds ? total - used.seconds : total;  // numbers are given again
    used.seconds = total;
    of_ended -= more;
    if (!is_first && !waits(thread)) used.at_work += more;
    used_.push_back(used);
  });
  if (!is_first) ended_.at_work += std::max(0.0, of_ended);
}

bool OwnSigns::any_has_worked() noexcept {
  const bool any_works = std::ranges::any_of(threads_, [](const ThreadActivity& thread) {
    return thread.phase != nullptr && thread.whom == WaitFor::nobody;
  });
  if (!any_works || has_left_for_good()) {
    for (Used& used : used_) used.at_work = 0;
    ended_.at_work = 0;
    return false;
  }
  const double least = std::max(least_processor_seconds, least_share * passed_);
  return ended_.at_work >= least ||
         std::ranges::any_of(used_, [&](const Used& used) { return used.at_work >= least; });
}

bool OwnSigns::waits(std::int32_t thread) const noexcept {
  return std::ranges::any_of(threads_, [&](const ThreadActivity& told) {
    return told.phase != nullptr && told.whom != WaitFor::nobody && told.thread == thread;
  });
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
