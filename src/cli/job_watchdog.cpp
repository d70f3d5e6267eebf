#include "cli/job_watchdog.hpp"

#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string_view>

#include "cli/failures.hpp"
#include "cli/terminal/terminal.hpp"
#include "evenkeel/config/config.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::cli {
namespace {

// Returns the limit set on the command line. If it is invalid, the error is reported later, when the
// configuration is read.
double limit_from_overrides(std::span<const std::string> overrides) {
  constexpr std::string_view key = "watchdog.seconds=";
  double seconds = static_cast<double>(JobWatchdogSettings().seconds);
  for (const std::string& text : overrides) {
    if (!text.starts_with(key)) continue;
    try {
      seconds = static_cast<double>(parse_config({}, std::span(&text, 1)).watchdog.seconds);
    } catch (const ConfigError&) {
      continue;
    }
  }
  return seconds;
}

WatchdogSettings job_ending_settings(double seconds) {
  WatchdogSettings settings;
  settings.seconds = seconds;
  settings.report = [](const WatchdogReport& report) { print_error(report.text()); };
  settings.terminate = [](const WatchdogReport&) { std::_Exit(failed); };
  settings.warn = [](const std::string& text) { spdlog::warn("{}", text); };
  return settings;
}

}  // namespace

void JobWatchdog::begin(const boost::mpi::communicator& world, std::span<const std::string> overrides) {
  if (world.size() > 1)
    watchdog_.emplace(OneRank{world.rank()}, job_ending_settings(limit_from_overrides(overrides)));
}

void JobWatchdog::start_watching(const boost::mpi::communicator& world) {
  if (!watchdog_) return;
  failure_ = try_collective_work([&] { watchdog_->start_watching(world); });
  if (failure_) watchdog_.reset();
}

void JobWatchdog::apply_config(const Config& config) {
  const auto seconds = static_cast<double>(config.watchdog.seconds);
  if (seconds > 0 && failure_) throw_error(*failure_);
  if (watchdog_) watchdog_->set_seconds(seconds);
}

}  // namespace evenkeel::cli
