#include <mpi.h>

#include <boost/mpi/collectives.hpp>
#include <utility>

#include "made_up_step.hpp"
#include "transport/shared/shared_heap.hpp"

namespace evenkeel {
namespace {

using namespace testing_support;

// The image is so wide that its columns are in the shared heap.
const FieldSpec image{"image", DType::uint8, FieldKind::token, {1000}};
constexpr TransportSettings in_common{ExchangePath::automatic, default_max_message_bytes,
                                      TensorParallelCopies::shared};

Grid all_tensor_parallel() {
  return Grid::fill_dp({boost::mpi::communicator().size(), 1, 0, 1}, {}, boost::mpi::communicator().size());
}

std::unique_ptr<MadeUpStep> step_in_common(const TransportSettings& options = in_common) {
  return std::make_unique<MadeUpStep>(all_tensor_parallel(), CpLayout::zigzag, std::vector{image}, options);
}

void expect_as_made_up(const std::vector<PackedMicroBatch>& micro_batches) {
  for (const PackedMicroBatch& m : micro_batches) {
    expect_tokens_and_derived_fields(m);
    expect_made_up_field(m, image);
  }
}

bool lends(const MadeUpStep& step) {
  return step.mesh.model_parallel_on_node().rank() == 0;
}

TEST(TensorsInCommon, large_tensors_are_read_in_place) {
  const auto step = step_in_common();
  const bool is_alone = step->mesh.model_parallel_on_node().size() == 1;
  for (const PackedMicroBatch& m : std::as_const(step->packed)) {
    EXPECT_EQ(m.find("image")->is_borrowed(), !is_alone);
    EXPECT_EQ(m.find("loss_mask")->is_borrowed(), !is_alone && lends(*step)) << "small ones are copied";
  }
  EXPECT_EQ(step->volume.copied, 0);
  expect_as_made_up(step->packed);
}

TEST(TensorsInCommon, writes_of_one_rank_are_private) {
  const boost::mpi::communicator world;
  const auto step = step_in_common();
  world.barrier();
  for (int writer = 0; writer < world.size(); ++writer) {
    if (writer == world.rank()) {
      for (PackedMicroBatch& m : step->packed) std::ranges::fill(m.find("image")->bytes(), std::byte{9});
    }
    world.barrier();
    if (writer < world.rank()) expect_as_made_up(step->packed);
    world.barrier();
  }
}

TEST(TensorsInCommon, outlive_the_release_by_the_lender) {
  const boost::mpi::communicator world;
  std::vector<std::unique_ptr<MadeUpStep>> held;
  for (int round = 0; round < 4; ++round) {
    auto step = step_in_common();
    const bool is_lender = lends(*step);
    if (!is_lender) held.push_back(std::move(step));
    step.reset();
    if (!is_lender) continue;
    // All free memory is overwritten.
    std::vector<Column> others;
    for (int i = 0; i < 20; ++i) std::ranges::fill(others.emplace_back(image, 100).bytes(), std::byte{0xEE});
  }
  world.barrier();
  for (const auto& step : held) expect_as_made_up(step->packed);
}

TEST(TensorsInCommon, outlive_their_mesh) {
  const boost::mpi::communicator world;
  std::vector<PackedMicroBatch> kept;
  {
    const auto step = step_in_common();
    if (!lends(*step)) kept = std::move(step->packed);
  }
  for (int round = 0; round < 3; ++round) expect_as_made_up(step_in_common()->packed);
  expect_as_made_up(kept);
}

TEST(TensorsInCommon, memory_stays_the_same_over_many_steps_that_ranks_hold_for_different_times) {
  const boost::mpi::communicator world;
  std::vector<std::unique_ptr<MadeUpStep>> held(3);
  std::int64_t most = 0;
  for (std::size_t round = 0; round < 24; ++round) {
    held[(round * (static_cast<std::size_t>(world.rank()) + 1)) % held.size()] = step_in_common();
    if (round == 12) most = SharedHeap::instance().usage().peak;
  }
  EXPECT_EQ(SharedHeap::instance().usage().peak, most);
}

}  // namespace
}  // namespace evenkeel
