#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <functional>
#include <span>

#include "support/ranked_tests.hpp"

int main(int argc, char** argv) {
  using namespace evenkeel::test;
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc));
  boost::mpi::environment environment(argc, argv, wanted_threads(arguments));
  const boost::mpi::communicator world;
  testing::InitGoogleTest(&argc, argv);
  const bool passed = run_tests_on_rank(world.rank(), world.size(), 0);
  return boost::mpi::all_reduce(world, passed, std::logical_and<>()) ? 0 : 1;
}
