#pragma once

#include <string>

#include "evenkeel/base/error.hpp"

namespace evenkeel::testing_support {

/// Returns the text of the error that `make` throws.
template <typename Make>
std::string message_of(Make make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace evenkeel::testing_support
