#include <gtest/gtest.h>

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "evenkeel/service/data_service.hpp"
#include "service/steps_in_all_modes.hpp"
#include "support/columns_in.hpp"
#include "support/counting_memory.hpp"

// All tensors of a micro-batch are in one block, whose size is known before anything is written.

namespace evenkeel::arena_test {
namespace {

using test::configs_for;
using test::share_of;
using testing_support::ColumnsIn;
using testing_support::CountingMemory;

/// Sizes, by name, of the parts that should be copied to a device.
using Parts = std::map<std::string, std::size_t>;

void expect_copy(const MicroBatchArena& arena, const std::string& name, std::span<const std::byte> values,
                 Parts& left) {
  const std::byte* const copy = arena.find_copy(name, values);
  ASSERT_NE(copy, nullptr) << name;
  EXPECT_EQ(left.at(name), arena.offset_of({copy, values.size()})) << name;
  left.erase(name);
}

/// Requires that the arena contains the whole micro-batch, except for borrowed memory, and nothing else.
void expect_all_in_arena(const PackedMicroBatch& m) {
  Parts left;
  for (const MicroBatchArena::Part& part : m.arena.index()) {
    EXPECT_TRUE(part.taken) << part.name;
    EXPECT_EQ(part.offset % MicroBatchArena::alignment, 0U) << part.name;
    EXPECT_LE(part.offset + part.bytes, m.arena.bytes().size()) << part.name;
    left[part.name] = part.offset;
  }
  expect_copy(m.arena, "cu_seqlens", std::as_bytes(m.layout.cu_seqlens()), left);
  expect_copy(m.arena, "cu_seqlens_padded", std::as_bytes(m.layout.cu_seqlens_padded()), left);
  for (const Column& column : m.fields) {
    const std::string& name = column.spec().name;
    if (column.is_borrowed()) continue;
    const auto foreseen = left.find(name);
    if (foreseen == left.end()) {
      ADD_FAILURE() << name << " is there, and not foreseen";
      continue;
    }
    EXPECT_EQ(m.arena.offset_of(column.bytes()), foreseen->second) << name;
    left.erase(foreseen);
    if (column.spec().kind == FieldKind::rows)
      expect_copy(m.arena, offsets_name(name), std::as_bytes(column.samples().offsets()), left);
  }
  for (const auto& [name, offset] : left) ADD_FAILURE() << name << " is foreseen, and not there";
}

bool lends_tensors(const Config& config) {
  return config.exchange.tp_copies == TensorParallelCopies::shared && config.mesh.tp * config.mesh.pp > 1;
}

TEST(Arena, contains_exactly_one_micro_batch_in_every_mode) {
  const boost::mpi::communicator world;
  for (Config config : configs_for(world.size())) {
    if (lends_tensors(config)) continue;
    config.pack.predict_ahead = 2;
    config.pack.padding_mask = true;
    DataService service(world, config);
    const Step step = service.step(share_of(1, world.rank(), world.size()));
    for (const MicroBatch& micro_batch : step.micro_batches) {
      expect_all_in_arena(micro_batch.tensors);
      EXPECT_EQ(micro_batch.arena().data(), micro_batch.tensors.arena.bytes().data());
    }
  }
}

TEST(Arena, contains_a_ranks_own_tensors_if_others_are_lent) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    if (!lends_tensors(config)) continue;
    DataService service(world, config);
    const Step step = service.step(share_of(1, world.rank(), world.size()));
    for (const MicroBatch& micro_batch : step.micro_batches)
      for (const MicroBatchArena::Part& part : micro_batch.tensors.arena.index())
        EXPECT_TRUE(part.taken) << part.name;
  }
}

TEST(Arena, contains_fields_added_by_the_trainer_after_regrouping) {
  const boost::mpi::communicator world;
  Config config;
  config.micro_batch.max_tokens = 1000;
  config.profiles["update"] = config.profile({});
  config.profiles["update"].micro_batch.max_tokens = 200;
  config.profiles["update"].micro_batch.min_count = 9;  // more than any rank had before
  DataService service(world, config);
  Step step = service.step(share_of(1, world.rank(), world.size()));
  for (MicroBatch& m : step.micro_batches)
    m.tensors.fields.emplace_back(FieldSpec{"own", DType::float32, FieldKind::token, {}},
                                  m.tensors.layout.local_rows());
  const Step update = service.step(std::move(step), "update");
  EXPECT_EQ(update.volume, ExchangeVolume{});
  for (const MicroBatch& m : update.micro_batches) {
    EXPECT_NE(m.tensors.find("own"), nullptr);
    expect_all_in_arena(m.tensors);
  }
}

TEST(Arena, is_reused_so_later_steps_allocate_no_memory) {
  const boost::mpi::communicator world;
  CountingMemory memory;
  const ColumnsIn own(memory);
  Config config;
  config.micro_batch.max_tokens = 400;
  DataService service(world, config);
  std::deque<Step> steps;  // keeps steps like those made ahead
  std::int64_t requests = 0;
  for (int s = 0; s < 40; ++s) {
    RaggedBatch mine = share_of(s % 5, world.rank(), world.size());
    const std::int64_t before = memory.requests();
    steps.push_back(service.step(std::move(mine)));
    if (s >= 25) requests += memory.requests() - before;
    if (steps.size() > 2) steps.pop_front();
  }
  EXPECT_EQ(requests, 0);
}

}  // namespace
}  // namespace evenkeel::arena_test
