#pragma once

#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <cstring>
#include <functional>
#include <vector>

#include "evenkeel/plan/step_plan.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/gather/length_gather.hpp"
#include "exchange/gather/row_count_gather.hpp"
#include "exchange/samples/field_ranges.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::testing_support {

inline constexpr std::int64_t num_samples = 37;
inline constexpr std::int64_t pad_token = 77;
inline constexpr std::int64_t label_pad = -100;

inline std::vector<Grid> grids_of(int ranks) {
  std::vector<Grid> grids;
  for (const GridPoint& rest : {GridPoint{1, 1, 0, 1},
                                {2, 1, 0, 1},
                                {1, 2, 0, 1},
                                {1, 4, 0, 1},
                                {2, 2, 0, 1},
                                {1, 2, 0, 2},
                                {1, 1, 0, 3},
                                {2, 1, 0, 2},
                                {1, 3, 0, 1},
                                {1, 7, 0, 1}}) {
    if (ranks % (rest.tp * rest.cp * rest.pp) != 0) continue;
    grids.push_back(Grid::fill_dp(rest, {}, ranks));
    grids.push_back(Grid::fill_dp(rest, RankOrder("pp-dp-cp-tp"), ranks));
  }
  return grids;
}

/// Returns the rank that supplies a sample.
inline int made_up_owner(std::int64_t id, int ranks) {
  return static_cast<int>(id * id % ranks);
}

/// A step over one mesh with synthetic samples, from the gathered lengths to the packed micro-batches.
struct MadeUpStep {
  MadeUpStep(const Grid& grid, CpLayout layout, std::vector<FieldSpec> extra,
             const TransportSettings& options, const NamedFields& named = {})
      : MadeUpStep(
            grid, layout, options, named, [](std::int64_t id) { return made_up_shape(id); },
            [&](std::vector<SampleShape> shapes) { return made_up_batch(std::move(shapes), extra); }) {}

  MadeUpStep(const Grid& grid, CpLayout layout, const TransportSettings& options, const NamedFields& named,
             const std::function<SampleShape(std::int64_t id)>& shape_of,
             const std::function<RaggedBatch(std::vector<SampleShape>)>& bring)
      : mesh(boost::mpi::communicator(), grid) {
    settings.dp = grid.sizes().dp;
    settings.tp = grid.sizes().tp;
    settings.pp = grid.sizes().pp;
    settings.cp = {grid.sizes().cp, layout};
    settings.micro_batch.max_tokens = 160;
    std::vector<SampleShape> shapes;
    for (std::int64_t id = 0; id < num_samples; ++id) {
      if (made_up_owner(id, mesh.world().size()) == mesh.rank().value()) shapes.push_back(shape_of(id));
    }
    const RaggedBatch mine = bring(std::move(shapes));
    GatheredLengths gathered =
        gather_lengths(mesh.world(), summaries_of(mine), fields_of(mine), std::nullopt);
    table = std::move(gathered.table);
    fields = std::move(gathered.fields);
    table.set_row_counts(gather_row_counts(mesh.world(), table, fields, mine, named));
    assignment = assign_step({table, settings});
    plan = plan_step({table, settings});
    const std::vector<MicroBatchPlan>& micro_batches =
        plan.ranks[static_cast<std::size_t>(mesh.here().dp)].micro_batches;
    const bool sends_messages = !moves_without_messages(mesh.world(), options);
    OwnRanges ranges(mine, named, sends_messages);
    const std::vector<CarriedField> carried = carried_fields(
        fields, {named, ranges.agree(mesh.world(), fields), grid.sizes().pp, 1, sends_messages});
    GuardedWork work;
    const StepTransfer transfer{
        table, assignment, carried, mine, micro_batches, settings, table.row_counts(), shares_equal(named)};
    ExchangedSamples made = exchange_samples(mesh, transfer, {pad_token, label_pad}, options, work);
    packed = std::move(made.micro_batches);
    volume = made.figures.volume;
  }

  Mesh mesh;
  PlanSettings settings;
  LengthTable table;
  std::vector<FieldSpec> fields;
  StepAssignment assignment;
  StepPlan plan;
  std::vector<PackedMicroBatch> packed;
  ExchangeVolume volume;
};

// Calls visit(sample, t, local row) for every local row of a micro-batch; t is the row in the aligned
// sequence.
inline void for_each_row(const PackedMicroBatch& micro_batch,
                         const std::function<void(const SampleShape&, std::int64_t, std::int64_t)>& visit) {
  const PackedLayout& layout = micro_batch.layout;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    std::int64_t local = layout.local_range(i).begin;
    for (const RowRange run : cp_runs(layout.aligned_length(i), layout.cp(), micro_batch.cp_rank)) {
      for (std::int64_t t = run.begin; t < run.end; ++t)
        visit(micro_batch.samples[static_cast<std::size_t>(i)], t, local++);
    }
  }
}

