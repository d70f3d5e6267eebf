#include "cli/terminal/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <string>

#include "cli/launcher.hpp"

namespace evenkeel::cli {
namespace {

constexpr std::size_t least_columns = 20;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

int descriptor(Stream stream) {
  return stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO;
}

bool is_terminal(Stream stream) {
  return !launched() && isatty(descriptor(stream)) != 0;
}

/// 0: it is no terminal, or does not say.
std::size_t columns_of_terminal(int open_file) {
  winsize size{};
  return isatty(open_file) != 0 && ioctl(open_file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// A rank's own output is a pipe to its launcher; on the launcher's node that is its parent, whose output may
/// be a terminal.
std::size_t columns_of_launcher(Stream stream) {
  const std::string output =
      "/proc/" + std::to_string(getppid()) + "/fd/" + std::to_string(descriptor(stream));
  const int open_file = open(output.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (open_file < 0) return 0;
  const std::size_t columns = columns_of_terminal(open_file);
  close(open_file);
  return columns;
}

std::size_t columns_of(Stream stream) {
  const std::string_view text = environment("COLUMNS");
  std::size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  if (error == std::errc{} && end == text.data() + text.size() && columns > 0) return columns;
  if (launched()) return columns_of_launcher(stream);
  return columns_of_terminal(descriptor(stream));
}

bool knows_escapes() {
  const std::string_view terminal = environment("TERM");
  return !terminal.empty() && terminal != "dumb";
}

bool wants_colour(Stream stream) {
  if (!environment("NO_COLOR").empty() || environment("CLICOLOR") == "0") return false;
  const std::string_view force = environment("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return is_terminal(stream) && knows_escapes();
}

void tell(std::string_view what, const char* colour, std::string_view message) {
  const bool coloured = style_of(Stream::err).colour && !what.empty();
  std::string line = "evenkeel: ";
  line.append(coloured ? colour : "").append(what).append(coloured ? "\033[0m" : "");
  line.append(what.empty() ? "" : " ").append(message).append("\n");
  std::cerr << line << std::flush;  // at once: ranks' lines do not mix
}

}  // namespace

TextStyle style_of(Stream stream) {
  TextStyle style;
  if (const std::size_t columns = columns_of(stream); columns > 0)
    style.width = std::max(columns, least_columns);
  style.colour = wants_colour(stream);
  return style;
}

bool can_redraw(Stream stream) {
  return is_terminal(stream) && knows_escapes();
}

void tell_error(std::string_view message) {
  tell("error:", "\033[1;31m", message);
}

void tell_warning(std::string_view message) {
  tell("warning:", "\033[1;33m", message);
}

void tell_note(std::string_view message) {
  tell("", "", message);
}

}  // namespace evenkeel::cli
