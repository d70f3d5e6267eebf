#pragma once

#include <type_traits>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Runs `work`, whose errors identify samples by number, and adds names to errors about samples. `names` may
/// be null; it is called only when such an error is thrown.
template <typename Work>
std::invoke_result_t<Work> with_sample_names_in_errors(const NamesInErrors& names, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const Error& error) {
    if (error.report().samples.empty() || !names) throw;
    throw_error(names(error.report()));
  }
}

}  // namespace evenkeel
