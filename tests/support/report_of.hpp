#pragma once

#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"

namespace evenkeel::testing_support {

/// Returns the report of the error of type E that `act` throws; fails the test if it does not throw one.
template <typename E, typename Act>
ErrorReport report_of(Act&& act) {
  try {
    act();
  } catch (const E& error) {
    return error.report();
  }
  ADD_FAILURE() << "an error was expected";
  return {};
}

}  // namespace evenkeel::testing_support
