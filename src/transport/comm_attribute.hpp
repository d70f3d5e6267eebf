#pragma once

#include <mpi.h>

#include <memory>
#include <utility>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {

/// The key of T's among the attributes of MPI's communicators.
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

/// The T of a group that MPI does not connect.
template <typename T, typename Make>
T& foreign_attribute(const Communicator& comm, Make&& make) {
  static const char kind = 0;
  ForeignRanks::Kept* kept = nullptr;
  GuardedWork work;
  work([&] { kept = &comm.foreign()->kept(&kind); });
  if (kept == nullptr || !kept->object) {
    work.agree(comm);
    std::unique_ptr<T> made = std::forward<Make>(make)();
    kept->object = {made.release(), [](void* last) { delete static_cast<T*>(last); }};
  }
  return *static_cast<T*>(kept->object.get());
}

/// The T of a communicator: what `make` returned, a unique_ptr<T>, when it was first asked for. It goes with
/// the communicator; a duplicate gets its own. Collective over `comm` the first time if `make` is.
template <typename T, typename Make>
T& comm_attribute(const Communicator& comm, Make&& make) {
  if (comm.foreign() != nullptr) return foreign_attribute<T>(comm, std::forward<Make>(make));
  void* kept = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm, attribute_key<T>(), static_cast<void*>(&kept), &found),
            "MPI_Comm_get_attr");
  if (found != 0) return *static_cast<T*>(kept);
  std::unique_ptr<T> made = std::forward<Make>(make)();
  check_mpi(MPI_Comm_set_attr(comm, attribute_key<T>(), made.get()), "MPI_Comm_set_attr");
  return *made.release();  // from here on the communicator's
}

}  // namespace evenkeel
