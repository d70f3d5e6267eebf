#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "support/columns_in.hpp"
#include "transport/messages/message_exchange.hpp"
#include "transport/shared/shared_heap.hpp"

namespace evenkeel {
namespace {

using testing_support::ColumnsIn;

const FieldSpec words{"words", DType::int64, FieldKind::token, {}};
constexpr TransportSettings by_memory{ExchangePath::shared_memory, default_max_message_bytes};

constexpr uid_t nobody = 65534;

// Returns whether every rank can open files as another user, as root can.
bool may_act_as_nobody(const boost::mpi::communicator& comm) {
  const auto before = static_cast<uid_t>(setfsuid(nobody));
  const bool became_nobody = static_cast<uid_t>(setfsuid(before)) == nobody;
  return boost::mpi::all_reduce(comm, became_nobody && before != nobody, std::logical_and<>());
}

/// During the lifetime of this object, rank `bad` opens files as a user who may not read its neighbors'
/// memory.
class AsNobody {
 public:
  AsNobody(const boost::mpi::communicator& comm, int bad)
      : before_(static_cast<uid_t>(setfsuid(comm.rank() == bad ? nobody : geteuid()))) {}
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  ~AsNobody() { setfsuid(before_); }

 private:
  uid_t before_;
};

std::int64_t word(int from, int to, std::int64_t at) {
  return from * 1'000'000'000LL + to * 10'000'000LL + at;
}

/// Every rank sends `rows` words from one column, in reverse order in runs of 1000, into another column of
/// every other rank.
struct AllToAll {
  AllToAll(const boost::mpi::communicator& comm, std::int64_t rows)
      : out(words, rows * comm.size()), in(words, rows * comm.size()) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    sends.resize(ranks);
    receives.resize(ranks);
    for (int other = 0; other < comm.size(); ++other) {
      const std::int64_t base = other * rows;
      for (std::int64_t row = 0; row < rows; ++row)
        out.values<std::int64_t>()[static_cast<std::size_t>(base + row)] = word(comm.rank(), other, row);
      for (std::int64_t end = rows; end > 0; end -= 1000) {
        const std::int64_t begin = std::max<std::int64_t>(0, end - 1000);
        sends[static_cast<std::size_t>(other)].add(
            out.row(base + begin), static_cast<std::size_t>(end - begin) * sizeof(std::int64_t));
      }
      receives[static_cast<std::size_t>(other)].add(in.row(base),
                                                    static_cast<std::size_t>(rows) * sizeof(std::int64_t));
    }
  }

  [[nodiscard]] bool arrived(const boost::mpi::communicator& comm, std::int64_t rows) const {
    const auto values = in.values<std::int64_t>();
    std::size_t at = 0;
    for (int other = 0; other < comm.size(); ++other) {
      for (std::int64_t end = rows; end > 0; end -= 1000) {
        for (std::int64_t row = std::max<std::int64_t>(0, end - 1000); row < end; ++row) {
          if (values[at++] != word(other, comm.rank(), row)) return false;
        }
      }
    }
    return true;
  }

  Column out;
  Column in;
  std::vector<BlockList> sends;
  std::vector<BlockList> receives;
};

// Returns the first, a middle and the last rank, except those that are alone on their node.
std::set<int> ranks_with_neighbors(const boost::mpi::communicator& world) {
  MPI_Comm raw = MPI_COMM_NULL;
  MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &raw);
  const boost::mpi::communicator node(raw, boost::mpi::comm_take_ownership);
  std::vector<int> sizes;
  boost::mpi::all_gather(world, node.size(), sizes);
  std::set<int> ranks;
  for (const int rank : {0, world.size() / 2, world.size() - 1}) {
    if (sizes[static_cast<std::size_t>(rank)] > 1) ranks.insert(rank);
  }
  return ranks;
}

bool is_shared(const Column& column) {
  return SharedHeap::instance().find(column.bytes().data(), column.bytes().size()).has_value();
}

TEST(SharedMemory, columns_allocated_after_preparation_are_readable_by_neighbors) {
  const boost::mpi::communicator comm = duplicate(boost::mpi::communicator());
  prepare_exchange(comm, by_memory);
  const std::int64_t rows = 20000;
  AllToAll step(comm, rows);
  EXPECT_TRUE(is_shared(step.out));
  exchange_messages(comm, step.sends, step.receives, by_memory);
  EXPECT_TRUE(step.arrived(comm, rows));
}

TEST(SharedMemory, columns_outside_of_shared_memory_are_copied) {
  const boost::mpi::communicator comm = duplicate(boost::mpi::communicator());
  prepare_exchange(comm, by_memory);
  const std::int64_t rows = 20000;
  AllToAll step = [&] {
    const ColumnsIn elsewhere(*std::pmr::new_delete_resource());
    return AllToAll(comm, rows);
  }();
  EXPECT_FALSE(is_shared(step.out));
  exchange_messages(comm, step.sends, step.receives, by_memory);
  EXPECT_TRUE(step.arrived(comm, rows));
}

