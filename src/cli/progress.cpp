#include "cli/progress.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>

namespace evenkeel::cli {
namespace {

constexpr int bar_width = 30;
constexpr std::chrono::seconds between_lines{2};

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace

Progress::Progress(ProgressStyle style, std::int64_t steps) : style_(style), steps_(steps) {
  if (style_ == ProgressStyle::automatic)
    style_ = isatty(STDERR_FILENO) != 0 ? ProgressStyle::bar : ProgressStyle::lines;
}

void Progress::advance(std::int64_t tokens) {
  ++done_;
  tokens_ += tokens;
  if (style_ == ProgressStyle::bar) draw_bar();
  if (style_ == ProgressStyle::lines) log_line();
}

void Progress::finish() const {
  if (style_ == ProgressStyle::bar) std::fputc('\n', stderr);
}

std::string Progress::state() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(tokens_) / seconds : 0;
  const double left = seconds / static_cast<double>(done_) * static_cast<double>(steps_ - done_);
  return fmt::format("step {}/{}, {:.2f} M tokens/s, {} left", done_, steps_, rate / 1e6,
                     duration_text(left));
}

void Progress::draw_bar() const {
  const auto filled = static_cast<int>(bar_width * done_ / steps_);
  const std::string line =
      fmt::format("\r[{:=<{}}{: <{}}] {}\033[K", "", filled, "", bar_width - filled, state());
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

void Progress::log_line() {
  const Clock::time_point now = Clock::now();
  if (done_ != steps_ && now - last_line_ < between_lines) return;
  last_line_ = now;
  spdlog::info("{}", state());
}

}  // namespace evenkeel::cli
