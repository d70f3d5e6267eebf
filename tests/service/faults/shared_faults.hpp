#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/operations.hpp>
#include <functional>
#include <set>
#include <string>

#include "service/faults/faults.hpp"
#include "support/failing_columns.hpp"

// One rank's error is every rank's. Here one rank lacks memory for columns, in a collective operation, and
// every rank must throw the same error, in time, and be able to go on. Other allocations are not tested: if
// one of them fails in a collective call, the process ends (see end_if_out_of_memory).

namespace evenkeel::test {

inline std::set<int> first_middle_last(const boost::mpi::communicator& world) {
  return {0, world.size() / 2, world.size() - 1};
}

/// Fails the allocations of columns in `operation`, which is collective, on one rank after the other. After
/// each fault `still_works` must find everything in order.
inline void expect_faults_to_be_shared(const boost::mpi::communicator& world,
                                       const std::function<void()>& operation,
                                       const std::function<void()>& still_works) {
  using testing_support::FailingColumns;
  operation();  // makes what is made once, such as memory that ranks of a node share
  FailingColumns columns;
  std::int64_t most_columns = 0;
  for (const int bad : first_middle_last(world)) {
    columns.arm(-1);
    operation();
    std::int64_t count = columns.disarm();
    boost::mpi::broadcast(world, count, bad);
    most_columns = std::max(most_columns, count);
    for (const std::int64_t number : allocations_to_fail(count)) {
      for (const auto reach : {FailingColumns::Reach::one, FailingColumns::Reach::rest}) {
        SCOPED_TRACE("allocation " + std::to_string(number) + " of rank " + std::to_string(bad) +
                     (reach == FailingColumns::Reach::one ? "" : " and all after it"));
        const Watchdog watchdog(patience);
        const Outcome mine = outcome_of([&] {
          if (world.rank() == bad) columns.arm(number, reach);
          operation();
        });
        columns.disarm();
        const std::array<int, 2> here{static_cast<int>(mine), -static_cast<int>(mine)};
        std::array<int, 2> most{};
        boost::mpi::all_reduce(world, here.data(), 2, most.data(), boost::mpi::maximum<int>());
        ASSERT_EQ(most[0], -most[1]) << "ranks ended differently, this one with " << static_cast<int>(mine);
        ASSERT_NE(mine, Outcome::other);
        still_works();
      }
    }
  }
  EXPECT_GT(most_columns, 0) << "the operation allocates no columns";
}

}  // namespace evenkeel::test
