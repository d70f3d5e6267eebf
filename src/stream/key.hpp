#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel::stream {

/// What identifies a sample, whatever it holds: its group, and which response of the group it is.
struct SampleKey {
  Uid uid;  ///< not monostate: a sample without a name could not be told from another
  std::int64_t index = 0;

  friend auto operator<=>(const SampleKey&, const SampleKey&) = default;
};

/// A uid in 16 bytes: FNV-1a of 128 bits, over the kind and then the value, so that the text "7" and the
/// number 7 differ. Of a billion uids, two are equal with a probability of 10^-21.
struct GroupKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend constexpr auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

struct GroupKeyHash {
  std::size_t operator()(const GroupKey& key) const noexcept { return key.low; }
};

/// The same on every platform. Signed and unsigned integers of equal value have equal keys.
[[nodiscard]] GroupKey group_key(const Uid& uid) noexcept;

/// For messages: a text in quotes, or a number.
[[nodiscard]] std::string to_text(const Uid& uid);

}  // namespace evenkeel::stream
