#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <cmath>
#include <functional>
#include <ranges>
#include <string>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "support/error_message.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::sharing_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::made_up_byte;

constexpr std::int64_t num_samples = 60;
constexpr std::int64_t samples_a_group = 6;

/// Returns a token. Samples of one group start with the same tokens: the prompt, and a part of the response
/// that two of them share.
std::int64_t token_at(SampleId sample, std::int64_t position) {
  const std::int64_t group = sample.value() / samples_a_group;
  const std::int64_t shared = 5 + group % 7 + (sample.value() / 2 % 3) * 2;
  const std::int64_t who = position < 5 + group % 7 ? 0
                           : position < shared      ? 1 + sample.value() / 2 % 3
                                                    : 10 + sample.value();
  return (group * 131 + position * 17 + who * 1009) % 30000;
}

SampleShape shape_of(std::int64_t id) {
  const std::int64_t group = id / samples_a_group;
  return {SampleId{id}, static_cast<std::uint64_t>(1000 + group), 5 + group % 7, id * 13 % 23};
}

/// Returns this rank's samples: groups are scattered over the ranks.
RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    if (id * 7 % comm.size() == comm.rank()) shapes.push_back(shape_of(id));
  }
  RaggedBatch batch(std::move(shapes));
  auto tokens = batch.add_field({"input_ids", DType::int64, FieldKind::token, {}}).values<std::int64_t>();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      tokens[static_cast<std::size_t>(row)] =
          token_at(batch.samples()[static_cast<std::size_t>(i)].id, row - rows.begin);
  }
  for (const FieldSpec& spec : {FieldSpec{"advantages", DType::bfloat16, FieldKind::response_token, {3}},
                                FieldSpec{"reward", DType::float64, FieldKind::sample, {}}}) {
    testing_support::fill_made_up(batch, batch.add_field(spec));
  }
  return batch;
}

std::vector<Config> configs_for(int ranks) {
  std::vector<Config> configs;
  for (const auto& [tp, cp, pp] :
       {std::tuple{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 4, 1}, {2, 2, 1}, {1, 2, 2}, {1, 7, 1}}) {
    if (ranks % (tp * cp * pp) != 0) continue;
    for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees}) {
      for (const std::int64_t cap : {84, 2000}) {  // the smaller cap splits groups
        Config& config = configs.emplace_back();
        config.mesh.tp = tp;
        config.mesh.cp = cp;
        config.mesh.pp = pp;
        config.prefix = sharing;
        config.micro_batch.max_tokens = cap;
        config.mini_batches.count = cap == 84 ? 2 : 1;
      }
    }
  }
  return configs;
}

bool last_stage(const Mesh& mesh) {
  return mesh.here().pp == mesh.grid().sizes().pp - 1;
}

void expect_tokens_of_segments(const PackedMicroBatch& m) {
  const auto tokens = m.find("input_ids")->values<std::int64_t>();
  const auto positions = m.find("position_ids")->values<std::int64_t>();
  const PrefixTree& tree = m.shared->tree.tree();
  for (const PackedRun& run : packed_runs(m.layout, m.cp_rank)) {
    const TreeSegment& segment = tree.segment(run.index);
    const SampleId sample = m.samples[static_cast<std::size_t>(segment.first_sample)].id;
    if (sample == filler_sample) continue;
    for (std::int64_t t = 0; t < run.sequence.size(); ++t) {
      const auto row = static_cast<std::size_t>(run.local + t);
      const std::int64_t position = segment.depth + run.sequence.begin + t;
      ASSERT_EQ(positions[row], position);
      ASSERT_EQ(tokens[row], token_at(sample, position));
    }
  }
}

void expect_predictions(const PackedMicroBatch& m) {
  const auto rows = m.find("prediction_rows")->values<std::int64_t>();
  const auto labels = m.find("labels")->values<std::int64_t>();
  const auto positions = m.find("position_ids")->values<std::int64_t>();
  const Column& advantages = *m.find("advantages");
  for (std::size_t i = 0; i < m.samples.size(); ++i) {
    const SampleShape& sample = m.samples[i];
    for (std::int64_t p = m.shared->prediction_offsets[i]; p < m.shared->prediction_offsets[i + 1]; ++p) {
      const std::int64_t t = positions[static_cast<std::size_t>(rows[static_cast<std::size_t>(p)])] + 1;
      ASSERT_EQ(labels[static_cast<std::size_t>(p)], token_at(sample.id, t));
      for (std::size_t b = 0; b < advantages.spec().row_bytes(); ++b)
        ASSERT_EQ(advantages.row(p)[b], made_up_byte(sample.id, "advantages", t - sample.prompt, b));
    }
  }
}

