#pragma once

#include <boost/mpi/exception.hpp>
#include <utility>

#include "c/failures.hpp"

namespace evenkeel::c {

/// Same as run_guarded(), for functions that call MPI. Converts MPI exceptions to MpiError.
template <typename Work>
evenkeel_status run_guarded_over_mpi(Work&& work) noexcept {
  return run_guarded([&] {
    try {
      std::forward<Work>(work)();
    } catch (const boost::mpi::exception& error) {
      throw MpiError(error.routine(), error.what());
    }
  });
}

}  // namespace evenkeel::c
