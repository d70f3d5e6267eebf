#pragma once

#include <cstdint>

namespace evenkeel {

/// What one rank moved in an exchange, in bytes of payload unless it says otherwise.
struct ExchangeVolume {
  std::int64_t sent = 0;           ///< to other ranks, by owners; by data ranks: counted where it arrives
  std::int64_t between_nodes = 0;  ///< of these, to ranks of other nodes
  std::int64_t kept = 0;           ///< from this rank to itself
  std::int64_t copied = 0;         ///< from the rank of this node that received them for it
  std::int64_t passed_on = 0;      ///< to and from leaders inside this node, on the way between nodes
  std::int64_t messages = 0;       ///< not bytes: messages that this rank sent to ranks of other nodes

  ExchangeVolume& operator+=(const ExchangeVolume& other) noexcept;

  friend bool operator==(const ExchangeVolume&, const ExchangeVolume&) = default;
};

}  // namespace evenkeel
