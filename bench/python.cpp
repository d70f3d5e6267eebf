#include "bench/python.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#ifndef __linux__
extern char** environ;  // POSIX requires programs to declare it
#endif

namespace evenkeel::bench {
namespace {

namespace fs = std::filesystem;

/// A folder that is deleted with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "evenkeel-bench-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const noexcept { return path_; }

 private:
  fs::path path_;
};

/// Runs the program with its output redirected to `log`. Returns its exit status, or -1 if it could not be
/// started.
int run(const std::string& program, std::array<std::string, 3> words, const fs::path& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::string name = program;
  const std::array<char*, 5> arguments{name.data(), words[0].data(), words[1].data(), words[2].data(),
                                       nullptr};
  pid_t child = 0;
  const int failed = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

bool write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return !file.fail();
}

std::string last_line(const fs::path& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

PythonAnswer run_python(const std::string& program, const std::string& script_text,
                        const nlohmann::json& input) {
  const TemporaryFolder folder;
  if (folder.path().empty()) return {nullptr, "no temporary folder can be made"};
  const fs::path script = folder.path() / "script.py";
  const fs::path question = folder.path() / "input.json";
  const fs::path answer = folder.path() / "output.json";
  const fs::path log = folder.path() / "log";
  if (!write_file(script, script_text) || !write_file(question, input.dump()))
    return {nullptr, "a file of " + folder.path().string() + " cannot be written"};
  const int status = run(program, {script.string(), question.string(), answer.string()}, log);
  if (status != 0) {
    const std::string reason = last_line(log);
    return {nullptr, "'" + program + "' " + (reason.empty() ? "cannot be run" : "says: " + reason)};
  }
  std::ifstream file(answer);
  nlohmann::json value = nlohmann::json::parse(file, nullptr, false);
  if (value.is_discarded()) return {nullptr, "'" + program + "' gave no valid answer"};
  return {std::move(value), ""};
}

}  // namespace evenkeel::bench
