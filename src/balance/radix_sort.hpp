#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace evenkeel {

/// Sorts `values` by rising `key(value)`, an unsigned 64-bit number; equal keys keep their order. Least
/// significant byte first, as many passes as the largest key has bytes. `scratch` has the same length and is
/// overwritten. O(n) a byte.
template <typename T, typename Key>
void radix_sort(std::span<T> values, std::span<T> scratch, Key key) {
  constexpr int digit_bits = 8;
  constexpr std::uint64_t digit_mask = (1U << digit_bits) - 1;
  std::uint64_t used_bits = 0;
  for (const T& value : values) used_bits |= key(value);

  std::span<T> from = values;
  std::span<T> to = scratch;
  const int key_bits = static_cast<int>(std::bit_width(used_bits));
  for (int shift = 0; shift < key_bits; shift += digit_bits) {
    std::array<std::size_t, digit_mask + 1> position{};
    for (const T& value : from) ++position[(key(value) >> shift) & digit_mask];
    std::size_t start = 0;
    for (std::size_t& entry : position) start += std::exchange(entry, start);
    for (const T& value : from) to[position[(key(value) >> shift) & digit_mask]++] = value;
    std::swap(from, to);
  }
  if (from.data() != values.data()) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = from[i];
  }
}

}  // namespace evenkeel
