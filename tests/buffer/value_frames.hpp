#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "buffer/values/received_values.hpp"

namespace evenkeel::testing_support {

inline std::string make_frame(std::string_view head, std::string_view bytes) {
  std::string frame(frame_prefix, '\0');
  for (std::size_t i = 0; i < frame_prefix; ++i) frame[i] = static_cast<char>(head.size() >> (8 * i));
  return frame.append(head).append(bytes);
}

/// Returns the frame with this JSON and these bytes, received in pieces of at most `piece` bytes.
inline std::unique_ptr<ReceivedValues> received_frame(
    std::string_view head, std::string_view bytes,
    std::size_t piece = std::numeric_limits<std::size_t>::max()) {
  const std::string frame = make_frame(head, bytes);
  auto received = std::make_unique<ReceivedValues>(std::int64_t{1} << 30);
  for (std::string_view left = frame; !left.empty();) {
    const std::span<char> receive_buffer = received->receive_buffer();
    const std::string_view part = left.substr(0, std::min(receive_buffer.size(), piece));
    std::ranges::copy(part, receive_buffer.begin());
    received->mark_received(std::ssize(part));
    left.remove_prefix(part.size());
  }
  received->require_complete();
  return received;
}

}  // namespace evenkeel::testing_support
