#pragma once

#include <mpi.h>

#include <memory>
#include <utility>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {

/// Returns the MPI attribute key under which communicators store their T.
template <typename T>
int attribute_key() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    const auto end = [](MPI_Comm, int, void* kept, void*) -> int {
      const std::unique_ptr<T> last(static_cast<T*>(kept));
      return MPI_SUCCESS;
    };
    check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &made, nullptr), "MPI_Comm_create_keyval");
    return made;
  }();
  return key;
}

/// Implements comm_attribute() for a communicator whose ranks are not connected by MPI. The first call is
/// collective.
template <typename T, typename Make>
T& non_mpi_comm_attribute(const Communicator& comm, Make&& make) {
  static const char kind = 0;
  NonMpiRanks::Attachment* kept = nullptr;
  GuardedWork work;
  work([&] { kept = &comm.non_mpi_ranks()->attachment(&kind); });
  if (kept == nullptr || !kept->object) {
    work.agree(comm);
    std::unique_ptr<T> made = std::forward<Make>(make)();
    kept->object = {made.release(), [](void* last) { delete static_cast<T*>(last); }};
  }
  return *static_cast<T*>(kept->object.get());
}

/// Returns the T stored with a communicator. The first call creates it with `make`, which returns a
/// unique_ptr<T>, and is collective over `comm` if `make` is, or if the ranks are not connected by MPI.
/// The T is destroyed together with the communicator. A duplicate of the communicator gets its own T.
template <typename T, typename Make>
T& comm_attribute(const Communicator& comm, Make&& make) {
  if (comm.non_mpi_ranks() != nullptr) return non_mpi_comm_attribute<T>(comm, std::forward<Make>(make));
  void* kept = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm, attribute_key<T>(), static_cast<void*>(&kept), &found),
            "MPI_Comm_get_attr");
  if (found != 0) return *static_cast<T*>(kept);
  std::unique_ptr<T> made = std::forward<Make>(make)();
  check_mpi(MPI_Comm_set_attr(comm, attribute_key<T>(), made.get()), "MPI_Comm_set_attr");
  return *made.release();  // the communicator owns the object now
}

}  // namespace evenkeel
