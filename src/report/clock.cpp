#include "report/clock.hpp"

#include <mpi.h>

#include <limits>

#include "base/activity.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

constexpr int tag = 7311;
constexpr int rounds = 8;

double here() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void answer(const boost::mpi::communicator& world, int rank) {
  const Waiting waiting("MPI_Recv");
  for (int round = 0; round < rounds; ++round) {
    double asked = 0;
    check_mpi(MPI_Recv(&asked, 1, MPI_DOUBLE, rank, tag, world, MPI_STATUS_IGNORE), "MPI_Recv");
    const double now = here();
    check_mpi(MPI_Send(&now, 1, MPI_DOUBLE, rank, tag, world), "MPI_Send");
  }
}

/// By how much this rank's clock is ahead of rank 0's: rank 0 answered half way of the shortest round.
double ask(const boost::mpi::communicator& world) {
  const Waiting waiting("MPI_Recv");
  double shortest = std::numeric_limits<double>::infinity();
  double ahead = 0;
  for (int round = 0; round < rounds; ++round) {
    const double before = here();
    double told = 0;
    check_mpi(MPI_Send(&before, 1, MPI_DOUBLE, 0, tag, world), "MPI_Send");
    check_mpi(MPI_Recv(&told, 1, MPI_DOUBLE, 0, tag, world, MPI_STATUS_IGNORE), "MPI_Recv");
    const double after = here();
    if (after - before >= shortest) continue;
    shortest = after - before;
    ahead = (before + after) / 2 - told;
  }
  return ahead;
}

}  // namespace

CommonClock::CommonClock(const boost::mpi::communicator& world) {
  const Phase phase("compare clocks");
  double ahead = 0;
  if (world.rank() == 0) {
    for (int rank = 1; rank < world.size(); ++rank) answer(world, rank);
  } else {
    ahead = ask(world);
  }
  double start = here();
  const Waiting waiting("MPI_Bcast");
  check_mpi(MPI_Bcast(&start, 1, MPI_DOUBLE, 0, world), "MPI_Bcast");
  start_ = start + ahead;
}

}  // namespace evenkeel
