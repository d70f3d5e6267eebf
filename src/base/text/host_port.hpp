#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// Address of a server.
struct HostPort {
  std::string host;  ///< a name or an address; IPv6 addresses are without brackets
  int port = 0;      ///< 0 requests any free port

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// Parses "127.0.0.1:8710" or "[::1]:8710". Returns nullopt unless the text has a host and a port of at most
/// 65535.
[[nodiscard]] std::optional<HostPort> parse_host_port(std::string_view text);

/// Returns whether `host` is localhost or written as a loopback address. Does not resolve names.
[[nodiscard]] bool is_loopback(std::string_view host) noexcept;

}  // namespace evenkeel
