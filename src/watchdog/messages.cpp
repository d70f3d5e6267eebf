#include "watchdog/messages.hpp"

namespace evenkeel {

std::vector<sockaddr_in> addresses_of(const Introduction& rank, bool is_here) {
  const auto port = static_cast<std::uint16_t>(rank.port);
  std::vector<sockaddr_in> addresses;
  if (is_here) addresses.push_back(socket_address(loopback_address(), port));
  for (const std::uint32_t address :
       std::span(rank.addresses).first(static_cast<std::size_t>(rank.num_addresses)))
    addresses.push_back(socket_address(address, port));
  return addresses;
}

}  // namespace evenkeel
