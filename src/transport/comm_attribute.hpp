#pragma once

#include <mpi.h>

#include <memory>
#include <utility>
#include "evenkeel/mesh/communicator.hpp"

#include "mesh/mpi_call.hpp"

namespace evenkeel {

/// The T of a communicator: what `make` returned, a unique_ptr<T>, when it was first asked for. It goes with
/// the communicator; a duplicate gets its own. Collective over `comm` the first time if `make` is.
template <typename T, typename Make>
T& comm_attribute(const Communicator& comm, Make&& make) {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    const auto end = [](MPI_Comm, int, void* kept, void*) -> int {
      const std::unique_ptr<T> last(static_cast<T*>(kept));
      return MPI_SUCCESS;
    };
    check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &made, nullptr), "MPI_Comm_create_keyval");
    return made;
  }();
  void* kept = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm, key, static_cast<void*>(&kept), &found), "MPI_Comm_get_attr");
  if (found != 0) return *static_cast<T*>(kept);
  std::unique_ptr<T> made = std::forward<Make>(make)();
  check_mpi(MPI_Comm_set_attr(comm, key, made.get()), "MPI_Comm_set_attr");
  return *made.release();  // from here on the communicator's
}

}  // namespace evenkeel
