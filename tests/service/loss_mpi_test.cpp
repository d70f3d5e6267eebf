#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <cmath>
#include <functional>
#include <ranges>
#include <vector>

#include "batch/mask.hpp"
#include "evenkeel/service/data_service.hpp"
#include "job/hash_consumer.hpp"
#include "support/made_up_batch.hpp"
#include "support/whole_loss.hpp"

namespace evenkeel::loss_test {
namespace {

using testing_support::all_aggregations;
using testing_support::made_up_batch;
using testing_support::made_up_shape;
using testing_support::made_up_token;
using testing_support::SampleLoss;

constexpr std::int64_t num_samples = 45;

/// Returns a nonlinear loss that depends on the label that a row predicts.
double loss_of(std::int64_t label, std::int64_t position) {
  return std::log1p(static_cast<double>(label)) * std::cos(0.1 * static_cast<double>(position));
}

/// Returns whether the label at row t of a sample counts: some samples have a mask with holes, and some masks
/// consist only of holes.
bool counts(const SampleShape& sample, std::int64_t t) {
  if (sample.id.value() % 7 == 0) return false;
  return t + 1 < sample.length() && t + 1 >= sample.prompt && (t + sample.id.value()) % 3 != 0;
}

/// Returns a rank's samples, whose masks have one value per token or one per response token.
RaggedBatch share_of(const boost::mpi::communicator& comm, FieldKind of_masks = FieldKind::token) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    if (id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  RaggedBatch batch = made_up_batch(std::move(shapes), {});
  Column& mask = batch.add_field({"loss_mask", DType::boolean, of_masks, {}});
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
    const RowRange rows = batch.rows_of(of_masks, i);
    for (std::int64_t row = 0; row < rows.size(); ++row) {
      // The mask value of a first token does not count, because nothing predicts that token.
      const std::int64_t t = of_masks == FieldKind::token ? row : sample.prompt + row - 1;
      *mask.row(rows.begin + row) = std::byte{t < 0 || counts(sample, t)};
    }
  }
  return batch;
}

/// Returns a configuration in which masks and labels with one value per token are at the rows that predict
/// the tokens.
Config config_with_rows_in_place() {
  Config config;
  config.fields["loss_mask"].at = RowConvention::next;
  config.fields["labels"].at = RowConvention::next;
  return config;
}

constexpr std::int64_t norm_length = 24;

/// Returns the loss of the whole step, computed sample by sample.
double whole_loss(LossAggregation aggregation) {
  std::vector<SampleLoss<double>> samples;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    const SampleShape sample = made_up_shape(id);
    SampleLoss<double>& own = samples.emplace_back(SampleLoss<double>{sample.group});
    for (std::int64_t t = 0; t < sample.length(); ++t) {
      if (!counts(sample, t)) continue;
      own.sum += loss_of(made_up_token(sample.id, t + 1), t);
      ++own.tokens;
    }
  }
  return testing_support::whole_loss(samples, aggregation, norm_length);
}

/// Returns one rank's part of a micro-batch's loss, as a trainer computes it on its CP share.
double micro_batch_loss(const PackedMicroBatch& m, const MicroBatchLoss& loss) {
  const auto labels = m.find("labels")->values<std::int64_t>();
  const auto positions = m.find("position_ids")->values<std::int64_t>();
  const auto weights = m.find("loss_weights")->values<float>();
  double sum = 0;
  for (std::size_t i = 0; i < loss.token_weights.size(); ++i) {
    const RowRange rows = m.layout.local_range(static_cast<std::int64_t>(i));
    for (auto row = static_cast<std::size_t>(rows.begin); row < static_cast<std::size_t>(rows.end); ++row) {
      if (weights[row] == 0.0F) continue;
      EXPECT_EQ(weights[row], static_cast<float>(loss.token_weights[i]));
      sum += loss.token_weights[i] * loss_of(labels[row], positions[row]);
    }
  }
  return loss.scale * sum;
}

