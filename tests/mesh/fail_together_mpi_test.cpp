#include "mesh/fail_together.hpp"

#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <cstdlib>
#include <new>
#include <set>

namespace evenkeel {
namespace {

std::set<int> first_middle_last(const boost::mpi::communicator& world) {
  return {0, world.size() / 2, world.size() - 1};
}

TEST(FailTogether, no_rank_throws_if_none_failed) {
  const boost::mpi::communicator world;
  EXPECT_NO_THROW(fail_together(world, std::nullopt));
  EXPECT_EQ(run_together(world, [&] { return world.rank() * 2; }), world.rank() * 2);
}

TEST(FailTogether, every_rank_throws_the_error_of_one_rank) {
  const boost::mpi::communicator world;
  for (const int bad : first_middle_last(world)) {
    try {
      run_together(world, [&] {
        if (world.rank() == bad)
          throw InputError("rollouts.jsonl:17", "token -4 is negative", "Tokens start at 0");
      });
      FAIL() << "rank " << bad << " failed, so every rank must throw";
    } catch (const InputError& error) {
      EXPECT_EQ(error.report(), (ErrorReport{ErrorKind::input, "rollouts.jsonl:17", "token -4 is negative",
                                             "Tokens start at 0", bad}));
    }
    // All ranks are still synchronized: the next collective call completes.
    EXPECT_EQ(boost::mpi::all_reduce(world, 1, std::plus<>()), world.size());
  }
}

TEST(FailTogether, every_rank_learns_which_samples_an_error_is_about) {
  const boost::mpi::communicator world;
  const SampleId long_one{std::int64_t{1} << 40};
  try {
    run_together(world, [&] {
      if (world.rank() == world.size() - 1) throw LimitError(long_one, "is too long", "Drop it");
    });
    FAIL() << "the last rank failed";
  } catch (const LimitError& error) {
    EXPECT_EQ(error.report(), (ErrorReport{ErrorKind::limit,
                                           "sample 1099511627776",
                                           "is too long",
                                           "Drop it",
                                           world.size() - 1,
                                           {long_one}}));
  }
}

TEST(GuardedWork, throws_only_mpi_errors_that_one_rank_has_alone) {
  const boost::mpi::communicator world;
  GuardedWork work;
  EXPECT_THROW(work.run_always([] { throw MpiError("MPI_Comm_split", "no more communicators"); }), MpiError);
  work.run_always([&] {
    run_together(world, [&] {
      if (world.rank() == 0) throw MpiError("MPI_Type_commit", "no more types");
    });
  });
  try {
    work.agree(world);
    FAIL() << "rank 0 failed";
  } catch (const MpiError& error) {
    EXPECT_FALSE(is_local_mpi_error(error.report())) << "all ranks have it";
  }
}

TEST(FailTogether, throws_the_error_of_the_lowest_failed_rank) {
  const boost::mpi::communicator world;
  try {
    run_together(world, [&] { throw LimitError("sample", "rank " + std::to_string(world.rank())); });
    FAIL() << "all ranks failed";
  } catch (const LimitError& error) {
    EXPECT_EQ(error.report().message, "rank 0");
  }
}

TEST(FailTogether, errors_of_the_standard_library_are_carried_by_their_text) {
  const boost::mpi::communicator world;
  const int bad = world.size() - 1;
  try {
    run_together(world, [&] {
      if (world.rank() == bad) throw std::out_of_range("vector::at");
    });
    FAIL() << "rank " << bad << " failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.report().message, "vector::at");
  }
  EXPECT_THROW(run_together(world,
                            [&] {
                              if (world.rank() == 0) throw std::bad_alloc();
                            }),
               LimitError);
}

TEST(EndIfOutOfMemory, ends_the_process_with_a_message) {
  EXPECT_EQ(abort_if_out_of_memory([] { return 7; }), 7);
  EXPECT_EXIT(abort_if_out_of_memory([] { throw std::bad_alloc(); }), testing::ExitedWithCode(EXIT_FAILURE),
              "evenkeel: error: out of memory in a collective call");
}

}  // namespace
}  // namespace evenkeel
