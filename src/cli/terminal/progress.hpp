#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel::cli {

/// Sends log lines to stderr, from all ranks if `all_ranks` is true, otherwise only from rank 0. The rank is
/// a prefix of each line. Call this only once.
void set_up_logging(int rank, bool all_ranks, const std::string& level);

enum class ProgressStyle : std::uint8_t {
  automatic,  ///< a bar if stderr is a terminal that can redraw it, lines otherwise
  bar,        ///< one line that is redrawn
  lines,      ///< a log line every few seconds
  off,
};

/// Adds --progress, which sets `style`. `style` must outlive the command.
void add_progress_option(CLI::App& command, ProgressStyle& style);

/// Shows the progress of a run: steps done, tokens per second, time left.
class Progress {
 public:
  /// `steps` is the total number of steps, if known; `unit` is the name of a step.
  Progress(ProgressStyle style, std::optional<std::int64_t> steps, std::string unit = "step");
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Calls finish(), so that a following error starts on a new line.
  ~Progress() { finish(); }

  /// Records that `steps` steps with `tokens` tokens in total, not counting padding, have ended.
  void advance(std::int64_t tokens, std::int64_t steps = 1);
  /// Ends the line of the progress bar, if a bar is shown.
  void finish() noexcept;

 private:
  [[nodiscard]] std::string state_text() const;
  void draw_bar();
  void log_line();

  using Clock = std::chrono::steady_clock;
  ProgressStyle style_;
  std::optional<std::int64_t> steps_;
  std::string unit_;
  std::int64_t done_ = 0;
  std::int64_t tokens_ = 0;
  bool has_open_line_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_line_ = start_;
};

}  // namespace evenkeel::cli
