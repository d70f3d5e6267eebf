#include "bench/stream/buffer_process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace evenkeel::bench {
namespace {

/// Returns the path of the program `evenkeel` in the folder of this program.
std::string evenkeel_program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "evenkeel").string();
}

/// While it exists, this thread and the processes that it starts may run on all cores, although mpirun binds
/// ranks to one core.
class AllCores {
 public:
  AllCores() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int core = 0; core < static_cast<int>(::sysconf(_SC_NPROCESSORS_CONF)); ++core) CPU_SET(core, &all);
    ::sched_setaffinity(0, sizeof all, &all);
  }
  AllCores(const AllCores&) = delete;
  AllCores& operator=(const AllCores&) = delete;
  ~AllCores() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

std::string folder_of(pid_t process) {
  return "/proc/" + std::to_string(process) + "/";
}

}  // namespace

EvenkeelProcess::EvenkeelProcess(std::vector<std::string> words, int output) {
  const std::string program = evenkeel_program();
  words.insert(words.begin(), program);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  const AllCores for_children;
  const int error = ::posix_spawn(&id_, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw system_error(program, "cannot be started", error);
}

EvenkeelProcess::~EvenkeelProcess() {
  ::kill(id_, SIGTERM);
  ::waitpid(id_, nullptr, 0);
}

BufferProcess::BufferProcess(const std::filesystem::path& folder, std::int64_t capacity) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw system_error("pipe", "cannot be created", errno);
  output_ = ends[0];
  process_.emplace(std::vector<std::string>{"buffer", "--listen", "127.0.0.1:0", "--dir", folder.string(),
                                            "--capacity", std::to_string(capacity)},
                   ends[1]);
  ::close(ends[1]);
  std::string said;
  char letter = 0;
  while (!(said.find("Listening on ") != std::string::npos && said.back() == '\n')) {
    if (::read(output_, &letter, 1) != 1) throw IoError("evenkeel buffer", "has not begun: " + said);
    said += letter;
  }
  port_ = std::stoi(said.substr(said.rfind(':') + 1));
}

BufferProcess::~BufferProcess() {
  process_.reset();
  if (output_ >= 0) ::close(output_);
}

std::int64_t BufferProcess::memory() const {
  std::ifstream status(folder_of(process_->id()) + "status");
  std::int64_t kib = 0;
  for (std::string word; status >> word;) {
    std::int64_t value = 0;
    if ((word == "RssAnon:" || word == "RssShmem:") && status >> value) kib += value;
  }
  return kib << 10;
}

std::int64_t BufferProcess::processor_time() const {
  std::int64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator(folder_of(process_->id()) + "task")) {
    std::int64_t nanoseconds = 0;
    if (std::ifstream(task.path() / "schedstat") >> nanoseconds) sum += nanoseconds;
  }
  return sum;
}

}  // namespace evenkeel::bench