TEST(Sharing, delivers_every_segment_and_prediction_in_the_right_place) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    DataService service(world, config);
    const Step step = service.step(share_of(world));
    std::int64_t predictions = 0;
    for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
      ASSERT_TRUE(m.shared.has_value());
      ASSERT_LE(m.layout.num_rows(), config.micro_batch.max_tokens);
      if (m.find("input_ids") != nullptr) expect_tokens_of_segments(m);
      if (!last_stage(service.mesh())) continue;
      expect_predictions(m);
      if (service.mesh().here().tp == 0) predictions += m.shared->predictions();
    }
    std::int64_t responses = 0;
    for (std::int64_t id = 0; id < num_samples; ++id) responses += shape_of(id).response;
    EXPECT_EQ(boost::mpi::all_reduce(world, predictions, std::plus<>()), responses);
  }
}

/// Returns this rank's samples of `groups` groups of `group_size`, with only tokens.
RaggedBatch tokens_of_groups(const boost::mpi::communicator& comm, std::int64_t groups,
                             std::int64_t group_size, std::int64_t prompt, std::int64_t response) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < groups * group_size; ++id) {
    const std::int64_t group = id / group_size;
    if (id % comm.size() == comm.rank())
      shapes.push_back({SampleId{id}, static_cast<std::uint64_t>(group), prompt + group % 3, response});
  }
  RaggedBatch batch(std::move(shapes));
  auto token =
      batch.add_field({"input_ids", DType::int64, FieldKind::token, {}}).values<std::int64_t>().begin();
  for (const SampleShape& sample : batch.samples()) {
    for (std::int64_t t = 0; t < sample.length(); ++t)
      *token++ =
          t < sample.prompt ? static_cast<std::int64_t>(sample.group) + t : 1000 + sample.id.value() + t;
  }
  return batch;
}

std::int64_t bytes_moved(const boost::mpi::communicator& world, const Config& config,
                         const RaggedBatch& mine) {
  DataService service(world, config);
  const Step step = service.step(mine);
  return boost::mpi::all_reduce(world, step.volume.sent + step.volume.kept, std::plus<>());
}

Config sharing_config(PrefixSharing sharing, int cp) {
  Config config;
  config.prefix = sharing;
  config.mesh.cp = cp;
  return config;
}

TEST(Sharing, sends_a_shared_token_once_and_no_labels) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  RaggedBatch tokens_only(std::vector<SampleShape>(mine.samples().begin(), mine.samples().end()));
  tokens_only.add_field(mine.at("input_ids"));
  const auto bytes_with = [&](PrefixSharing sharing) {
    return bytes_moved(world, sharing_config(sharing, 1), tokens_only);
  };
  std::int64_t prompts = 0;
  std::int64_t responses = 0;
  std::int64_t all_prompts = 0;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    if (id % samples_a_group == 0) prompts += shape_of(id).prompt;
    all_prompts += shape_of(id).prompt;
    responses += shape_of(id).response;
  }
  EXPECT_EQ(bytes_with(PrefixSharing::prompts), 8 * (prompts + responses));
  EXPECT_LT(bytes_with(PrefixSharing::trees), bytes_with(PrefixSharing::prompts));
  EXPECT_EQ(bytes_with(PrefixSharing::none), 8 * (all_prompts + responses));
}

TEST(Sharing, never_sends_more_bytes_than_without_sharing) {
  const boost::mpi::communicator world;
  for (const std::int64_t group_size : {1, 2, 4, 16}) {
    for (const auto& [prompt, response] : {std::pair{1, 64}, {16, 64}, {64, 16}}) {
      const RaggedBatch mine = tokens_of_groups(world, 5, group_size, prompt, response);
      const std::int64_t repeated = bytes_moved(world, sharing_config(PrefixSharing::none, 1), mine);
      for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees})
        EXPECT_LE(bytes_moved(world, sharing_config(sharing, 1), mine), repeated);
    }
  }
}

// Context parallelism adds a token for each label that is on another rank: up to 2 cp - 2 per segment, and
// one after the prompt of each response.
TEST(Sharing, sends_fewer_bytes_over_context_parallel_ranks) {
  const boost::mpi::communicator world;
  for (const int cp : {2, 4, 8}) {
    if (world.size() % cp != 0) continue;
    for (const std::int64_t group_size : {2, 4, 16}) {
      const RaggedBatch mine = tokens_of_groups(world, 5, group_size, 20, 80);
      const std::int64_t repeated = bytes_moved(world, sharing_config(PrefixSharing::none, cp), mine);
      for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees})
        EXPECT_LT(bytes_moved(world, sharing_config(sharing, cp), mine), repeated);
    }
  }
}

