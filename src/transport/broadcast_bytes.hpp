#pragma once

#include <string>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel {

/// Collective over `comm`: rank `root`'s bytes, which the others get. They come in pieces, through memory
/// that is there, so that a rank that cannot keep them takes part all the same: what goes wrong on a rank
/// goes to its `work`, to be agreed on afterwards. A root whose work has failed sends nothing. One MPI_Bcast
/// for up to 4 KiB, and one for each 4 KiB more.
void broadcast_bytes(const Communicator& comm, std::string& bytes, int root, GuardedWork& work);

}  // namespace evenkeel
