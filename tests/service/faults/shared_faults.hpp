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

// One rank's error must become every rank's error. Here, one rank runs out of memory for columns in a
// collective operation. Every rank must throw the same error, within a time limit, and remain usable. Other
// allocations are not tested: if one of them fails in a collective call, the process ends (see
// abort_if_out_of_memory).

namespace evenkeel::test {

inline std::set<int> first_middle_last(const boost::mpi::communicator& world) {
  return {0, world.size() / 2, world.size() - 1};
}

/// Makes the column allocations of the collective `operation` fail on one rank after another. After each
/// fault, `still_works` must succeed.
inline void expect_faults_to_be_shared(const boost::mpi::communicator& world,
                                       const std::function<void()>& operation,
                                       const std::function<void()>& still_works) {
  using testing_support::FailingColumns;
  operation();  // creates what is created only once, such as shared memory of the ranks of a node
  FailingColumns columns;
  std::int64_t max_columns = 0;
  for (const int bad : first_middle_last(world)) {
    columns.arm(-1);
    operation();
    std::int64_t count = columns.disarm();
    boost::mpi::broadcast(world, count, bad);
    max_columns = std::max(max_columns, count);
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
  EXPECT_GT(max_columns, 0) << "the operation allocates no columns";
}

}  // namespace evenkeel::test
