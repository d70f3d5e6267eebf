#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <string_view>

namespace {

// Every rank runs every test; what fails is printed with its rank, by that rank, so that nothing is lost when
// another rank hangs.
class RankedFailures : public testing::EmptyTestEventListener {
 public:
  RankedFailures(int rank, int size)
      : prefix_("[rank " + std::to_string(rank) + "/" + std::to_string(size) + "] ") {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << prefix_ + (result.file_name() ? result.file_name() : "?") + ":" +
                     std::to_string(result.line_number()) + ": " + result.summary() + "\n"
              << std::flush;
    // This rank leaves the test here and would leave the others waiting in their next collective call.
    if (result.fatally_failed()) boost::mpi::environment::abort(1);
  }

 private:
  std::string prefix_;
};

// MPI wants to know before anything else: `--threads=multiple` lets all threads call it.
boost::mpi::threading::level wanted_threads(std::span<char*> arguments) {
  const bool multiple = std::ranges::count(arguments, std::string_view("--threads=multiple")) != 0;
  return multiple ? boost::mpi::threading::multiple : boost::mpi::threading::funneled;
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc));
  boost::mpi::environment environment(argc, argv, wanted_threads(arguments));
  const boost::mpi::communicator world;
  testing::InitGoogleTest(&argc, argv);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new RankedFailures(world.rank(), world.size()));  // gtest owns its listeners
  const int mine = RUN_ALL_TESTS();
  const bool nothing_ran = testing::UnitTest::GetInstance()->test_to_run_count() == 0;
  return boost::mpi::all_reduce(world, mine != 0 || nothing_ran, std::logical_or<>()) ? 1 : 0;
}
