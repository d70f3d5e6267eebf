#include <gtest/gtest.h>
#include <mpi.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>

#include "evenkeel/service/data_service.hpp"
#include "exchange/gather/broadcast_assignment.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/gather/length_gather.hpp"
#include "support/made_up_table.hpp"

namespace {

int collectives = 0;

}  // namespace

// The MPI profiling interface lets a program define functions that replace MPI's; those below count calls. If
// the library uses another collective in the future, add it to this list.
extern "C" {

int MPI_Barrier(MPI_Comm comm) {
  ++collectives;
  return PMPI_Barrier(comm);
}
int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++collectives;
  return PMPI_Bcast(buffer, count, type, root, comm);
}
int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++collectives;
  return PMPI_Allreduce(send, receive, count, type, op, comm);
}
int MPI_Allgather(const void* send, int sent, MPI_Datatype send_type, void* receive, int received,
                  MPI_Datatype receive_type, MPI_Comm comm) {
  ++collectives;
  return PMPI_Allgather(send, sent, send_type, receive, received, receive_type, comm);
}
int MPI_Allgatherv(const void* send, int sent, MPI_Datatype send_type, void* receive, const int* received,
                   const int* offsets, MPI_Datatype receive_type, MPI_Comm comm) {
  ++collectives;
  return PMPI_Allgatherv(send, sent, send_type, receive, received, offsets, receive_type, comm);
}
int MPI_Alltoall(const void* send, int sent, MPI_Datatype send_type, void* receive, int received,
                 MPI_Datatype receive_type, MPI_Comm comm) {
  ++collectives;
  return PMPI_Alltoall(send, sent, send_type, receive, received, receive_type, comm);
}
int MPI_Alltoallv(const void* send, const int* sent, const int* send_offsets, MPI_Datatype send_type,
                  void* receive, const int* received, const int* receive_offsets, MPI_Datatype receive_type,
                  MPI_Comm comm) {
  ++collectives;
  return PMPI_Alltoallv(send, sent, send_offsets, send_type, receive, received, receive_offsets, receive_type,
                        comm);
}

}  // extern "C"

namespace evenkeel {
namespace {

using testing_support::made_up_batch;
using testing_support::made_up_shape;
using testing_support::made_up_table;

/// Counts the collectives of `work`. Each collective costs every rank at least one context switch if there
/// are more ranks than cores, and a round trip over the network.
template <typename Work>
int collectives_of(Work&& work) {
  const int before = collectives;
  std::forward<Work>(work)();
  return collectives - before;
}

RaggedBatch share_of(const boost::mpi::communicator& world, std::int64_t samples,
                     const std::vector<FieldSpec>& fields = testing_support::made_up_uncounted_fields()) {
  std::vector<SampleShape> shapes;
  for (std::int64_t i = 0; i < samples; ++i) shapes.push_back(made_up_shape(world.rank() * samples + i));
  return made_up_batch(std::move(shapes), fields);
}

TEST(Collectives, include_calls_made_by_boost) {
  const boost::mpi::communicator world;
  EXPECT_EQ(collectives_of([&] { world.barrier(); }), 1);
  EXPECT_EQ(collectives_of([&] { (void)boost::mpi::all_reduce(world, 1, boost::mpi::maximum<int>()); }), 1);
}

TEST(Collectives, lengths_and_fields_take_two_calls) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world, 20);
  (void)gather_lengths(world, summaries_of(mine), fields_of(mine), std::nullopt);  // creates its caches
  EXPECT_EQ(
      collectives_of([&] { (void)gather_lengths(world, summaries_of(mine), fields_of(mine), std::nullopt); }),
      2);
}

TEST(Collectives, assignment_takes_one_call_per_node_and_none_for_few_samples) {
  const boost::mpi::communicator world;
  const boost::mpi::communicator node = Communicator(world).split_by_node();
  PlanSettings settings;
  settings.dp = 4;
  const LengthTable many = made_up_table(2000, 4);
  const LengthTable few = made_up_table(100, 4);
  GuardedWork work;
  const auto assign = [&](const LengthTable& table) {
    (void)assign_together(node, 0, {table, settings}, work);
  };
  EXPECT_EQ(collectives_of([&] { assign(many); }), node.size() > 1 ? 1 : 0);
  EXPECT_EQ(collectives_of([&] { assign(few); }), 0);
  EXPECT_FALSE(work.is_skipping_parts());
}

TEST(Collectives, do_not_depend_on_the_size_of_the_step) {
  const boost::mpi::communicator world;
  DataService service(world, Config{});
  const RaggedBatch few = share_of(world, 3);
  const RaggedBatch many = share_of(world, 600);
  (void)service.step(many);
  const int in_small = collectives_of([&] { (void)service.step(few); });
  const int in_large = collectives_of([&] { (void)service.step(many); });
  const int to_assign = world.size() > 1 ? 1 : 0;
  EXPECT_EQ(in_large, in_small + to_assign);
  // Two calls gather, one agrees on the count, one more checks contracts if that is enabled, one agrees that
  // all ranks are ready and one that all succeeded. Ranks that copy from each other make two more calls.
  EXPECT_LE(in_small, 8);
}

TEST(Collectives, counted_rows_take_two_more_calls) {
  const boost::mpi::communicator world;
  DataService service(world, Config{});
  const RaggedBatch uncounted = share_of(world, 20);
  const RaggedBatch counted = share_of(world, 20, testing_support::made_up_fields());
  (void)service.step(counted);
  const int without = collectives_of([&] { (void)service.step(uncounted); });
  EXPECT_EQ(collectives_of([&] { (void)service.step(counted); }), without + 2);
}

}  // namespace
}  // namespace evenkeel