inline bool is_filler(const SampleShape& sample) {
  return sample.id == filler_sample;
}

inline void expect_tokens_and_derived_fields(const PackedMicroBatch& micro_batch) {
  const auto tokens = micro_batch.find("input_ids")->values<std::int64_t>();
  const auto labels = micro_batch.find("labels")->values<std::int64_t>();
  const auto positions = micro_batch.find("position_ids")->values<std::int64_t>();
  const auto mask = micro_batch.find("loss_mask")->values<float>();
  for_each_row(micro_batch, [&](const SampleShape& sample, std::int64_t t, std::int64_t local) {
    const auto at = static_cast<std::size_t>(local);
    const bool real = !is_filler(sample) && t < sample.length();
    const bool has_next = real && t + 1 < sample.length();
    ASSERT_EQ(tokens[at], real ? made_up_token(sample.id, t) : pad_token);
    ASSERT_EQ(labels[at], has_next ? made_up_token(sample.id, t + 1) : label_pad);
    ASSERT_EQ(positions[at], t);
    ASSERT_EQ(mask[at], has_next && t + 1 >= sample.prompt ? 1.0F : 0.0F);
  });
}

// Returns the source row of a token or response-token field that is at row t of a sequence, or -1 if there is
// none.
inline std::int64_t source_row(FieldKind kind, const SampleShape& sample, std::int64_t t) {
  if (is_filler(sample)) return -1;
  if (kind == FieldKind::token) return t < sample.length() ? t : -1;
  return t + 1 >= sample.prompt && t + 1 < sample.length() ? t + 1 - sample.prompt : -1;
}

inline void expect_made_up_field(const PackedMicroBatch& micro_batch, const FieldSpec& spec) {
  const Column* column = micro_batch.find(spec.name);
  ASSERT_NE(column, nullptr) << spec.name;
  const std::size_t row_bytes = spec.row_bytes();
  std::vector<std::byte> empty_row(row_bytes);
  if (spec.name == "labels") std::memcpy(empty_row.data(), &label_pad, row_bytes);
  const auto expect_row = [&](const SampleShape& sample, std::int64_t source, std::int64_t local) {
    for (std::size_t b = 0; b < row_bytes; ++b) {
      const std::byte expected = source < 0 ? empty_row[b] : made_up_byte(sample.id, spec, source, b);
      ASSERT_EQ(column->row(local)[b], expected) << spec.name << " row " << local;
    }
  };
  if (is_counted(spec.kind)) {
    ASSERT_EQ(column->samples().size(), std::ssize(micro_batch.samples));
    for (std::int64_t i = 0; i < column->samples().size(); ++i) {
      const SampleShape& sample = micro_batch.samples[static_cast<std::size_t>(i)];
      const RowRange rows = column->samples()[i];
      ASSERT_EQ(rows.size(), is_filler(sample) ? 0 : made_up_rows(sample.id, spec.name)) << spec.name;
      for (std::int64_t row = 0; row < rows.size(); ++row) expect_row(sample, row, rows.begin + row);
    }
    return;
  }
  if (spec.kind == FieldKind::sample) {
    for (std::size_t i = 0; i < micro_batch.samples.size(); ++i) {
      const SampleShape& sample = micro_batch.samples[i];
      expect_row(sample, is_filler(sample) ? -1 : 0, static_cast<std::int64_t>(i));
    }
    return;
  }
  for_each_row(micro_batch, [&](const SampleShape& sample, std::int64_t t, std::int64_t local) {
    expect_row(sample, source_row(spec.kind, sample, t), local);
  });
}

inline void expect_every_sample_delivered_once_to_each_place(const MadeUpStep& step) {
  std::vector<int> delivered(static_cast<std::size_t>(num_samples), 0);
  for (const PackedMicroBatch& micro_batch : step.packed) {
    for (const SampleShape& sample : micro_batch.samples) {
      if (!is_filler(sample)) ++delivered[sample.id.index()];
    }
  }
  std::vector<int> total(delivered.size());
  boost::mpi::all_reduce(step.mesh.along(Axis::dp), delivered.data(), static_cast<int>(delivered.size()),
                         total.data(), std::plus<>());
  EXPECT_EQ(total, std::vector<int>(delivered.size(), 1));
}

}  // namespace evenkeel::testing_support