StepResults echo(const Step& step) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    for (const char* name : {"input_ids", "advantages", "reward"}) {
      if (const Column* field = step.micro_batches[m].tensors.find(name))
        results.put(m, field->spec(), field->bytes());
    }
  }
  return results;
}

TEST(Sharing, returns_every_bit_of_results_of_every_kind) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  for (const Config& config : configs_for(world.size())) {
    DataService service(world, config);
    const Step step = service.step(mine);
    const RaggedBatch back = service.collect(step, echo(step));
    EXPECT_TRUE(std::ranges::equal(back.samples(), mine.samples()));
    for (const Column& original : mine.fields())
      EXPECT_EQ(back.at(original.spec().name), original) << original.spec().name;
  }
}

TEST(Sharing, derives_the_same_labels_for_any_number_of_context_parallel_ranks) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  for (const int cp : {1, 2, 4, 8}) {
    if (world.size() % cp != 0) continue;
    for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees}) {
      DataService service(world, sharing_config(sharing, cp));
      const Step step = service.step(mine);
      StepResults results(step.micro_batches.size());
      for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
        const Column& labels = *step.micro_batches[m].tensors.find("labels");
        results.put(m, labels.spec(), labels.bytes());
      }
      const RaggedBatch back = service.collect(step, results);
      const auto labels = back.at("labels").values<std::int64_t>();
      auto label = labels.begin();
      for (const SampleShape& sample : mine.samples()) {
        for (std::int64_t t = sample.prompt; t < sample.length(); ++t)
          ASSERT_EQ(*label++, token_at(sample.id, t)) << "cp " << cp << ", sample " << sample.id.value();
      }
      EXPECT_EQ(label, labels.end());
    }
  }
}

double loss_of(std::int64_t label, std::int64_t position) {
  return std::log1p(static_cast<double>(label)) * std::cos(0.1 * static_cast<double>(position));
}

double shared_loss(const DataService& service, const Step& step) {
  const Mesh& mesh = service.mesh();
  double sum = 0;
  for (std::size_t m = 0; last_stage(mesh) && mesh.here().tp == 0 && m < step.micro_batches.size(); ++m) {
    const PackedMicroBatch& batch = step.micro_batches[m].tensors;
    const auto rows = batch.find("prediction_rows")->values<std::int64_t>();
    const auto labels = batch.find("labels")->values<std::int64_t>();
    const auto positions = batch.find("position_ids")->values<std::int64_t>();
    const auto weights = batch.find("loss_weights")->values<float>();
    for (std::size_t i = 0; i < step.micro_batches[m].loss.token_weights.size(); ++i) {
      for (auto p = static_cast<std::size_t>(batch.shared->prediction_offsets[i]);
           p < static_cast<std::size_t>(batch.shared->prediction_offsets[i + 1]); ++p) {
        EXPECT_EQ(weights[p], static_cast<float>(step.micro_batches[m].loss.token_weights[i]));
        sum += step.micro_batches[m].loss.scale * step.micro_batches[m].loss.token_weights[i] *
               loss_of(labels[p], positions[static_cast<std::size_t>(rows[p])]);
      }
    }
  }
  return boost::mpi::all_reduce(mesh.world(), sum, std::plus<>()) / mesh.grid().sizes().dp;
}

TEST(Sharing, does_not_change_the_loss) {
  const boost::mpi::communicator world;
  double token_sum = 0;
  double sum_of_means = 0;
  std::int64_t tokens = 0;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    const SampleShape sample = shape_of(id);
    double own = 0;
    for (std::int64_t t = sample.prompt; t < sample.length(); ++t)
      own += loss_of(token_at(sample.id, t), t - 1);
    token_sum += own;
    tokens += sample.response;
    if (sample.response > 0) sum_of_means += own / static_cast<double>(sample.response);
  }
  for (Config config : configs_for(world.size())) {
    config.mini_batches.count = 1;
    DataService token_mean(world, config);
    EXPECT_NEAR(shared_loss(token_mean, token_mean.step(share_of(world))),
                token_sum / static_cast<double>(tokens), 1e-12);
    config.loss.aggregation = LossAggregation::seq_mean_token_mean;
    DataService seq_mean(world, config);
    EXPECT_NEAR(shared_loss(seq_mean, seq_mean.step(share_of(world))), sum_of_means / num_samples, 1e-12);
  }
}

TEST(Sharing, supports_a_later_pass_under_another_profile) {
  const boost::mpi::communicator world;
  for (Config config : configs_for(world.size())) {
    config.micro_batch.max_tokens = 2000;
    config.profiles["same"] = config.profile({});
    config.profiles["narrow"] = config.profile({});
    config.profiles["narrow"].micro_batch.max_tokens = 84;
    DataService service(world, config);
    Step step = service.step(share_of(world));
    step = service.step(std::move(step), "same");
    EXPECT_EQ(step.volume, ExchangeVolume{});
    step = service.step(std::move(step), "narrow");
    const RaggedBatch back = service.collect(step, echo(step));
    EXPECT_EQ(back.at("advantages"), share_of(world).at("advantages"));
  }
}

