// Tests fields for tokens after the label in whole steps: every row has its token, and the loss for each
// depth equals the loss without splitting.

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::ahead_test {
namespace {

using testing_support::made_up_batch;
using testing_support::made_up_shape;
using testing_support::made_up_token;

constexpr std::int64_t num_samples = 45;
constexpr std::int64_t depths = 3;

/// Grouped samples: all samples of a group share a prompt, and some share a part of their responses.
struct GroupedSamples {
  static SampleShape shape(std::int64_t id) {
    SampleShape sample = made_up_shape(id);
    sample.prompt = made_up_shape(1000 + id / 4).prompt;
    return sample;
  }
  static std::int64_t token(const SampleShape& sample, std::int64_t t) {
    const std::int64_t common = sample.prompt + (sample.id.value() % 4 == 0 ? 0 : 5);
    const auto of_group = static_cast<std::int64_t>(sample.group) + 5000;
    return made_up_token(t < common ? SampleId{of_group} : sample.id, t);
  }
};

RaggedBatch grouped_share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_samples; ++id)
    if (id % comm.size() == comm.rank()) shapes.push_back(GroupedSamples::shape(id));
  RaggedBatch mine = made_up_batch(std::move(shapes), {});
  const auto tokens = mine.find(input_ids_field)->values<std::int64_t>();
  for (std::int64_t i = 0; i < mine.size(); ++i) {
    const RowRange rows = mine.rows_of(FieldKind::token, i);
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      tokens[static_cast<std::size_t>(row)] =
          GroupedSamples::token(mine.samples()[static_cast<std::size_t>(i)], row - rows.begin);
  }
  return mine;
}

RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_samples; ++id)
    if (id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  return made_up_batch(std::move(shapes), {});
}

double loss_of(std::int64_t label, std::int64_t position) {
  return std::log1p(static_cast<double>(label)) * std::cos(0.1 * static_cast<double>(position));
}

/// Returns the mean over all response tokens that are `depth` + 1 tokens after some row.
double whole_loss(std::int64_t depth, bool is_grouped) {
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    const SampleShape sample = is_grouped ? GroupedSamples::shape(id) : made_up_shape(id);
    for (std::int64_t t = std::max(sample.prompt, depth + 1); t < sample.length(); ++t, ++tokens)
      sum +=
          loss_of(is_grouped ? GroupedSamples::token(sample, t) : made_up_token(sample.id, t), t - 1 - depth);
  }
  return sum / static_cast<double>(tokens);
}

/// Returns the same for samples that share prefixes.
double part_of_shared_loss(const MicroBatch& micro_batch, std::int64_t depth) {
  const PackedMicroBatch& m = micro_batch.tensors;
  const auto positions = m.find("position_ids")->values<std::int64_t>();
  const auto inputs = m.find(prediction_field_name("input_ids", depth))->values<std::int64_t>();
  const Column& column = *m.find(prediction_field_name("labels", depth));
  const auto labels = column.values<std::int64_t>();
  const auto rows = m.find(prediction_field_name("prediction_rows", depth))->values<std::int64_t>();
  const auto weights = m.find(prediction_field_name("loss_weights", depth))->values<float>();
  double sum = 0;
  for (std::size_t i = 0; i < m.samples.size() && !m.has_filler(); ++i) {
    const SampleShape& sample = m.samples[i];
    const double weight = micro_batch.loss.token_weights_ahead[static_cast<std::size_t>(depth) - 1][i];
    const RowRange predictions = column.samples()[static_cast<std::int64_t>(i)];
    for (auto p = static_cast<std::size_t>(predictions.begin); p < static_cast<std::size_t>(predictions.end);
         ++p) {
      const std::int64_t t = positions[static_cast<std::size_t>(rows[p])];
      EXPECT_EQ(labels[p], GroupedSamples::token(sample, t + 1 + depth));
      EXPECT_EQ(weights[p], static_cast<float>(weight));
      sum += weight * loss_of(labels[p], t);
    }
  }
  for (const PackedRun& run : packed_runs(m.layout, m.cp_rank)) {
    const TreeSegment& segment = m.shared->tree.tree().segment(run.index);
    const SampleShape& sample = m.samples[static_cast<std::size_t>(segment.first_sample)];
    for (std::int64_t i = 0; i < run.sequence.size() && !m.has_filler(); ++i) {
      const std::int64_t t = segment.depth + run.sequence.begin + i + depth;
      EXPECT_EQ(inputs[static_cast<std::size_t>(run.local + i)],
                t < sample.length() ? GroupedSamples::token(sample, t) : 0);
    }
  }
  return micro_batch.loss.scale * sum;
}

