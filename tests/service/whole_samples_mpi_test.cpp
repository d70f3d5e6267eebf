#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/mpi/communicator.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"
#include "support/made_up_batch.hpp"

// Micro-batches of whole samples (pack.deliver: samples), for frameworks that pack and cut themselves.

namespace evenkeel::whole_samples_test {
namespace {

using testing_support::made_up_batch;
using testing_support::made_up_fields;
using testing_support::made_up_shape;

constexpr std::int64_t num_samples = 37;

std::vector<Config> configs_for(int ranks) {
  std::vector<Config> configs;
  for (const auto& [tp, cp, pp] :
       {std::tuple{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 4, 1}, {2, 2, 1}, {1, 2, 2}, {1, 7, 1}}) {
    if (ranks % (tp * cp * pp) != 0) continue;
    Config config;
    config.mesh.tp = tp;
    config.mesh.cp = cp;
    config.mesh.pp = pp;
    config.micro_batch.max_tokens = 300;
    config.pack.predict_ahead = 1;
    config.exchange.tp_copies = cp % 2 == 0 ? TensorParallelCopies::shared : TensorParallelCopies::own;
    configs.push_back(config);
    config.micro_batch.mode = MicroBatchMode::padded;
    config.micro_batch.length_round = 8;
    configs.push_back(config);
  }
  Config flexible;
  flexible.mesh.flexible_cp = true;
  flexible.balance.strategy = Strategy::hierarchical;
  flexible.micro_batch.max_tokens = 0;
  flexible.micro_batch.max_tokens_per_rank = 64;
  configs.push_back(flexible);
  return configs;
}

Config delivering_samples(Config config) {
  config.pack.deliver = Delivery::samples;
  return config;
}

RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_samples; ++id)
    if (id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  return made_up_batch(std::move(shapes), made_up_fields());
}

/// Returns one sample, as supplied, in a separate micro-batch on one rank.
PackedMicroBatch alone(const SampleShape& shape, const Config& config) {
  const boost::mpi::communicator self(MPI_COMM_SELF, boost::mpi::comm_attach);
  Config of_one;
  of_one.pack.predict_ahead = config.pack.predict_ahead;
  of_one.micro_batch.max_tokens = 300;
  DataService service(self, of_one);
  return service.step(made_up_batch({shape}, made_up_fields())).micro_batches.front().tensors;
}

void expect_rows(const Column& column, RowRange rows, const Column& whole) {
  ASSERT_EQ(rows.size(), whole.rows()) << whole.spec().name;
  const std::size_t bytes = static_cast<std::size_t>(whole.rows()) * whole.spec().row_bytes();
  EXPECT_TRUE(std::equal(column.row(rows.begin), column.row(rows.begin) + bytes, whole.row(0)))
      << whole.spec().name;
}

void expect_whole(const PackedMicroBatch& micro_batch, const Config& config) {
  EXPECT_TRUE(std::ranges::equal(micro_batch.layout.cu_seqlens(), micro_batch.layout.cu_seqlens_padded()));
  EXPECT_EQ(micro_batch.layout.local_rows(), std::max<std::int64_t>(1, micro_batch.num_tokens()));
  for (std::size_t i = 0; i < micro_batch.samples.size(); ++i) {
    const SampleShape& shape = micro_batch.samples[i];
    if (shape.id == filler_sample || shape.length() == 0) continue;
    const PackedMicroBatch whole = alone(shape, config);
    const auto sample = static_cast<std::int64_t>(i);
    for (const Column& column : micro_batch.fields) {
      const FieldSpec& spec = column.spec();
      if (spec.name.starts_with(loss_weights_field)) continue;  // the weights of the whole mini-batch
      const RowRange rows = is_counted(spec.kind)         ? column.samples()[sample]
                            : spec.rule().is_per_sample() ? RowRange{sample, sample + 1}
                                                          : micro_batch.layout.local_range(sample);
      expect_rows(column, rows, *whole.find(spec.name));
    }
  }
}

std::vector<std::vector<SampleId>> ids_of(const Step& step) {
  std::vector<std::vector<SampleId>> ids;
  for (const MicroBatch& micro_batch : step.micro_batches) {
    std::vector<SampleId>& of_micro_batch = ids.emplace_back();
    for (const SampleShape& shape : micro_batch.tensors.samples)
      if (shape.id != filler_sample) of_micro_batch.push_back(shape.id);
  }
  return ids;
}

TEST(WholeSamples, arrive_uncut_and_without_pad_rows_on_every_rank_of_a_context_group) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    DataService service(world, delivering_samples(config));
    const Step step = service.step(share_of(world));
    for (const MicroBatch& micro_batch : step.micro_batches) expect_whole(micro_batch.tensors, config);
  }
}

