#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace evenkeel::testing_support {

struct ProgramResult {
  int status = -1;  ///< exit status; -1 when a signal ended it
  std::string out;
  std::string err;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

/// A folder of its own for one test, gone with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "evenkeel-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Runs a shell command without standard input and keeps what it printed.
inline ProgramResult run_command(const std::string& command) {
  const ScratchFolder scratch;
  const std::string redirected =
      command + " >" + (scratch / "out").string() + " 2>" + (scratch / "err").string() + " </dev/null";
  const int status = std::system(redirected.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(scratch / "out"),
          read_text(scratch / "err")};
}

/// Runs the evenkeel program on its own.
inline ProgramResult run_evenkeel(const std::string& arguments) {
  return run_command(std::string(EVENKEEL_PROGRAM) + " " + arguments);
}

/// Runs the evenkeel program on `ranks` ranks.
inline ProgramResult mpirun_evenkeel(int ranks, const std::string& arguments) {
  return run_command(std::string(EVENKEEL_MPIRUN) + " -np " + std::to_string(ranks) + " " + EVENKEEL_PROGRAM +
                     " " + arguments);
}

}  // namespace evenkeel::testing_support
