#include "watchdog/socket.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

// Maximum number of bytes in a datagram. It is below Ethernet's MTU of 1500, with room for the headers of
// tunnels, so that datagrams are not fragmented.
constexpr std::size_t max_bytes = 1400;

sockaddr_in make_address(std::uint32_t address, std::uint16_t port) noexcept {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = address;
  at.sin_port = htons(port);
  return at;
}

}  // namespace

std::vector<sockaddr_in> PeerInfo::endpoints() const {
  std::vector<sockaddr_in> all;
  for (const std::uint32_t address : addresses) {
    if (address != 0) all.push_back(make_address(address, port));
  }
  return all;
}

Socket::Socket() : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in address = make_address(INADDR_ANY, 0);
  socklen_t size = sizeof address;
  if (socket_ < 0 || ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const std::string reason = std::strerror(errno);
    if (socket_ >= 0) ::close(socket_);
    throw IoError("watchdog", "cannot open a socket: " + reason,
                  "Raise the limit on open files if it is reached, or disable the watchdog with 0 seconds "
                  "(evenkeel run: watchdog.seconds: 0)");
  }
  // The queue holds the heartbeats of many ranks that arrive while this process is not scheduled.
  constexpr int max_queued = 1 << 20;
  static_cast<void>(::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &max_queued, sizeof max_queued));
  port_ = ntohs(address.sin_port);
}

Socket::~Socket() {
  ::close(socket_);
}

PeerInfo Socket::peer_info() const {
  PeerInfo own;
  ::gethostname(own.host.data(), own.host.size() - 1);
  own.port = port_;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return own;
  std::size_t count = 0;
  for (const ifaddrs* one = all; one != nullptr && count < own.addresses.size(); one = one->ifa_next) {
    if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP) != 0)
      own.addresses[count++] = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr;
  }
  ::freeifaddrs(all);
  return own;
}

std::string Socket::receive(int milliseconds, sockaddr_in& from) {
  pollfd ready{socket_, POLLIN, 0};
  if (::poll(&ready, 1, milliseconds) <= 0) return {};
  std::array<char, max_bytes> buffer;
  socklen_t size = sizeof from;
  const ssize_t bytes =
      ::recvfrom(socket_, buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
  return {buffer.data(), bytes < 0 ? 0 : static_cast<std::size_t>(bytes)};
}

void Socket::send(const sockaddr_in& to, const std::string& datagram) const noexcept {
  static_cast<void>(::sendto(socket_, datagram.data(), std::min(datagram.size(), max_bytes), 0,
                             reinterpret_cast<const sockaddr*>(&to), sizeof to));
}

void Socket::wake() const noexcept {
  send(make_address(htonl(INADDR_LOOPBACK), port_), {});
}

}  // namespace evenkeel
