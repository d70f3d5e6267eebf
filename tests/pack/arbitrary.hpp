#pragma once

#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel {

using Lengths = std::vector<std::int64_t>;

inline std::vector<CpRank> all_ranks(CpGroup cp) {
  std::vector<CpRank> ranks;
  for (int rank = 0; rank < cp.size; ++rank) ranks.push_back(CpRank{rank});
  return ranks;
}

inline CpGroup arbitrary_cp() {
  return {*rc::gen::element(1, 2, 3, 4, 7, 16, 64),
          *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous)};
}

/// Returns up to a dozen lengths, many of them 0 or 1.
inline Lengths arbitrary_lengths() {
  const auto size = *rc::gen::inRange<std::size_t>(0, 12);
  return *rc::gen::container<Lengths>(
      size, rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 3), rc::gen::inRange<std::int64_t>(0, 80)));
}

/// Returns a layout over any context-parallel group, sometimes padded to a larger total.
inline PackedLayout arbitrary_layout() {
  const CpGroup cp = arbitrary_cp();
  const std::int64_t alignment = cp.chunks() * *rc::gen::inRange<std::int64_t>(1, 4);
  PackedLayout layout(arbitrary_lengths(), alignment,
                      cp);  // returned without a copy, because GCC 14 warns about one
  if (layout.size() == 0) return layout;
  return layout.padded_to(layout.num_rows() + alignment * *rc::gen::element<std::int64_t>(0, 0, 1, 3));
}

inline std::vector<std::byte> arbitrary_bytes(std::int64_t rows, std::size_t row_bytes) {
  const auto size = static_cast<std::size_t>(rows) * row_bytes;
  std::vector<std::byte> bytes(size);
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  std::uint32_t state = seed;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24U);
  }
  return bytes;
}

}  // namespace evenkeel
