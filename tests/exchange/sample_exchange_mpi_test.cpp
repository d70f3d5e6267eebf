#include <set>

#include "exchange/result_exchange.hpp"
#include "made_up_step.hpp"
#include "plan/transfer/node_receivers.hpp"
#include "support/carried_samples.hpp"

namespace evenkeel {
namespace {

using namespace testing_support;

/// One way to transfer samples. All of them must deliver the same data.
struct BackEnd {
  const char* name;
  CpLayout layout;
  TransportSettings options;
};

class SampleExchange : public testing::TestWithParam<BackEnd> {};

TEST_P(SampleExchange, delivers_exactly_its_rows_to_every_rank_of_every_mesh) {
  const BackEnd& back_end = GetParam();
  const boost::mpi::communicator world;
  for (const Grid& grid : grids_of(world.size())) {
    const MadeUpStep step(grid, back_end.layout, made_up_fields(), back_end.options);
    const bool first = step.mesh.here().pp == 0;
    const bool last = step.mesh.here().pp == grid.sizes().pp - 1;
    ASSERT_EQ(static_cast<std::int64_t>(step.packed.size()), step.plan.num_micro_batches());
    for (const PackedMicroBatch& micro_batch : step.packed) {
      ASSERT_GT(micro_batch.layout.local_rows(), 0);
      ASSERT_LE(micro_batch.layout.num_rows(), step.settings.micro_batch.max_tokens);
      if (first || last) expect_tokens_and_derived_fields(micro_batch);
      if (!first && !last) {
        EXPECT_EQ(micro_batch.find("input_ids"), nullptr);
      }
      for (const FieldSpec& spec : made_up_fields()) {
        if (last) expect_made_up_field(micro_batch, spec);
        if (!last) {
          EXPECT_EQ(micro_batch.find(spec.name), nullptr);
        }
      }
    }
    expect_every_sample_delivered_once_to_each_place(step);
  }
}

constexpr std::int64_t short_message = 101;  // bytes: fewer than most samples have

TransportSettings by_leaders(ExchangePath path, std::int64_t max_message_bytes = default_max_message_bytes) {
  return {path, max_message_bytes, TensorParallelCopies::own, NodeAggregation::always};
}

const std::vector<BackEnd> back_ends{
    {"automatic", CpLayout::zigzag, {}},
    {"messages", CpLayout::zigzag, {ExchangePath::point_to_point}},
    {"short_messages", CpLayout::contiguous, {ExchangePath::point_to_point, short_message}},
    {"collective", CpLayout::contiguous, {ExchangePath::alltoallv}},
    {"short_collectives", CpLayout::zigzag, {ExchangePath::alltoallv, short_message}},
    {"memory", CpLayout::contiguous, {ExchangePath::shared_memory}},
    {"memory_and_short_messages", CpLayout::zigzag, {ExchangePath::shared_memory, short_message}},
    {"memory_and_tensors_in_common",
     CpLayout::zigzag,
     {ExchangePath::shared_memory, short_message, TensorParallelCopies::shared}},
    {"messages_and_tensors_in_common",
     CpLayout::contiguous,
     {ExchangePath::point_to_point, short_message, TensorParallelCopies::shared}},
    {"leaders_with_memory", CpLayout::zigzag, by_leaders(ExchangePath::automatic)},
    {"leaders_with_messages", CpLayout::contiguous, by_leaders(ExchangePath::point_to_point)},
    {"leaders_with_memory_and_short_messages", CpLayout::contiguous,
     by_leaders(ExchangePath::automatic, short_message)},
    {"leaders_with_short_messages", CpLayout::zigzag,
     by_leaders(ExchangePath::point_to_point, short_message)},
    {"no_leaders",
     CpLayout::zigzag,
     {ExchangePath::automatic, short_message, TensorParallelCopies::own, NodeAggregation::never}}};

INSTANTIATE_TEST_SUITE_P(BackEnds, SampleExchange, testing::ValuesIn(back_ends),
                         [](const testing::TestParamInfo<BackEnd>& back_end) { return back_end.param.name; });

// The fields have layers, narrow types, several axes, counted rows, and equal values. In some cases, one
// rank's rows of a field, or even those of one sample, exceed the maximum message size.
TEST(SampleExchangeStep, fields_of_every_setting_make_a_round_trip_on_every_path) {
  const std::vector<Carried> carried = carried_fields_of_every_way();
  const std::vector<Grid> grids = grids_of(boost::mpi::communicator().size());
  for (std::size_t b = 0; b < back_ends.size(); ++b) {
    const BackEnd& back_end = back_ends[b];
    const testing::ScopedTrace trace(__FILE__, __LINE__, back_end.name);
    for (const std::size_t g : {b % grids.size(), (b + grids.size() / 2) % grids.size()}) {
      const MadeUpStep step(
          grids[g], back_end.layout, back_end.options, settings_of(carried),
          [](std::int64_t id) { return carried_shape(id, 58); },
          [&](std::vector<SampleShape> shapes) { return carried_batch(std::move(shapes), carried); });
      const GridPoint& here = step.mesh.here();
      const int stages = grids[g].sizes().pp;
      std::vector<MicroBatchResults> results;
      for (const PackedMicroBatch& m : step.packed) {
        expect_carried(m, carried, {here.pp, stages});
        results.push_back({carried_results(m, carried)});
      }
      const RaggedBatch home =
          return_results(step.mesh,
                         {step.table, step.assignment,
                          step.plan.ranks[static_cast<std::size_t>(here.dp)].micro_batches, step.settings},
                         results, back_end.options);
      expect_carried_results(home, carried, {stages - 1, stages});
    }
  }
}

TEST(SampleExchangeStep, supplied_fields_are_sent_instead_of_derived) {
  const boost::mpi::communicator world;
  const std::vector<FieldSpec> supplied{{"labels", DType::int64, FieldKind::token, {}},
                                        {"loss_mask", DType::uint8, FieldKind::token, {}},
                                        {"position_ids", DType::int32, FieldKind::token, {3}}};
  const MadeUpStep step(Grid::fill_dp({1, world.size() % 2 == 0 ? 2 : 1, 0, 1}, {}, world.size()),
                        CpLayout::zigzag, supplied, {});
  for (const PackedMicroBatch& micro_batch : step.packed) {
    EXPECT_EQ(micro_batch.fields.size(), 4U);
    for (const FieldSpec& spec : supplied) expect_made_up_field(micro_batch, spec);
  }
}

// Returns the tokens of a sequence that a rank needs: its rows, and the one after each run that does not end
// the sequence.
std::int64_t tokens_needed(const PackedMicroBatch& m, std::int64_t sequence) {
  const std::int64_t length = m.samples[static_cast<std::size_t>(sequence)].length();
  std::int64_t tokens = 0;
  for (const RowRange run : cp_runs(m.layout.aligned_length(sequence), m.layout.cp(), m.cp_rank)) {
    if (run.begin >= length) continue;
    tokens += std::min(run.end, length) - run.begin + (run.end < length ? 1 : 0);
  }
  return tokens;
}

void expect_each_token_to_travel_once_to_each_node(const TransportSettings& options) {
  const boost::mpi::communicator world;
  for (const Grid& grid : grids_of(world.size())) {
    const MadeUpStep step(grid, CpLayout::zigzag, {}, options);
    const std::span<const int> nodes = step.mesh.nodes();
    const std::size_t self = step.mesh.rank().index();
    std::int64_t needed = 0;
    std::int64_t needed_of_other_nodes = 0;
    const bool receives = node_receivers(grid, nodes)[self] == world.rank();
    for (const PackedMicroBatch& m : step.packed) {
      if (!receives || m.find("input_ids") == nullptr) continue;
      for (std::int64_t i = 0; i < m.layout.size(); ++i) {
        const SampleId id = m.samples[static_cast<std::size_t>(i)].id;
        if (id == filler_sample) continue;
        const auto owner = static_cast<std::size_t>(made_up_owner(id.value(), world.size()));
        needed += tokens_needed(m, i);
        if (nodes[owner] != nodes[self]) needed_of_other_nodes += tokens_needed(m, i);
      }
    }
    const auto sum = [&](std::int64_t of_rank) {
      return boost::mpi::all_reduce(world, of_rank, std::plus<>());
    };
    constexpr std::int64_t token_bytes = sizeof(std::int64_t);
    EXPECT_EQ(sum(step.volume.sent + step.volume.kept), sum(needed) * token_bytes);
    EXPECT_EQ(sum(step.volume.between_nodes), sum(needed_of_other_nodes) * token_bytes);
  }
}

TEST(SampleExchangeStep, each_token_is_sent_once_to_each_node_that_needs_it) {
  expect_each_token_to_travel_once_to_each_node({});
}

TEST(SampleExchangeStep, a_field_is_sent_to_its_configured_stages) {
  const boost::mpi::communicator world;
  NamedFields named;
  named["image_patches"].stage = FieldStages::first;
  named["data_source"].stage = FieldStages::first;
  named["rewards"].stage = FieldStages::all;
  named["hidden"].stage = FieldStages::all;
  named["blob"].stage = FieldStages::all;
  for (const TransportSettings& options :
       {TransportSettings{}, by_leaders(ExchangePath::point_to_point),
        TransportSettings{ExchangePath::automatic, short_message, TensorParallelCopies::shared}}) {
    for (const Grid& grid : grids_of(world.size())) {
      const MadeUpStep step(grid, CpLayout::zigzag, made_up_fields(), options, named);
      const bool first = step.mesh.here().pp == 0;
      const bool last = step.mesh.here().pp == grid.sizes().pp - 1;
      for (const PackedMicroBatch& m : step.packed) {
        for (const FieldSpec& spec : made_up_fields()) {
          const auto found = named.find(spec.name);
          const bool is_sent = found == named.end()                        ? last
                               : found->second.stage == FieldStages::first ? first
                                                                           : true;
          if (is_sent) expect_made_up_field(m, spec);
          if (!is_sent) {
            EXPECT_EQ(m.find(spec.name), nullptr) << spec.name;
          }
        }
      }
    }
  }
}

TEST(SampleExchangeStep, each_counted_row_is_sent_once_to_each_node_that_needs_it) {
  const boost::mpi::communicator world;
  const FieldSpec patches{"image_patches", DType::float16, FieldKind::rows, {2, 3}};
  for (const TransportSettings& options : {TransportSettings{}, by_leaders(ExchangePath::point_to_point)}) {
    for (const Grid& grid : grids_of(world.size())) {
      const MadeUpStep bare(grid, CpLayout::zigzag, {}, options);
      const MadeUpStep step(grid, CpLayout::zigzag, {patches}, options);
      std::int64_t rows = 0;
      const bool receives = node_receivers(grid, step.mesh.nodes())[step.mesh.rank().index()] == world.rank();
      for (const PackedMicroBatch& m : step.packed) {
        const Column* const column = m.find(patches.name);
        if (receives && column != nullptr) rows += column->rows();
      }
      const auto moved = [](const MadeUpStep& of) { return of.volume.sent + of.volume.kept; };
      const auto sum = [&](std::int64_t of_rank) {
        return boost::mpi::all_reduce(world, of_rank, std::plus<>());
      };
      EXPECT_EQ(sum(moved(step)) - sum(moved(bare)), sum(rows) * 12);
    }
  }
}

TEST(SampleExchangeStep, each_token_is_sent_once_to_each_node_through_leaders) {
  expect_each_token_to_travel_once_to_each_node(by_leaders(ExchangePath::automatic));
  expect_each_token_to_travel_once_to_each_node(by_leaders(ExchangePath::point_to_point));
}

TEST(SampleExchangeStep, one_message_goes_from_node_to_node_through_leaders) {
  const boost::mpi::communicator world;
  const Grid grid = Grid::fill_dp({1, 1, 0, 1}, {}, world.size());
  const auto sum = [&](std::int64_t of_rank) {
    return boost::mpi::all_reduce(world, of_rank, std::plus<>());
  };
  const MadeUpStep direct(grid, CpLayout::zigzag, {},
                          {ExchangePath::automatic, default_max_message_bytes, TensorParallelCopies::own,
                           NodeAggregation::never});
  const std::set<int> nodes(direct.mesh.nodes().begin(), direct.mesh.nodes().end());
  std::set<int> owning;  // nodes: some own no samples
  for (const LengthEntry& entry : direct.table.entries())
    owning.insert(direct.mesh.nodes()[entry.owner.index()]);
  const std::int64_t pairs = std::ssize(owning) * (std::ssize(nodes) - 1);
  const std::int64_t messages = sum(direct.volume.messages);
  EXPECT_GE(messages, pairs);
  EXPECT_EQ(sum(direct.volume.forwarded), 0);
  for (const ExchangePath path : {ExchangePath::automatic, ExchangePath::point_to_point}) {
    const MadeUpStep led(grid, CpLayout::zigzag, {}, by_leaders(path));
    EXPECT_EQ(sum(led.volume.messages), pairs);
    EXPECT_EQ(sum(led.volume.forwarded) > 0, messages > pairs);
    EXPECT_LE(sum(led.volume.forwarded), 2 * sum(led.volume.between_nodes));
    EXPECT_EQ(sum(led.volume.between_nodes), sum(direct.volume.between_nodes));
  }
}

TEST(SampleExchangeStep, a_step_without_samples_gives_every_rank_one_empty_micro_batch) {
  const boost::mpi::communicator world;
  const Mesh mesh(world, Grid::fill_dp({1, 1, 0, 1}, {}, world.size()));
  const RaggedBatch mine = made_up_batch({}, {});
  const LengthTable table = gather_lengths(world, {}, std::nullopt, std::nullopt).table;
  PlanSettings settings;
  settings.dp = world.size();
  const StepPlan plan = plan_step({table, settings});
  const std::vector<CarriedField> fields =
      carried_fields(std::vector<FieldSpec>{{"input_ids", DType::int64, FieldKind::token, {}}});
  const StepAssignment assignment = assign_step({table, settings});
  const StepTransfer transfer{
      table,   assignment, fields, mine, plan.ranks[static_cast<std::size_t>(mesh.here().dp)].micro_batches,
      settings};
  GuardedWork work;
  const std::vector<PackedMicroBatch> packed =
      exchange_samples(mesh, transfer, {pad_token, label_pad}, {}, work).micro_batches;
  ASSERT_EQ(packed.size(), 1U);
  EXPECT_TRUE(packed[0].empty());
  EXPECT_EQ(packed[0].num_tokens(), 0);
  expect_tokens_and_derived_fields(packed[0]);
}

}  // namespace
}  // namespace evenkeel
