#include "cli/terminal/terminal.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <system_error>

#include "base/printable.hpp"
#include "base/text_layout.hpp"
#include "cli/launcher.hpp"

namespace evenkeel::cli {
namespace {

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

bool knows_escapes() {
  const std::string_view terminal = environment("TERM");
  return !terminal.empty() && terminal != "dumb";
}

void tell(std::string_view what, const char* color, std::string_view message) {
  const bool colored = is_colored(Stream::err) && !what.empty();
  std::string line = "evenkeel: ";
  line.append(colored ? color : "").append(what).append(colored ? "\033[0m" : "");
  line.append(what.empty() ? "" : " ").append(message).append("\n");
  std::cerr << line << std::flush;  // at once: ranks' lines do not mix
}

}  // namespace

bool is_colored(Stream stream) {
  if (!environment("NO_COLOR").empty() || environment("CLICOLOR") == "0") return false;
  const std::string_view force = environment("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return is_terminal(stream) && knows_escapes();
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

std::string reading_note(const std::string& name, std::span<const std::filesystem::path> files) {
  std::int64_t bytes = 0;
  for (const std::filesystem::path& file : files) {
    std::error_code unknown;  // what cannot be looked at is told when it is opened
    const std::uintmax_t size = std::filesystem::file_size(file, unknown);
    if (!unknown) bytes += static_cast<std::int64_t>(size);
  }
  if (bytes < least_noted_bytes) return {};
  return "reading " + printable(name) + " (" + bytes_text(bytes) + ")";
}

}  // namespace evenkeel::cli
