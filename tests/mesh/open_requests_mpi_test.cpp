#include "mesh/mpi_call.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <boost/mpi/communicator.hpp>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace evenkeel {
namespace {

using Kind = OpenRequests::Kind;
constexpr int tag = 7;

TEST(OpenRequests, completed_ones_do_not_block) {
  OpenRequests none(Kind::receives);
  none.wait_for_all();
  none.resize(3);
  none.wait_for_all();
  EXPECT_EQ(none.wait_for_any(), std::nullopt);
}

// Each rank sends to the next one.
TEST(OpenRequests, are_waited_for_together_or_one_by_one) {
  const boost::mpi::communicator world;
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  const std::vector<int> mine{world.rank(), -world.rank()};
  std::vector<int> received(2, -1);
  OpenRequests receives(Kind::receives);
  OpenRequests sends(Kind::others);
  receives.resize(2);
  sends.resize(2);
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<std::size_t>(i);
    MPI_Irecv(&received[at], 1, MPI_INT, previous, tag + i, world, receives.at(at));
    MPI_Isend(&mine[at], 1, MPI_INT, next, tag + i, world, sends.at(at));
  }
  std::vector<int> came;
  while (const std::optional<int> which = receives.wait_for_any()) came.push_back(*which);
  sends.wait_for_all();
  EXPECT_EQ(sends.wait_for_any(), std::nullopt);
  std::ranges::sort(came);
  EXPECT_EQ(came, (std::vector<int>{0, 1}));
  EXPECT_EQ(received, (std::vector<int>{previous, -previous}));
}

/// Leaves requests open, as a rank does that leaves an exchange because of an exception.
void begin_and_leave(const boost::mpi::communicator& world, std::vector<int>& into) {
  OpenRequests receives(Kind::receives);
  receives.resize(1);
  MPI_Irecv(into.data(), static_cast<int>(into.size()), MPI_INT, MPI_ANY_SOURCE, tag, world, receives.at(0));
}

TEST(OpenRequests, do_not_write_memory_of_abandoned_receives) {
  const boost::mpi::communicator world;
  if (world.size() < 2 || world.rank() > 1) return;
  std::vector<int> values(100000, 1);
  if (world.rank() == 0) {
    begin_and_leave(world, values);
    world.send(1, tag);
    std::vector<int> received(values.size());
    MPI_Recv(received.data(), static_cast<int>(received.size()), MPI_INT, 1, tag, world, MPI_STATUS_IGNORE);
    EXPECT_EQ(received, std::vector<int>(values.size(), 5));
    EXPECT_EQ(values, std::vector<int>(values.size(), 1));
  } else {
    values.assign(values.size(), 5);
    world.recv(0, tag);
    MPI_Send(values.data(), static_cast<int>(values.size()), MPI_INT, 0, tag, world);
  }
}

TEST(OpenRequests, keep_what_is_sent_until_it_has_arrived) {
  const boost::mpi::communicator world;
  if (world.size() < 2 || world.rank() > 1) return;
  std::vector<int> values(1 << 20, 3);  // too many to be sent before the receive is posted
  if (world.rank() == 0) {
    {
      OpenRequests sends(Kind::others);
      sends.resize(1);
      MPI_Isend(values.data(), static_cast<int>(values.size()), MPI_INT, 1, tag, world, sends.at(0));
    }
    values.assign(values.size(), 4);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    MPI_Recv(values.data(), static_cast<int>(values.size()), MPI_INT, 0, tag, world, MPI_STATUS_IGNORE);
    EXPECT_EQ(values, std::vector<int>(values.size(), 3));
  }
}

}  // namespace
}  // namespace evenkeel
