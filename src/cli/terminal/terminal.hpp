#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>

namespace evenkeel::cli {

/// The two streams that people may read.
enum class Stream : std::uint8_t { out, err };

/// Whether a stream's reader can be shown colors: on terminals that know them, never with NO_COLOR or
/// CLICOLOR=0, always with CLICOLOR_FORCE. Under a launcher no stream counts as a terminal, since mpirun
/// makes one up for its ranks.
[[nodiscard]] bool is_colored(Stream stream);

/// Whether a stream is a terminal on which a line can be drawn again.
[[nodiscard]] bool can_redraw(Stream stream);

/// Say to stderr, in a line, what went wrong or what the user should know.
void tell_error(std::string_view message);
void tell_warning(std::string_view message);
void tell_note(std::string_view message);

/// Files of fewer bytes are read before anybody wonders.
inline constexpr std::int64_t least_noted_bytes = std::int64_t{256} << 20;

/// "reading rollouts.jsonl (1.5 GiB)" of files that together take seconds to read, so that nobody takes the
/// program for hung; empty for less. `name` stands for them.
[[nodiscard]] std::string reading_note(const std::string& name, std::span<const std::filesystem::path> files);

/// Tells that on standard error.
inline void note_reading(const std::string& name, std::span<const std::filesystem::path> files) {
  if (const std::string note = reading_note(name, files); !note.empty()) tell_note(note);
}

/// Checks what std::cout writes, so a program whose output is lost reports it. main() creates one before
/// anything else. From then on:
///
/// - a standard descriptor that was closed (`>&-`) is held, so that no file is opened in its place;
/// - a write that fails is remembered with the system's reason and reported by flush() or finish();
/// - a reader that has left (`| head -1`) ends the program without a word: by SIGPIPE or, where that is
///   ignored, with the status a shell gives for it.
class StandardOutput {
 public:
  StandardOutput();
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;
  ~StandardOutput();

  /// Writes what std::cout holds. Local. Throws IoError when that, or anything since the last error, could
  /// not be written; not when the reader has left.
  static void flush();

  /// Flushes, and returns the program's exit status: `status`, or 1 if `status` is success and its output
  /// could not be written, which stderr then reports.
  [[nodiscard]] int finish(int status) const;

 private:
  class Buffer;

  std::unique_ptr<Buffer> buffer_;
  std::streambuf* before_;
};

}  // namespace evenkeel::cli