/// Returns a rank's part of the loss for one depth, after checking each of its rows.
double part_of_loss(const MicroBatch& micro_batch, std::int64_t depth) {
  const PackedMicroBatch& m = micro_batch.tensors;
  const auto labels = m.find(prediction_field_name("labels", depth))->values<std::int64_t>();
  const auto inputs = m.find(prediction_field_name("input_ids", depth))->values<std::int64_t>();
  const auto weights = m.find(prediction_field_name("loss_weights", depth))->values<float>();
  const auto mask = m.find(prediction_field_name("loss_mask", depth))->values<float>();
  std::vector<bool> is_true(labels.size());
  double sum = 0;
  for (const PackedRun& run : packed_runs(m.layout, m.cp_rank)) {
    const SampleShape& sample = m.samples[static_cast<std::size_t>(run.index)];
    if (sample.id == filler_sample) continue;
    const double weight =
        micro_batch.loss
            .token_weights_ahead[static_cast<std::size_t>(depth) - 1][static_cast<std::size_t>(run.index)];
    for (std::int64_t i = 0; i < run.sequence.size(); ++i) {
      const auto row = static_cast<std::size_t>(run.local + i);
      const std::int64_t t = run.sequence.begin + i;
      const auto token = [&](std::int64_t at, std::int64_t pad) {
        return at < sample.length() ? made_up_token(sample.id, at) : pad;
      };
      EXPECT_EQ(inputs[row], token(t + depth, 0));
      EXPECT_EQ(labels[row], token(t + depth + 1, -100));
      const bool has_loss = t + depth + 1 >= sample.prompt && t + depth + 1 < sample.length();
      EXPECT_EQ(mask[row], has_loss ? 1 : 0);
      EXPECT_EQ(weights[row], has_loss ? static_cast<float>(weight) : 0.0F);
      if (has_loss) sum += weight * loss_of(labels[row], t);
      is_true[row] = true;
    }
  }
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (is_true[row]) continue;
    EXPECT_EQ(labels[row], -100);
    EXPECT_EQ(weights[row], 0);
  }
  return micro_batch.loss.scale * sum;
}

void expect_whole_losses(const DataService& service, const Step& step, bool is_shared = false) {
  const Mesh& mesh = service.mesh();
  const bool counts = mesh.here().tp == 0 && mesh.here().pp == mesh.grid().sizes().pp - 1;
  for (std::int64_t depth = 1; depth <= depths; ++depth) {
    double sum = 0;
    for (const MicroBatch& m : step.micro_batches) {
      const double part = is_shared ? part_of_shared_loss(m, depth) : part_of_loss(m, depth);
      if (counts) sum += part;
    }
    const double total = boost::mpi::all_reduce(mesh.world(), sum, std::plus<>());
    EXPECT_NEAR(total / mesh.grid().sizes().dp, whole_loss(depth, is_shared), 1e-12);
  }
}

std::vector<std::string> jobs(int ranks) {
  std::vector<std::string> yaml{"", "micro_batch: {mode: padded, length_round: 8, max_tokens: 256}",
                                "micro_batch: {mode: fixed, size: 3, shapes: 2, max_samples: 3}",
                                "mesh: {cp: flexible}\nbalance: {meet: step, cost: flops-7b}\n"
                                "micro_batch: {max_tokens_per_rank: 48}"};
  if (ranks % 2 == 0) {
    yaml.emplace_back("mesh: {cp: 2}\nmicro_batch: {max_tokens: 200}");
    yaml.emplace_back("mesh: {cp: 2}\npack: {cp_layout: contiguous}\nmicro_batch: {min_count: 9}");
    yaml.emplace_back("mesh: {tp: 2}\nexchange: {tp_copies: shared}");
  }
  if (ranks % 4 == 0) yaml.emplace_back("mesh: {cp: 4}");
  return yaml;
}

Config config_of(const std::string& yaml) {
  Config config = parse_config(std::vector<ConfigText>{{yaml, "job.yaml"}}, {});
  config.pack.predict_ahead = depths;
  config.profiles["again"] = config.profile({});
  config.profiles["again"].loss.fully_masked = FullyMasked::skip;
  config.profiles["plain"] = config.profile({});
  config.profiles["plain"].pack.predict_ahead = 0;
  return config;
}

TEST(FieldsAhead, are_correct_in_every_row_and_give_the_full_loss_at_each_depth) {
  const boost::mpi::communicator world;
  for (const std::string& yaml : jobs(world.size())) {
    SCOPED_TRACE(yaml);
    DataService service(world, config_of(yaml));
    Step step = service.step(share_of(world));
    expect_whole_losses(service, step);
    step = service.step(std::move(step), "again");
    expect_whole_losses(service, step);
    step = service.step(std::move(step), "plain");
    for (const MicroBatch& m : step.micro_batches) EXPECT_EQ(m.tensors.find("labels@1"), nullptr);
  }
}

