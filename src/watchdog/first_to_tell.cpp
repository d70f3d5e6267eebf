#include "watchdog/first_to_tell.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace evenkeel {

FirstToTell::~FirstToTell() {
  if (socket_ >= 0) ::close(socket_);
}

// An abstract address, which is no file: one socket has it, and it goes with its process.
bool FirstToTell::is_this() noexcept {
#ifdef __linux__
  constexpr pid_t nobody = 1;  // whoever started it has ended
  const pid_t launcher = ::getppid();
  if (socket_ >= 0 || launcher == nobody) return true;
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return true;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                                   "evenkeel-watchdog-%u-%d", ::getuid(), launcher);
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1) + static_cast<socklen_t>(length);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0) {
    socket_ = socket;
    return true;
  }
  const bool is_another = errno == EADDRINUSE;
  ::close(socket);
  return !is_another;
#else
  return true;
#endif
}

}  // namespace evenkeel
