#include <cstdio>
#include <cstdlib>
#include <string>

#include "evenkeel/watchdog/watchdog.hpp"

namespace evenkeel {
namespace {

void print_line(const std::string& text) {
  const std::string line = text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

WatchdogSettings ending_the_process(double seconds) {
  WatchdogSettings settings;
  settings.seconds = seconds;
  settings.tells = [](const WatchdogReport& report) { print_line("evenkeel: error: " + report.text()); };
  settings.ends = [](const WatchdogReport&) { std::_Exit(EXIT_FAILURE); };
  settings.warns = [](const std::string& text) { print_line("evenkeel: warning: " + text); };
  return settings;
}

}  // namespace evenkeel
