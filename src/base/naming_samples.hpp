#pragma once

#include <type_traits>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Runs `work`, which knows samples by their numbers, and adds names to its errors about samples. `names` is
/// read when an error is thrown, and may be null.
template <typename Work>
std::invoke_result_t<Work> naming_samples(const NamesInErrors& names, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const Error& error) {
    if (error.report().samples.empty() || !names) throw;
    throw_error(names(error.report()));
  }
}

}  // namespace evenkeel