// Passes that predict fewer tokens use the trees of those that predict most, even with other micro-batches.
TEST(FieldsAhead, are_correct_with_shared_prefixes) {
  const boost::mpi::communicator world;
  std::vector<std::string> jobs{"prefix: {share: true}",
                                "prefix: {share: tree}\nmicro_batch: {max_tokens: 90}"};
  if (world.size() % 2 == 0) {
    jobs.emplace_back("prefix: {share: tree}\nmesh: {cp: 2}");
    jobs.emplace_back("prefix: {share: true}\nmesh: {tp: 2}\nexchange: {tp_copies: shared}");
    jobs.emplace_back(
        "prefix: {share: tree}\nmesh: {cp: flexible}\nbalance: {meet: step, cost: flops-7b}\n"
        "micro_batch: {max_tokens_per_rank: 64}");
  }
  for (const std::string& yaml : jobs) {
    SCOPED_TRACE(yaml);
    Config config = config_of(yaml);
    config.profiles["again"].micro_batch.min_count = 9;
    DataService service(world, config);
    Step step = service.step(grouped_share_of(world));
    expect_whole_losses(service, step, true);
    step = service.step(std::move(step), "plain");
    for (const MicroBatch& m : step.micro_batches) EXPECT_EQ(m.tensors.find("labels@1"), nullptr);
    step = service.step(std::move(step), "again");
    expect_whole_losses(service, step, true);
  }
}

TEST(FieldsAhead, supplied_labels_or_masks_are_refused_on_every_rank) {
  const boost::mpi::communicator world;
  for (const char* name : {"labels", "loss_mask", "labels@1"}) {
    DataService service(world, config_of(""));
    RaggedBatch mine = share_of(world);
    mine.add_field({name, DType::int64, FieldKind::token, {}});
    EXPECT_THROW((void)service.step(mine), InputError);
  }
}

TEST(FieldsAhead, samples_that_declare_their_tree_are_refused_on_every_rank) {
  const boost::mpi::communicator world;
  DataService service(world, config_of("prefix: {share: tree}"));
  RaggedBatch mine = grouped_share_of(world);
  mine.add_field({"segment_ids", DType::int64, FieldKind::token, {}});
  EXPECT_THROW((void)service.step(mine), InputError);
}

TEST(PaddingMask, exists_on_middle_stages_with_shared_tensors) {
  const boost::mpi::communicator world;
  Config config = parse_config(
      std::vector<ConfigText>{{"exchange: {tp_copies: shared}\npack: {padding_mask: true}", "job.yaml"}}, {});
  config.mesh.pp = world.size();
  DataService service(world, config);
  const Step step = service.step(share_of(world));
  for (const MicroBatch& m : step.micro_batches) EXPECT_NE(m.tensors.find("padding_mask"), nullptr);
}

TEST(PaddingMask, a_supplied_mask_is_refused_on_every_rank) {
  const boost::mpi::communicator world;
  Config config;
  config.pack.padding_mask = true;
  DataService service(world, config);
  RaggedBatch mine = share_of(world);
  mine.add_field({"padding_mask", DType::boolean, FieldKind::token, {}});
  EXPECT_THROW((void)service.step(mine), InputError);
}

TEST(SpreadPads, routes_pads_to_all_experts) {
  const boost::mpi::communicator world;
  for (const char* yaml :
       {"", "micro_batch: {min_count: 50}", "micro_batch: {mode: padded, length_round: 8}"}) {
    Config config = parse_config(std::vector<ConfigText>{{yaml, "job.yaml"}}, {});
    config.mesh.cp = world.size() % 2 == 0 ? 2 : 1;
    config.fields["routes"].spread_pads = 7;
    DataService service(world, config);
    RaggedBatch mine = share_of(world);
    for (std::int16_t& expert :
         mine.add_field({"routes", DType::int16, FieldKind::token, {3, 2}}).values<std::int16_t>())
      expert = 5;
    const Step step = service.step(mine);
    for (const MicroBatch& m : step.micro_batches) {
      std::vector<std::int64_t> loads(7);
      const auto routes = m.tensors.find("routes")->values<std::int16_t>();
      const std::int64_t rows = m.tensors.layout.local_rows();
      std::vector<bool> is_true(static_cast<std::size_t>(rows));
      for (const PackedRun& run : packed_runs(m.tensors.layout, m.tensors.cp_rank))
        for (std::int64_t i = 0; i < run.sequence.size() && !m.tensors.has_filler(); ++i)
          is_true[static_cast<std::size_t>(run.local + i)] = true;
      for (std::size_t e = 0; e < routes.size(); ++e) {
        if (is_true[e / 6]) {
          EXPECT_EQ(routes[e], 5);
        } else {
          ++loads.at(static_cast<std::size_t>(routes[e]));
        }
      }
      const auto [least, most] = std::ranges::minmax(loads);
      EXPECT_LE(most - least, 3) << "one for each layer";
    }
  }
}

TEST(SpreadPads, over_too_few_experts_are_refused_on_every_rank) {
  const boost::mpi::communicator world;
  Config config;
  config.fields["routes"].spread_pads = 1;
  DataService service(world, config);
  RaggedBatch mine = share_of(world);
  mine.add_field({"routes", DType::int16, FieldKind::token, {3, 2}});
  EXPECT_THROW((void)service.step(mine), InputError);
}

}  // namespace
}  // namespace evenkeel::ahead_test
