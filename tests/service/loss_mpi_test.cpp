#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <ranges>
#include <vector>

#include "batch/mask.hpp"
#include "evenkeel/service/data_service.hpp"
#include "job/hash_consumer.hpp"
#include "service/aggregations.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::loss_test {
namespace {

using test::all_aggregations;
using testing_support::made_up_batch;
using testing_support::made_up_shape;
using testing_support::made_up_token;

constexpr std::int64_t num_samples = 45;

/// A nonlinear loss of the label that a row predicts.
double loss_of(std::int64_t label, std::int64_t position) {
  return std::log1p(static_cast<double>(label)) * std::cos(0.1 * static_cast<double>(position));
}

/// Whether the label at row t of a sample counts: some samples bring a mask with holes, some of them all
/// holes.
bool counts(const SampleShape& sample, std::int64_t t) {
  if (sample.id.value() % 7 == 0) return false;
  return t + 1 < sample.length() && t + 1 >= sample.prompt && (t + sample.id.value()) % 3 != 0;
}

/// Masks are of one value a token, or of one a response token.
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
      // What a mask says of a first token that nothing predicts does not count.
      const std::int64_t t = of_masks == FieldKind::token ? row : sample.prompt + row - 1;
      *mask.row(rows.begin + row) = std::byte{t < 0 || counts(sample, t)};
    }
  }
  return batch;
}

/// The samples' masks and labels of one value per token are at the rows that predict the tokens.
Config config_with_rows_in_place() {
  Config config;
  config.fields["loss_mask"].at = RowConvention::next;
  config.fields["labels"].at = RowConvention::next;
  return config;
}

constexpr std::int64_t norm_length = 24;

/// The loss of the whole step, from the samples themselves, sample by sample.
double whole_loss(LossAggregation aggregation) {
  std::map<std::uint64_t, std::vector<double>> means_of_prompts;
  double sum = 0;
  double sum_of_means = 0;
  std::int64_t tokens = 0;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    const SampleShape sample = made_up_shape(id);
    double own_sum = 0;
    std::int64_t own = 0;
    for (std::int64_t t = 0; t < sample.length(); ++t) {
      if (!counts(sample, t)) continue;
      own_sum += loss_of(made_up_token(sample.id, t + 1), t);
      ++own;
    }
    const double mean = own > 0 ? own_sum / static_cast<double>(own) : 0;
    sum += own_sum;
    tokens += own;
    sum_of_means += mean;
    means_of_prompts[sample.group].push_back(mean);
  }
  switch (aggregation) {
    case LossAggregation::token_mean:
      return sum / static_cast<double>(tokens);
    case LossAggregation::token_sum:
      return sum;
    case LossAggregation::seq_mean_token_sum:
      return sum / num_samples;
    case LossAggregation::seq_mean_token_mean:
      return sum_of_means / num_samples;
    case LossAggregation::seq_mean_token_sum_norm:
      return sum / norm_length / num_samples;
    case LossAggregation::prompt_mean:
    case LossAggregation::mindspeed_rl:  // depends on the split
      break;
  }
  double loss = 0;
  for (const auto& [prompt, means] : means_of_prompts) {
    for (const double mean : means)
      loss += mean / static_cast<double>(means.size()) / static_cast<double>(means_of_prompts.size());
  }
  return loss;
}

/// One rank's part of a micro-batch's loss, as a trainer computes it on its CP share.
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

/// Sums over a rank's micro-batches and its CP group, reduces over micro-batches and DP ranks as the trainer
/// would.
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

TEST(Loss, comes_out_the_same_through_every_mesh_mode_split_and_trainer) {
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

TEST(Loss, is_the_same_whether_masks_have_one_value_a_token_or_a_response_token) {
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

TEST(Loss, is_carried_by_the_last_row_of_a_sample_that_brings_a_label_for_it) {
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

// A first stage would derive others, and weights that belong to neither.
TEST(Loss, of_masks_and_labels_that_samples_bring_is_known_to_the_last_pipeline_stage_alone) {
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

TEST(Loss, of_a_second_pass_is_what_its_profile_says) {
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

TEST(LossWeights, are_zero_in_every_row_without_loss_also_of_micro_batches_that_are_only_filler) {
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
