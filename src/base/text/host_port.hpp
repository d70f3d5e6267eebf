#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// Where a server listens.
struct HostPort {
  std::string host;  ///< a name or an address, of IPv6 without brackets
  int port = 0;      ///< 0: any that is free

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// Of "127.0.0.1:8710" or "[::1]:8710". Nothing for a text without a host, or without a port up to 65535.
[[nodiscard]] std::optional<HostPort> host_and_port(std::string_view text);

/// Whether only this machine can reach a server there. A name other than localhost is not looked up.
[[nodiscard]] bool is_loopback(std::string_view host) noexcept;

}  // namespace evenkeel
