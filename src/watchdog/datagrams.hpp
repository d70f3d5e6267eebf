#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace evenkeel {

/// A socket of this process for datagrams (UDP, IPv4) of at most `most_bytes`, which may get lost.
class Datagrams {
 public:
  static constexpr std::size_t most_bytes = 1400;  // what every network carries in one piece

  struct Received {
    sockaddr_in from{};
    std::span<const std::byte> bytes;  ///< until the next one
  };

  /// On any free port. Throws IoError.
  Datagrams();
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;
  ~Datagrams();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  /// Waits for a datagram or for wake(). Nothing when none has come in time.
  [[nodiscard]] std::optional<Received> receive(int milliseconds) noexcept;
  /// What cannot be sent is lost.
  void send(const sockaddr_in& to, std::span<const std::byte> bytes) const noexcept;
  /// Ends a receive() of another thread, this one or the next. Any thread.
  void wake() const noexcept;

 private:
  int socket_ = -1;
  std::array<int, 2> pipe_{-1, -1};
  std::uint16_t port_ = 0;
  std::array<std::byte, most_bytes> buffer_;
};

/// The machine's addresses by which others may reach it, without those that only it has itself; in the
/// system's order.
[[nodiscard]] std::vector<std::uint32_t> own_addresses();
[[nodiscard]] sockaddr_in socket_address(std::uint32_t address, std::uint16_t port) noexcept;
/// Of this machine to itself.
[[nodiscard]] std::uint32_t loopback_address() noexcept;

}  // namespace evenkeel
