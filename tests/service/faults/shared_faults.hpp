#pragma once

#include <gtest/gtest.h>

#include <array>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/operations.hpp>
#include <functional>
#include <set>
#include <string>

#include "service/faults/faults.hpp"
#include "support/failing_new.hpp"

// What one rank cannot do is everybody's error. Here allocation after allocation fails on one rank, in a
// collective operation, and every rank must throw the same error, in time, and be able to go on.

namespace evenkeel::test {

inline std::set<int> first_middle_last(const boost::mpi::communicator& world) {
  return {0, world.size() / 2, world.size() - 1};
}

/// Lets the allocations of `operation`, which is collective, fail on one rank after the other. After each
/// fault `still_works` must find everything in order.
inline void expect_faults_to_be_shared(const boost::mpi::communicator& world,
                                       const std::function<void()>& operation,
                                       const std::function<void()>& still_works) {
  operation();  // what is made once is made
  for (const int bad : first_middle_last(world)) {
    testing_support::FailingNew::arm(-1);
    operation();
    std::int64_t count = testing_support::FailingNew::disarm();
    boost::mpi::broadcast(world, count, bad);
    for (const std::int64_t number : allocations_to_fail(count)) {
      for (const auto reach :
           {testing_support::FailingNew::Reach::one, testing_support::FailingNew::Reach::rest}) {
        SCOPED_TRACE("allocation " + std::to_string(number) + " of rank " + std::to_string(bad) +
                     (reach == testing_support::FailingNew::Reach::one ? "" : " and all after it"));
        const Watchdog watchdog(patience);
        const Outcome mine = outcome_of([&] {
          if (world.rank() == bad) testing_support::FailingNew::arm(number, reach);
          try {
            operation();
          } catch (...) {
            testing_support::FailingNew::disarm();
            throw;
          }
          testing_support::FailingNew::disarm();
        });
        const std::array<int, 2> here{static_cast<int>(mine), -static_cast<int>(mine)};
        std::array<int, 2> most{};
        boost::mpi::all_reduce(world, here.data(), 2, most.data(), boost::mpi::maximum<int>());
        ASSERT_EQ(most[0], -most[1]) << "ranks ended differently, this one with " << static_cast<int>(mine);
        ASSERT_NE(mine, Outcome::other);
        still_works();
      }
    }
  }
}

}  // namespace evenkeel::test
