#include "base/text/host_port.hpp"

#include <cstdint>

#include "base/text/parse_number.hpp"

namespace evenkeel {

std::optional<HostPort> parse_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<std::uint16_t> port = parse_as<std::uint16_t>(text.substr(colon + 1));
  if (!port) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) return std::nullopt;
  return HostPort{std::string(host), *port};
}

bool is_loopback(std::string_view host) noexcept {
  const bool is_ipv4 = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (is_ipv4 && host.starts_with("127."));
}

}  // namespace evenkeel
