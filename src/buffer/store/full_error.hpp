#pragma once

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// There is no room now, but there may be room later. A buffer frees room when samples are trained, and when
/// incomplete groups are closed or aborted; a store of values, when values are cleared.
/// HTTP status 429.
class FullError : public LimitError {
 public:
  using LimitError::LimitError;
};

}  // namespace evenkeel
