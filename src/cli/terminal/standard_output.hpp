#pragma once

#include <memory>
#include <streambuf>

namespace evenkeel::cli {

/// Owns what std::cout writes for the life of the program, so that nothing printed is lost in silence. Make
/// one, first of all, in main. From then on:
///
/// - a standard descriptor that was closed (`>&-`) is held, so that no file is opened in its place;
/// - a write that fails is remembered with the system's reason and told by flush() or finish();
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

  /// Writes what is left and returns the program's exit status: `status` when all could be written or a
  /// failure was told before; 1, after telling it on stderr, when a success could not be printed.
  [[nodiscard]] int finish(int status) const;

 private:
  class Buffer;

  std::unique_ptr<Buffer> buffer_;
  std::streambuf* before_;
};

}  // namespace evenkeel::cli
