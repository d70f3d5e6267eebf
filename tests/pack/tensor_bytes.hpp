#pragma once

#include <cstddef>

#include "evenkeel/pack/prefix/layout.hpp"

namespace evenkeel::test {

/// Returns the size in bytes of a padded tensor with its tokens at these positions.
inline std::size_t tensor_bytes(const TokenPlaces& places, RowFormat format) {
  return static_cast<std::size_t>(places.shape().batch * places.shape().width * format.heads) *
         format.row_bytes;
}

}  // namespace evenkeel::test