TEST(WholeSamples, have_the_plan_and_the_weights_of_packed_micro_batches) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    DataService packing(world, config);
    DataService delivering(world, delivering_samples(config));
    const Step packed = packing.step(share_of(world));
    const Step whole = delivering.step(share_of(world));
    EXPECT_EQ(whole.record->plan, packed.record->plan);
    EXPECT_EQ(ids_of(whole), ids_of(packed));
    for (std::size_t m = 0; m < whole.micro_batches.size(); ++m) {
      const MicroBatch& one = whole.micro_batches[m];
      const MicroBatch& other = packed.micro_batches[m];
      EXPECT_EQ(one.loss.scale, other.loss.scale);
      EXPECT_EQ(one.context, other.context);
      EXPECT_EQ(one.context_rank, other.context_rank);
      EXPECT_EQ(other.context_rank, other.tensors.cp_rank);
    }
  }
}

// A later pass gets what it would get as the first one.
TEST(WholeSamples, are_a_property_of_a_pass) {
  const boost::mpi::communicator world;
  for (Config config : configs_for(world.size())) {
    config.profiles["whole"] = config.profile({});
    config.profiles["whole"].pack.deliver = Delivery::samples;
    config.profiles["large"] = config.profiles["whole"];
    config.profiles["large"].micro_batch.max_tokens *= 2;
    DataService service(world, config);
    Step step = service.step(share_of(world));
    for (const char* profile : {"whole", "large", ""}) {
      step = service.step(std::move(step), profile);
      const Step first = service.step(share_of(world), profile);
      EXPECT_EQ(ids_of(step), ids_of(first));
      for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
        const PackedMicroBatch& made = step.micro_batches[m].tensors;
        const PackedMicroBatch& expected = first.micro_batches[m].tensors;
        EXPECT_EQ(made.layout, expected.layout);
        for (const Column& column : expected.fields) EXPECT_EQ(*made.find(column.spec().name), column);
      }
    }
  }
}

TEST(WholeSamples, keep_the_rows_that_are_cut_by_tokens) {
  const boost::mpi::communicator world;
  if (world.size() % 2 != 0) return;
  Config config;
  config.mesh.cp = 2;
  config.micro_batch.max_tokens = 64;
  config.pack.deliver = Delivery::samples;
  config.fields["patches"].cut_by = "spans";
  RaggedBatch mine({{SampleId{world.rank()}, 0, 3, 5}});
  const SampleRows two_rows = SampleRows::from_counts(std::array<std::int64_t, 1>{2});
  mine.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  mine.add_field(Column({"patches", DType::uint8, FieldKind::rows, {4}}, two_rows));
  Column spans({"spans", DType::int64, FieldKind::rows, {2}}, two_rows);
  std::ranges::copy(std::vector<std::int64_t>{0, 4, 4, 8}, spans.values<std::int64_t>().begin());
  mine.add_field(std::move(spans));
  DataService service(world, config);
  for (const MicroBatch& micro_batch : service.step(std::move(mine)).micro_batches)
    EXPECT_EQ(micro_batch.tensors.find("patches")->rows(), 2 * std::ssize(micro_batch.tensors.samples));
}

}  // namespace
}  // namespace evenkeel::whole_samples_test
