#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "buffer/redis/redis_connection.hpp"
#include "evenkeel/base/error.hpp"
#include "support/scratch_folder.hpp"

extern char** environ;

namespace evenkeel::testing_support {

/// Returns why tests with Redis are skipped; empty if Redis is installed.
inline std::string no_redis() {
  return std::system("command -v redis-server >/dev/null 2>&1") == 0
             ? ""
             : "redis-server is not installed (launch/install-packages.sh --tests)";
}

/// Returns a TCP port on which nothing listens, below the ephemeral ports.
inline int free_port() {
  std::random_device device;
  while (true) {
    const int port = std::uniform_int_distribution(16'000, 32'000)(device);
    const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool is_bound = ::bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(probe);
    if (is_bound) return port;
  }
}

/// A separate redis-server, on a socket in its own folder.
class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) { start(); }
  ~RedisServer() { kill(); }

  [[nodiscard]] std::string socket() const { return (folder_ / "redis.sock").string(); }
  [[nodiscard]] RedisAddress address() const { return {.servers = {{socket(), 0}}}; }
  [[nodiscard]] std::unique_ptr<RedisConnection> connect() const {
    return std::make_unique<RedisConnection>(address(), address().servers[0], std::chrono::seconds(5));
  }
  RedisReply call(std::initializer_list<std::string_view> words) const { return connect()->call(words); }

  void start() {
    std::vector<std::string> words{"redis-server",          "--unixsocket", socket(), "--dir",
                                   folder_.path().string(), "--save",       ""};
    if (options_.empty() || options_[0] != "--port") words.insert(words.end(), {"--port", "0"});
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, (folder_ / "log").c_str(), O_CREAT | O_WRONLY,
                                     0644);
    const int code = ::posix_spawnp(&process_, "redis-server", &quiet, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&quiet);
    if (code != 0) throw std::runtime_error("redis-server cannot be started");
    for (int tries = 0; tries < 2000; ++tries) {
      try {
        static_cast<void>(connect());
        return;
      } catch (const Error&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    throw std::runtime_error("redis-server does not answer");
  }
  /// Kills the server with SIGKILL.
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  ScratchFolder folder_;
  std::vector<std::string> options_;
  pid_t process_ = -1;
};

inline const std::vector<std::string> redis_that_is_durable{"--appendonly", "yes", "--appendfsync", "always"};

}  // namespace evenkeel::testing_support
