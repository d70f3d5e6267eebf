#pragma once

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// There is no room now, but there may be later: in a buffer, training samples makes room, as does closing or
/// aborting incomplete groups; in a store of values, clearing does. HTTP status 429.
class FullError : public LimitError {
 public:
  using LimitError::LimitError;
};

}  // namespace evenkeel
