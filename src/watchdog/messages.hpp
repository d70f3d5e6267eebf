#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "watchdog/datagrams.hpp"
#include "watchdog/rank_table.hpp"

namespace evenkeel {

/// What watchdogs tell each other.

/// Cut off where it is too long.
using HostName = std::array<char, 64>;

[[nodiscard]] inline std::string_view text_of(const HostName& host) noexcept {
  return {host.data(), strnlen(host.data(), host.size())};
}

/// What ranks tell each other through MPI, once.
struct Introduction {
  static constexpr std::size_t most_addresses = 8;

  HostName host{};
  std::uint64_t secret = 0;  ///< of rank 0: what has another one is of another job
  std::array<std::uint32_t, most_addresses> addresses{};
  std::int32_t num_addresses = 0;
  std::int32_t port = 0;  ///< 0: it has none
};

/// What a datagram is.
enum class DatagramKind : std::uint32_t {
  sign,     ///< of life; a judge answers it
  heard,    ///< a judge's answer
  verdict,  ///< a judge's, in words: the job ends
  goodbye   ///< the sender's watchdog goes, as it should
};

/// What every datagram begins with.
struct DatagramHeader {
  std::uint64_t secret = 0;
  DatagramKind kind = DatagramKind::sign;
  std::int32_t rank = 0;
};

struct SignMessage {
  DatagramHeader header;
  SignOfLife sign;
  HostName host{};
};

struct VerdictMessage {
  DatagramHeader header;
  std::array<char, 1024> text{};
};

static_assert(sizeof(SignMessage) <= Datagrams::most_bytes &&
              sizeof(VerdictMessage) <= Datagrams::most_bytes);

template <typename Message>
[[nodiscard]] std::span<const std::byte> bytes_of(const Message& message) {
  return std::as_bytes(std::span(&message, 1));
}

template <typename Message>
[[nodiscard]] std::optional<Message> message_in(std::span<const std::byte> bytes) {
  if (bytes.size() != sizeof(Message)) return std::nullopt;
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  return message;
}

/// Where it may be reached; from this machine itself, too, if it `is_here`.
[[nodiscard]] std::vector<sockaddr_in> addresses_of(const Introduction& rank, bool is_here);

}  // namespace evenkeel
