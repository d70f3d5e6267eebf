#include "report/step_trace.hpp"

#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>

#include "mesh/fail_together.hpp"

namespace evenkeel {
namespace {

TEST(CommonClock, shows_no_rank_an_end_before_another_begins) {
  const boost::mpi::communicator world;
  const CommonClock clock(world);
  for (int round = 0; round < 3; ++round) {
    const double before = clock.now();
    world.barrier();
    const double after = clock.now();
    // All ranks have started before any of them ends, up to the latency of a message.
    const double last = boost::mpi::all_reduce(world, before, boost::mpi::maximum<double>());
    const double first = boost::mpi::all_reduce(world, after, boost::mpi::minimum<double>());
    EXPECT_LE(last, first + 1);
    EXPECT_GE(before, -1);
  }
}

}  // namespace
}  // namespace evenkeel