/// Sums over a rank's micro-batches and its CP group, and reduces over micro-batches and DP ranks like the
/// trainer.
double loss_of_pass(const DataService& service, const Step& step, const LossSettings& settings) {
  const Mesh& mesh = service.mesh();
  const bool last_stage = mesh.here().pp == mesh.grid().sizes().pp - 1;
  double sum = 0;
  for (std::size_t m = 0; last_stage && mesh.here().tp == 0 && m < step.micro_batches.size(); ++m) {
    sum += micro_batch_loss(step.micro_batches[m].tensors, step.micro_batches[m].loss);
  }
  if (settings.micro_batches == Reduction::mean) sum /= static_cast<double>(step.micro_batches.size());
  const double total = boost::mpi::all_reduce(mesh.world(), sum, std::plus<>());
  return settings.dp_ranks == Reduction::mean ? total / mesh.grid().sizes().dp : total;
}

double trained_loss(const boost::mpi::communicator& world, const Config& config) {
  DataService service(world, config);
  return loss_of_pass(service, service.step(share_of(world)), config.loss);
}

constexpr std::pair<MicroBatchMode, Strategy> all_splits[] = {
    {MicroBatchMode::packed, Strategy::hierarchical},
    {MicroBatchMode::packed, Strategy::grid},
    {MicroBatchMode::padded, Strategy::hierarchical},
    {MicroBatchMode::fixed, Strategy::hierarchical}};

TEST(Loss, is_equal_for_every_mesh_mode_split_and_trainer) {
  const boost::mpi::communicator world;
  for (const auto& [tp, cp, pp] :
       {std::tuple{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 4, 1}, {2, 2, 2}, {1, 1, 3}, {1, 7, 1}}) {
    if (world.size() % (tp * cp * pp) != 0) continue;
    for (const std::int64_t cap : {256, 5000}) {
      for (const Reduction reduction : {Reduction::sum, Reduction::mean}) {
        for (const auto& [mode, strategy] : all_splits) {
          Config config = config_with_rows_in_place();
          config.mesh.tp = tp;
          config.mesh.cp = cp;
          config.mesh.pp = pp;
          config.balance.strategy = strategy;
          config.micro_batch.mode = mode;
          config.micro_batch.size = 3;
          config.micro_batch.length_round = 8;
          config.micro_batch.max_tokens = cap;
          // More micro-batches than some ranks have samples.
          config.micro_batch.min_count = cap == 5000 ? 9 : 1;
          config.loss.micro_batches = reduction;
          config.loss.dp_ranks = reduction;
          config.loss.norm_length = norm_length;
          for (const LossAggregation aggregation : all_aggregations) {
            config.loss.aggregation = aggregation;
            const double expected = whole_loss(aggregation);
            EXPECT_NEAR(trained_loss(world, config), expected, 1e-12 * std::max(1.0, std::abs(expected)));
          }
        }
      }
    }
  }
}

TEST(Loss, is_equal_for_masks_per_token_and_per_response_token) {
  const boost::mpi::communicator world;
  for (const auto& [mode, strategy] : all_splits) {
    Config config;
    config.mesh.cp = world.size() % 2 == 0 ? 2 : 1;
    config.balance.strategy = strategy;
    config.micro_batch.mode = mode;
    config.micro_batch.size = 3;
    config.micro_batch.length_round = 8;
    config.micro_batch.max_tokens = 256;
    config.loss.norm_length = norm_length;
    for (const LossAggregation aggregation : all_aggregations) {
      config.loss.aggregation = aggregation;
      DataService service(world, config);
      const Step step = service.step(share_of(world, FieldKind::response_token));
      EXPECT_NEAR(loss_of_pass(service, step, config.loss), whole_loss(aggregation), 1e-10);
    }
  }
}

