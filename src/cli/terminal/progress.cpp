#include "cli/terminal/progress.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <map>

#include <cmath>
#include <cstdio>
#include <utility>

#include "cli/option_values.hpp"
#include "cli/terminal/terminal.hpp"

namespace evenkeel::cli {
namespace {

constexpr std::size_t bar_cells = 30;
constexpr std::chrono::seconds between_lines{2};

std::string duration_text(double seconds) {
  const auto whole = std::int64_t{std::llround(seconds)};
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace

void add_progress_option(CLI::App& command, ProgressStyle& style) {
  const std::map<std::string, ProgressStyle> styles{{"auto", ProgressStyle::automatic},
                                                    {"bar", ProgressStyle::bar},
                                                    {"lines", ProgressStyle::lines},
                                                    {"off", ProgressStyle::off}};
  command
      .add_option_function<std::string>(
          "--progress", [&style, styles](const std::string& word) { style = styles.at(word); },
          "auto (a bar on a terminal, else lines), bar, lines or off")
      ->type_name("STYLE")
      ->transform(one_of({"auto", "bar", "lines", "off"}));
}

Progress::Progress(ProgressStyle style, std::optional<std::int64_t> steps, std::string unit)
    : style_(style), steps_(steps), unit_(std::move(unit)) {
  if (style_ == ProgressStyle::automatic)
    style_ = can_redraw(Stream::err) ? ProgressStyle::bar : ProgressStyle::lines;
}

void Progress::advance(std::int64_t tokens, std::int64_t steps) {
  done_ += steps;
  tokens_ += tokens;
  if (style_ == ProgressStyle::bar) draw_bar();
  if (style_ == ProgressStyle::lines) log_line();
}

void Progress::finish() noexcept {
  if (has_open_line_) std::fputc('\n', stderr);
  has_open_line_ = false;
}

std::string Progress::state_text() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(tokens_) / seconds : 0;
  if (!steps_) return fmt::format("{} {}, {:.2f} M tokens/s", unit_, done_, rate / 1e6);
  const double left = seconds / static_cast<double>(done_) * static_cast<double>(*steps_ - done_);
  return fmt::format("{} {}/{}, {:.2f} M tokens/s, {} left", unit_, done_, *steps_, rate / 1e6,
                     duration_text(left));
}

void Progress::draw_bar() {
  std::string bar;
  if (steps_) {
    const auto filled = static_cast<std::size_t>(static_cast<std::int64_t>(bar_cells) * done_ / *steps_);
    bar = fmt::format("[{:<{}}] ", std::string(filled, '='), bar_cells);
  }
  const std::string line = "\r" + bar + state_text() + "\033[K";
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  has_open_line_ = true;
}

void Progress::log_line() {
  const Clock::time_point now = Clock::now();
  if (done_ != steps_ && now - last_line_ < between_lines) return;
  last_line_ = now;
  spdlog::info("{}", state_text());
}

void set_up_logging(int rank, bool all_ranks, const std::string& level) {
  auto logger = spdlog::stderr_color_mt(
      "evenkeel", is_colored(Stream::err) ? spdlog::color_mode::always : spdlog::color_mode::never);
  logger->set_pattern(fmt::format("[%H:%M:%S.%e] [rank {}] [%^%l%$] %v", rank));
  const bool speaks = rank == 0 || all_ranks;
  logger->set_level(speaks ? spdlog::level::from_str(level) : spdlog::level::off);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace evenkeel::cli