/// Returns this rank's samples with a field of made-up bytes, which differ even if samples share a prompt.
RaggedBatch share_with(const boost::mpi::communicator& comm, const FieldSpec& spec) {
  RaggedBatch batch = share_of(comm);
  testing_support::fill_made_up(batch, batch.add_field(spec));
  return batch;
}

/// Returns this rank's samples with a field that is equal wherever samples share tokens.
RaggedBatch share_with_field_of_groups(const boost::mpi::communicator& comm) {
  RaggedBatch batch = share_of(comm);
  const auto tokens = batch.at("input_ids").values<std::int64_t>();
  std::vector<std::int64_t> values(tokens.begin(), tokens.end());
  for (std::int64_t& value : values) value = 7 * value + 1;
  std::ranges::copy(
      values, batch.add_field({"kinds", DType::int64, FieldKind::token, {}}).values<std::int64_t>().begin());
  return batch;
}

// One shared row would represent different values, and the choice would be arbitrary.
TEST(Sharing, refuses_different_token_fields_of_shared_tokens) {
  const boost::mpi::communicator world;
  for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees}) {
    Config config = sharing_config(sharing, 1);
    config.profiles["again"] = config.profile({});
    DataService service(world, config);
    for (const FieldSpec& spec : {FieldSpec{"position_ids", DType::int64, FieldKind::token, {}},
                                  FieldSpec{"log_probs", DType::bfloat16, FieldKind::token, {3}}}) {
      EXPECT_THAT(testing_support::message_of([&] { (void)service.step(share_with(world, spec)); }),
                  AllOf(HasSubstr("field '" + spec.name + "': differs in rows 0 to "),
                        HasSubstr("of samples 0 and")));
    }
    const Step step = service.step(share_with_field_of_groups(world));
    for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
      if (m.empty()) continue;
      const auto tokens = m.find("input_ids")->values<std::int64_t>();
      const auto kinds = m.find("kinds")->values<std::int64_t>();
      for (const PackedRun& run : packed_runs(m.layout, m.cp_rank)) {
        for (auto row = static_cast<std::size_t>(run.local);
             row < static_cast<std::size_t>(run.local + run.sequence.size()); ++row)
          EXPECT_EQ(kinds[row], 7 * tokens[row] + 1);
      }
    }
    const RaggedBatch mine = share_of(world);
    RaggedBatch added({mine.samples().begin(), mine.samples().end()});
    const FieldSpec values{"values", DType::float32, FieldKind::token, {}};
    added.add_field(share_with(world, values).at(values.name));
    EXPECT_THAT(testing_support::message_of([&] { (void)service.step(step, "again", added); }),
                HasSubstr("field 'values': differs in rows"));
    EXPECT_EQ(service.step(step, "again").volume, ExchangeVolume{});
  }
}

TEST(Sharing, refuses_a_loss_mask_that_is_set_on_labels_that_are_prompt_tokens) {
  const boost::mpi::communicator world;
  const auto masked = [&](bool prompts, bool last_rows) {
    RaggedBatch batch = share_of(world);
    const std::span<std::byte> mask =
        batch.add_field({"loss_mask", DType::uint8, FieldKind::token, {}}).bytes();
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
      for (std::int64_t t = 0; t < sample.length(); ++t) {
        const bool is_set = t + 1 < sample.prompt      ? prompts && sample.id.value() == 7
                            : t + 1 == sample.length() ? last_rows
                                                       : true;
        mask[static_cast<std::size_t>(batch.token_offsets()[static_cast<std::size_t>(i)] + t)] =
            std::byte{is_set};
      }
    }
    return batch;
  };
  for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees}) {
    Config config = sharing_config(sharing, 1);
    config.fields["loss_mask"].at = RowConvention::next;
    DataService service(world, config);
    EXPECT_THAT(testing_support::message_of([&] { (void)service.step(masked(true, false)); }),
                AllOf(HasSubstr("sample 7"), HasSubstr("row 0"), HasSubstr("only response tokens")));
    const double loss = shared_loss(service, service.step(share_of(world)));
    EXPECT_NEAR(shared_loss(service, service.step(masked(false, false))), loss, 1e-12);
    EXPECT_THAT(testing_support::message_of([&] { (void)service.step(masked(false, true)); }),
                HasSubstr("is set at the last row, 4, which does not predict a token"));
  }
}

}  // namespace
}  // namespace evenkeel::sharing_test