TEST(SharedMemory, memory_stays_the_same_over_many_steps) {
  const boost::mpi::communicator comm = duplicate(boost::mpi::communicator());
  prepare_exchange(comm, by_memory);
  std::int64_t reserved = 0;
  for (int step = 0; step < 20; ++step) {
    const std::int64_t rows = 5000 + step * 37 % 10 * 100;
    AllToAll moved(comm, rows);
    exchange_messages(comm, moved.sends, moved.receives, by_memory);
    ASSERT_TRUE(moved.arrived(comm, rows));
    if (step == 10) reserved = SharedHeap::instance().usage().reserved;
  }
  EXPECT_EQ(SharedHeap::instance().usage().reserved, reserved);
}

TEST(SharedMemory, columns_keep_their_pages_over_steps_on_every_path) {
  const boost::mpi::communicator world;
  for (const ExchangePath path : {ExchangePath::point_to_point, ExchangePath::alltoallv}) {
    const ColumnsIn unset(standard_heap());
    prepare_exchange(duplicate(world), {path});
    EXPECT_TRUE(is_shared(Column(words, 10'000)));
    const std::int64_t reserved = SharedHeap::instance().usage().reserved;
    for (int step = 0; step < 20; ++step) EXPECT_EQ(Column(words, 10'000).rows(), 10'000);
    EXPECT_EQ(SharedHeap::instance().usage().reserved, reserved);
  }
}

TEST(SharedMemory, a_rank_that_cannot_use_it_makes_all_use_messages) {
  const boost::mpi::communicator world;
  if (!may_act_as_nobody(world)) GTEST_SKIP() << "only root can act as another user";
  for (const int bad : ranks_with_neighbors(world)) {
    const boost::mpi::communicator comm = duplicate(world);
    AllToAll step(comm, 3000);
    {
      const AsNobody stranger(comm, bad);
      prepare_exchange(comm, {});
    }
    exchange_messages(comm, step.sends, step.receives, {});
    EXPECT_TRUE(step.arrived(comm, 3000));
  }
}

TEST(SharedMemory, requiring_it_fails_on_all_ranks_with_the_reason_of_the_rank_that_cannot_use_it) {
  const boost::mpi::communicator world;
  if (!may_act_as_nobody(world)) GTEST_SKIP() << "only root can act as another user";
  for (const int bad : ranks_with_neighbors(world)) {
    const boost::mpi::communicator comm = duplicate(world);
    const AsNobody stranger(comm, bad);
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        prepare_exchange(comm, by_memory);
        ADD_FAILURE() << "rank " << bad << " cannot read its neighbors";
      } catch (const Error& error) {
        EXPECT_EQ(error.report().where, "shared memory");
        EXPECT_EQ(error.report().rank, bad);
        EXPECT_FALSE(error.report().hint.empty());
      }
    }
  }
}

TEST(SharedMemory, a_failure_of_one_rank_fails_all_and_the_next_exchange_works) {
  const boost::mpi::communicator world;
  if (!may_act_as_nobody(world)) GTEST_SKIP() << "only root can act as another user";
  prepare_exchange(duplicate(world), by_memory);
  // This is larger than all files of the heap, so it gets a separate file, which no rank has mapped yet.
  const std::int64_t reserved = SharedHeap::instance().usage().reserved;
  Column out(words, reserved / static_cast<std::int64_t>(sizeof(std::int64_t)) + 1);
  out.values<std::int64_t>()[0] = world.rank();
  Column in(words, world.size());
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<BlockList> sends(ranks);
  std::vector<BlockList> receives(ranks);
  for (int other = 0; other < world.size(); ++other) {
    sends[static_cast<std::size_t>(other)].add(out.row(0), sizeof(std::int64_t));
    receives[static_cast<std::size_t>(other)].add(in.row(other), sizeof(std::int64_t));
  }
  std::vector<std::int64_t> everybody(ranks);
  std::iota(everybody.begin(), everybody.end(), 0);
  for (const int bad : ranks_with_neighbors(world)) {
    const boost::mpi::communicator comm = duplicate(world);
    prepare_exchange(comm, by_memory);
    {
      const AsNobody stranger(comm, bad);
      try {
        exchange_messages(comm, sends, receives, by_memory);
        ADD_FAILURE() << "rank " << bad << " cannot read its neighbors";
      } catch (const IoError& error) {
        EXPECT_EQ(error.report().rank, bad);
      }
    }
    exchange_messages(comm, sends, receives, by_memory);
    const auto values = in.values<std::int64_t>();
    EXPECT_TRUE(std::ranges::equal(values, everybody));
  }
}

}  // namespace
}  // namespace evenkeel