TEST(Loss, includes_the_last_row_of_a_sample_with_a_supplied_label) {
  const boost::mpi::communicator world;
  RaggedBatch mine({{SampleId{world.rank()}, 0, 1, 2}});
  for (const char* name : {"input_ids", "labels", "loss_mask"}) {
    Column& column = mine.add_field({name, DType::int64, FieldKind::token, {}});
    std::ranges::fill(column.values<std::int64_t>(), 1);
  }
  DataService service(world, config_with_rows_in_place());
  const Step step = service.step(mine);
  double weights = 0;
  std::int64_t tokens = 0;
  for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
    for (const float weight : m.find("loss_weights")->values<float>()) {
      weights += weight;
      tokens += weight > 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(boost::mpi::all_reduce(world, tokens, std::plus<>()), 3 * world.size());
  EXPECT_NEAR(boost::mpi::all_reduce(world, weights, std::plus<>()), 1.0, 1e-6);
}

// A first stage would derive other labels, and weights that match neither.
TEST(Loss, with_supplied_masks_and_labels_is_known_only_to_the_last_pipeline_stage) {
  const boost::mpi::communicator world;
  if (world.size() % 2 != 0) return;
  for (const TensorParallelCopies copies : {TensorParallelCopies::own, TensorParallelCopies::shared}) {
    Config config = config_with_rows_in_place();
    config.mesh.pp = 2;
    config.mesh.cp = world.size() % 4 == 0 ? 2 : 1;
    config.exchange.tp_copies = copies;
    config.profiles["narrow"] = config.profile({});
    config.profiles["narrow"].micro_batch.max_tokens = 100;
    config.profiles["narrow"].micro_batch.min_count = 50;  // more than there are samples
    RaggedBatch mine = share_of(world);
    RaggedBatch added({mine.samples().begin(), mine.samples().end()});
    added.add_field({"labels", DType::int64, FieldKind::token, {}});
    DataService service(world, config);
    Step step = service.step(mine);
    const bool is_last = service.mesh().here().pp == 1;
    for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
      EXPECT_EQ(m.find("loss_mask") != nullptr, is_last);
      EXPECT_EQ(m.find("loss_weights") != nullptr, is_last);
      EXPECT_NE(m.find("labels"), nullptr);
    }
    EXPECT_NEAR(loss_of_pass(service, step, config.loss), whole_loss(LossAggregation::token_mean), 1e-12);
    step = service.step(std::move(step), {}, added);
    for (int pass = 0; pass < 2; ++pass) {
      step = service.step(std::move(step), "narrow");
      for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
        EXPECT_EQ(m.find("labels") != nullptr, is_last);
        EXPECT_EQ(m.find("loss_mask") != nullptr, is_last);
        EXPECT_NE(m.find("position_ids"), nullptr);
      }
      (void)service.collect(step, hash_tokens(step));
    }
  }
}

TEST(Loss, of_a_second_pass_follows_its_profile) {
  const boost::mpi::communicator world;
  Config config = config_with_rows_in_place();
  config.mesh.cp = world.size() % 2 == 0 ? 2 : 1;
  config.micro_batch.max_tokens = 5000;
  config.profiles["update"] = config.profile({});
  config.profiles["update"].micro_batch.max_tokens = 256;
  config.profiles["update"].loss.aggregation = LossAggregation::seq_mean_token_mean;
  DataService service(world, config);
  const Step first = service.step(share_of(world));
  EXPECT_NEAR(loss_of_pass(service, first, config.loss), whole_loss(LossAggregation::token_mean), 1e-12);
  const Step second = service.step(first, "update");
  EXPECT_NEAR(loss_of_pass(service, second, config.profile("update").loss),
              whole_loss(LossAggregation::seq_mean_token_mean), 1e-12);
}

TEST(LossWeights, are_zero_in_every_row_without_loss_even_in_filler) {
  const boost::mpi::communicator world;
  Config config;
  config.micro_batch.max_tokens = 200;
  config.micro_batch.min_count = 3;
  DataService service(world, config);
  std::vector<SampleShape> shapes;
  if (world.rank() == 0) shapes = {made_up_shape(1), made_up_shape(2)};
  const Step step = service.step(made_up_batch(std::move(shapes), {}));
  ASSERT_GE(step.micro_batches.size(), 3u);
  for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
    const Column& mask = *m.find("loss_mask");
    const auto weights = m.find("loss_weights")->values<float>();
    for (std::int64_t row = 0; row < mask.rows(); ++row) {
      const bool has_loss = count_set(mask, {row, row + 1}) == 1;
      EXPECT_EQ(weights[static_cast<std::size_t>(row)] > 0, has_loss);
      EXPECT_TRUE(has_loss || weights[static_cast<std::size_t>(row)] == 0) << row;
    }
  }
}

}  // namespace
}  // namespace evenkeel::loss_test
