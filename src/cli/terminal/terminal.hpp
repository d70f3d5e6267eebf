#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>

namespace evenkeel::cli {

/// The standard streams for output and errors.
enum class Stream : std::uint8_t { out, err };

/// Returns whether to use color on a stream: yes on terminals that support it, never with NO_COLOR or
/// CLICOLOR=0, always with CLICOLOR_FORCE. Under a launcher, streams do not count as terminals, since mpirun
/// gives its ranks a pseudo-terminal.
[[nodiscard]] bool is_colored(Stream stream);

/// Returns whether a stream is a terminal on which a line can be redrawn.
[[nodiscard]] bool can_redraw(Stream stream);

/// Print an error, a warning or a note to stderr, in one line.
void print_error(std::string_view message);
void print_warning(std::string_view message);
void print_note(std::string_view message);

/// Minimum number of bytes for a reading_note(). Reading fewer bytes takes little time.
inline constexpr std::int64_t least_noted_bytes = std::int64_t{256} << 20;

/// Returns a note such as "reading rollouts.jsonl (1.5 GiB)" if reading these files takes seconds, so that
/// the program does not appear to hang; empty for smaller files. `name` is the name of the files in the note.
[[nodiscard]] std::string reading_note(const std::string& name, std::span<const std::filesystem::path> files);

/// Prints the reading_note(), if any, to stderr.
inline void print_reading_note(const std::string& name, std::span<const std::filesystem::path> files) {
  if (const std::string note = reading_note(name, files); !note.empty()) print_note(note);
}

/// Checks writes to std::cout, so that the program reports lost output. main() creates this object before
/// anything else. From then on:
///
/// - a standard descriptor that was closed (`>&-`) is kept occupied, so that no file is opened in its place;
/// - if a write fails, flush() or finish() reports it with the system's reason;
/// - if the reader has exited (`| head -1`), the program ends silently: by SIGPIPE or, if that is ignored,
///   with the exit status that a shell reports for SIGPIPE.
class StandardOutput {
 public:
  StandardOutput();
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;
  ~StandardOutput();

  /// Writes out the contents of std::cout. Local. Throws IoError if this or any other write since the last
  /// error has failed, unless the reader has exited.
  static void flush();

  /// Flushes, reports a failed write to stderr, and returns the program's exit status: `status` if it is not
  /// 0; otherwise, 1 after a failed write, the status for SIGPIPE if the reader has exited, or 0.
  [[nodiscard]] int finish(int status) const;

 private:
  class Buffer;

  std::unique_ptr<Buffer> buffer_;
  std::streambuf* before_;
};

}  // namespace evenkeel::cli
