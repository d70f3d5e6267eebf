#pragma once

#include <type_traits>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Runs `work`. If it throws an error about samples, which identifies them by number, adds their names to the
/// error. `names` may be null. It is called only for such errors.
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
