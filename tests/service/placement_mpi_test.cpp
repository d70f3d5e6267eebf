#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <functional>

#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::placement_test {
namespace {

using testing_support::made_up_batch;

/// Returns one long sample per rank, and short samples from the ranks in turn: a part is one long sample and
/// some short ones. Long sample i belongs to rank (i + shift) modulo the number of ranks.
RaggedBatch share_of(const boost::mpi::communicator& comm, int shift) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 5 * comm.size(); ++id) {
    const std::int64_t owner = id < comm.size() ? (id + shift) % comm.size() : id % comm.size();
    if (owner == comm.rank()) shapes.push_back({SampleId{id}, 0, 3, id < comm.size() ? 500 + id : id % 7});
  }
  return made_up_batch(std::move(shapes), testing_support::made_up_fields());
}

struct Pass {
  std::int64_t sent = 0;    // by all ranks
  std::int64_t count = 0;   // of micro-batches
  std::vector<Cost> costs;  // of the DP ranks, ascending
  RaggedBatch back;         // the results that the trainer returned
};

Pass pass_over(const boost::mpi::communicator& world, const Config& config, const RaggedBatch& mine) {
  DataService service(world, config);
  const Step step = service.step(mine);
  Pass pass;
  pass.sent = boost::mpi::all_reduce(world, step.volume.sent, std::plus<>());
  pass.count = std::ssize(step.record->plan.micro_batches);
  boost::mpi::all_gather(world, step.record->plan.cost(), pass.costs);
  std::ranges::sort(pass.costs);
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
    results.put(m, {"labels", DType::int64, FieldKind::token, {}},
                step.micro_batches[m].tensors.find("labels")->bytes());
  pass.back = service.collect(step, results);
  return pass;
}

TEST(Placement, sends_less_and_changes_nothing_else) {
  const boost::mpi::communicator world;
  for (const Strategy strategy : {Strategy::hierarchical, Strategy::grid}) {
    std::int64_t placed = 0;
    std::int64_t unplaced = 0;
    for (int shift = 0; shift < world.size(); ++shift) {
      const RaggedBatch mine = share_of(world, shift);
      Config config;
      config.balance.strategy = strategy;
      config.micro_batch.max_tokens = 600;
      const Pass local = pass_over(world, config, mine);
      config.balance.placement = PlacementRule::none;
      const Pass plain = pass_over(world, config, mine);
      EXPECT_LE(local.sent, plain.sent);
      EXPECT_EQ(local.count, plain.count);
      EXPECT_EQ(local.costs, plain.costs);
      EXPECT_EQ(local.back.at("labels"), plain.back.at("labels"));
      placed += local.sent;
      unplaced += plain.sent;
    }
    // Without placement, a long sample is on its owner for only one of the shifts; with placement, always.
    if (world.size() > 1) {
      EXPECT_LT(2 * placed, unplaced);
    }
  }
}

}  // namespace
}  // namespace evenkeel::placement_test
