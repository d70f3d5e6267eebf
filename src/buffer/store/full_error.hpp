#pragma once

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Thrown if data does not fit now but may fit later. A buffer frees space when samples are trained and when
/// incomplete groups are closed or aborted; a store of values frees space when values are cleared. HTTP
/// status 429.
class FullError : public LimitError {
 public:
  using LimitError::LimitError;
};

}  // namespace evenkeel
