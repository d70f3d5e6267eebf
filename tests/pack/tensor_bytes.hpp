#pragma once

#include <cstddef>

#include "evenkeel/pack/prefix/layout.hpp"

namespace evenkeel::test {

/// What a padded tensor takes that has its tokens in these places.
inline std::size_t tensor_bytes(const TokenPlaces& places, RowFormat format) {
  return static_cast<std::size_t>(places.shape().batch * places.shape().width * format.heads) *
         format.row_bytes;
}

}  // namespace evenkeel::test
