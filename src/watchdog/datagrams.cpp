#include "watchdog/datagrams.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw IoError("watchdog", "cannot " + what + ": " + std::strerror(errno),
                "Raise the limit on open files, or set watchdog.seconds: 0 to disable the watchdog");
}

void close_on_exec_without_waiting(int descriptor) {
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
}

}  // namespace

Datagrams::Datagrams() {
  socket_ = ::socket(AF_INET, SOCK_DGRAM, 0);
  if (socket_ < 0) fail("open a socket");
  sockaddr_in address = socket_address(INADDR_ANY, 0);
  socklen_t size = sizeof address;
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::pipe(pipe_.data()) != 0) {
    const int code = errno;
    ::close(socket_);
    errno = code;
    fail("listen on a socket");
  }
  constexpr int room = 1 << 20;  // for what many ranks send while this one has no processor; or what there is
  static_cast<void>(::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room));
  for (const int descriptor : {socket_, pipe_[0], pipe_[1]}) close_on_exec_without_waiting(descriptor);
  port_ = ntohs(address.sin_port);
}

Datagrams::~Datagrams() {
  for (const int descriptor : {socket_, pipe_[0], pipe_[1]}) ::close(descriptor);
}

std::optional<Datagrams::Received> Datagrams::receive(int milliseconds) noexcept {
  std::array<pollfd, 2> ready{pollfd{socket_, POLLIN, 0}, pollfd{pipe_[0], POLLIN, 0}};
  if (::poll(ready.data(), ready.size(), milliseconds) <= 0) return std::nullopt;
  char scrap = 0;
  if (ready[1].revents != 0) static_cast<void>(!::read(pipe_[0], &scrap, 1));
  Received received;
  socklen_t size = sizeof received.from;
  const ssize_t bytes = ::recvfrom(socket_, buffer_.data(), buffer_.size(), 0,
                                   reinterpret_cast<sockaddr*>(&received.from), &size);
  if (bytes < 0) return std::nullopt;
  received.bytes = {buffer_.data(), static_cast<std::size_t>(bytes)};
  return received;
}

void Datagrams::send(const sockaddr_in& to, std::span<const std::byte> bytes) const noexcept {
  static_cast<void>(
      ::sendto(socket_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to));
}

void Datagrams::wake() const noexcept {
  static_cast<void>(!::write(pipe_[1], "", 1));
}

std::vector<std::uint32_t> own_addresses() {
  std::vector<std::uint32_t> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    addresses.push_back(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr);
  }
  ::freeifaddrs(all);
  return addresses;
}

sockaddr_in socket_address(std::uint32_t address, std::uint16_t port) noexcept {
  sockaddr_in socket{};
  socket.sin_family = AF_INET;
  socket.sin_addr.s_addr = address;
  socket.sin_port = htons(port);
  return socket;
}

std::uint32_t loopback_address() noexcept {
  return htonl(INADDR_LOOPBACK);
}

}  // namespace evenkeel
