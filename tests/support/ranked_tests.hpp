#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/environment.hpp>
#include <iostream>
#include <span>
#include <string>
#include <string_view>

// Shared by programs in which every rank of a job runs every test.

namespace evenkeel::test {

/// Each rank prints its failures with its rank, so nothing is lost if another rank hangs.
class RankedFailures : public testing::EmptyTestEventListener {
 public:
  RankedFailures(int rank, int size)
      : prefix_("[rank " + std::to_string(rank) + "/" + std::to_string(size) + "] ") {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << prefix_ + (result.file_name() ? result.file_name() : "?") + ":" +
                     std::to_string(result.line_number()) + ": " + result.summary() + "\n"
              << std::flush;
    // This rank leaves the test early, so the others would wait for it in their next collective call.
    if (result.fatally_failed()) boost::mpi::environment::abort(1);
  }

 private:
  std::string prefix_;
};

/// Runs the tests on this rank; one of the ranks prints the progress. Returns whether at least one test ran
/// and all passed.
inline bool run_tests_on_rank(int rank, int size, int printing_rank) {
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != printing_rank) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new RankedFailures(rank, size));  // gtest owns its listeners
  const int status = RUN_ALL_TESTS();
  return status == 0 && testing::UnitTest::GetInstance()->test_to_run_count() != 0;
}

/// Returns the thread level, which must be known before MPI is initialized: with `--threads=multiple`, all
/// threads may call MPI.
inline boost::mpi::threading::level wanted_threads(std::span<char*> arguments) {
  const bool multiple = std::ranges::count(arguments, std::string_view("--threads=multiple")) != 0;
  return multiple ? boost::mpi::threading::multiple : boost::mpi::threading::funneled;
}

}  // namespace evenkeel::test
