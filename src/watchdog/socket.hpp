#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace evenkeel {

/// Addresses of a rank's socket. Ranks exchange these over MPI.
struct PeerInfo {
  std::array<char, 65> host{};
  std::uint64_t secret = 0;                  ///< random number; that of rank 0 identifies the job
  std::array<std::uint32_t, 8> addresses{};  ///< IPv4 addresses of up to 8 interfaces, followed by zeros
  std::uint16_t port = 0;                    ///< 0 if the rank does not have a socket

  [[nodiscard]] std::vector<sockaddr_in> endpoints() const;
};

/// A UDP socket on all IPv4 interfaces and a port chosen by the system.
class Socket {
 public:
  Socket();  ///< throws IoError if the system refuses a socket
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  [[nodiscard]] PeerInfo peer_info() const;
  /// Waits for the next datagram. Returns an empty string on timeout.
  [[nodiscard]] std::string receive(int milliseconds, sockaddr_in& from);
  /// Sends a datagram, best effort. Thread-safe.
  void send(const sockaddr_in& to, const std::string& datagram) const noexcept;
  /// Ends a receive() of another thread. Thread-safe.
  void wake() const noexcept;

 private:
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace evenkeel
