#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ranges>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/equal_steps.hpp"
#include "support/error_message.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::profiles_test {
namespace {

using test::expect_equal;
using testing::HasSubstr;
using testing_support::made_up_batch;
using testing_support::made_up_fields;
using testing_support::made_up_shape;

RaggedBatch share_of(const boost::mpi::communicator& comm, std::vector<FieldSpec> fields = made_up_fields()) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 43; ++id) {
    if (id * id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  return made_up_batch(std::move(shapes), std::move(fields));
}

/// Returns jobs that compute log-probs with large micro-batches, and update with small ones.
std::vector<Config> configs_for(int ranks) {
  std::vector<Config> configs;
  for (const auto& [tp, cp, pp] :
       {std::tuple{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 2, 1}, {1, 2, 2}, {1, 7, 1}}) {
    if (ranks % (tp * cp * pp) != 0) continue;
    Config& config = configs.emplace_back();
    config.mesh.tp = tp;
    config.mesh.cp = cp;
    config.mesh.pp = pp;
    config.micro_batch.max_tokens = 1000;
    config.mini_batches.count = 2;
    config.profiles["log_prob"] = config.profile({});
    config.profiles["update"] = config.profile({});
    config.profiles["update"].micro_batch.max_tokens = 200;
    config.profiles["update"].micro_batch.min_count = 3;
    config.profiles["update"].loss.aggregation = LossAggregation::prompt_mean;
    config.profiles["aligned"] = config.profile({});
    config.profiles["aligned"].pack.align_lcm = 16;
    config.profiles["padded"] = config.profile({});
    config.profiles["padded"].micro_batch.mode = MicroBatchMode::padded;
    config.profiles["padded"].micro_batch.length_round = 8;
    config.profiles["fixed"] = config.profile({});
    config.profiles["fixed"].micro_batch.mode = MicroBatchMode::fixed;
    config.profiles["fixed"].micro_batch.size = 3;
    config.profiles["other_pads"] = config.profile({});
    config.profiles["other_pads"].pack.label_pad = -1;
    config.profiles["other_pads"].pack.pad_token = 9;
  }
  return configs;
}

TEST(Profiles, a_second_pass_equals_a_step_under_its_profile) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    for (const auto& [name, profile] : config.profiles) {
      DataService alternating(world, config);
      DataService fresh(world, config);
      const Step first = alternating.step(share_of(world), "log_prob");
      expect_equal(alternating.step(first, name), fresh.step(share_of(world), name));
    }
  }
}

TEST(Profiles, with_equal_assignment_and_cuts_send_no_tokens) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    DataService service(world, config);
    const Step log_prob = service.step(share_of(world), "log_prob");
    const Step update = service.step(log_prob, "update");
    EXPECT_EQ(update.volume, ExchangeVolume{});
    EXPECT_GT(update.micro_batches.size(), log_prob.micro_batches.size());
    EXPECT_EQ(service.step(update, "fixed").volume, ExchangeVolume{});
  }
}

// A PPO ratio starts at exactly 1 if both passes run the same sequences in the same micro-batches.
TEST(Profiles, with_equal_settings_share_one_packing_down_to_its_memory) {
  const boost::mpi::communicator world;
  DataService service(world, configs_for(world.size()).front());
  Step first = service.step(share_of(world));
  const std::byte* tokens = first.micro_batches[0].tensors.find("input_ids")->bytes().data();
  const Step second = service.step(std::move(first), "log_prob");
  EXPECT_EQ(second.micro_batches[0].tensors.find("input_ids")->bytes().data(), tokens);
}

TEST(Profiles, added_columns_move_with_their_sequences) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    DataService service(world, config);
    Step step = service.step(share_of(world), "log_prob");
    for (PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
      Column copy({"positions_again", DType::int64, FieldKind::token, {}}, m.layout.local_rows());
      std::ranges::copy(m.find("position_ids")->bytes(), copy.bytes().begin());
      m.fields.push_back(std::move(copy));
    }
    const Step update = service.step(std::move(step), "update");
    for (const PackedMicroBatch& m : update.micro_batches | std::views::transform(&MicroBatch::tensors)) {
      if (m.empty()) continue;
      EXPECT_TRUE(std::ranges::equal(m.find("positions_again")->bytes(), m.find("position_ids")->bytes()));
    }
  }
}

TEST(Profiles, samples_keep_the_rows_left_by_the_trainer) {
  const boost::mpi::communicator world;
  const auto rows_left = [](const SampleShape& sample) {
    return sample.id == filler_sample ? 0 : sample.id.value() % 5 + 9;  // more than samples have
  };
  for (const Config& config : configs_for(world.size())) {
    DataService service(world, config);
    Step step = service.step(share_of(world), "log_prob");
    for (PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
      Column* const column = m.find("image_patches");
      if (column == nullptr) continue;
      std::vector<std::int64_t> counts;
      for (const SampleShape& sample : m.samples) counts.push_back(rows_left(sample));
      *column = Column(column->spec(), SampleRows::from_counts(counts));
      for (std::size_t i = 0; i < m.samples.size(); ++i) {
        const RowRange rows = column->samples()[static_cast<std::int64_t>(i)];
        std::fill(column->row(rows.begin), column->row(rows.end),
                  static_cast<std::byte>(m.samples[i].id.value()));
      }
    }
    const Step update = service.step(std::move(step), "update");
    for (const PackedMicroBatch& m : update.micro_batches | std::views::transform(&MicroBatch::tensors)) {
      const Column* const column = m.find("image_patches");
      if (column == nullptr) continue;
      for (std::size_t i = 0; i < m.samples.size(); ++i) {
        const RowRange rows = column->samples()[static_cast<std::int64_t>(i)];
        ASSERT_EQ(rows.size(), rows_left(m.samples[i]));
        EXPECT_TRUE(std::all_of(column->row(rows.begin), column->row(rows.end), [&](std::byte byte) {
          return byte == static_cast<std::byte>(m.samples[i].id.value());
        }));
      }
    }
  }
}

/// Returns fields that can be compared, which excludes labels if there are pipeline stages: samples with
/// labels also have a mask for them, which is sent to the last stage, whereas a mask derived from tokens is
/// also on the first stage, and stays if labels are added later.
std::vector<FieldSpec> comparable(std::vector<FieldSpec> fields, const Config& config) {
  if (config.mesh.pp > 1) std::erase_if(fields, [](const FieldSpec& f) { return f.name == "labels"; });
  return fields;
}

TEST(Profiles, added_fields_arrive_as_if_the_samples_had_brought_them) {
  const boost::mpi::communicator world;
  const std::vector<FieldSpec> all_added{{"advantages", DType::float32, FieldKind::response_token, {}},
                                         {"labels", DType::int64, FieldKind::response_token, {}},
                                         {"reward", DType::float64, FieldKind::sample, {2}},
                                         {"tool_calls", DType::int64, FieldKind::rows, {2}},
                                         {"verdict", DType::uint8, FieldKind::text, {}}};
  for (const Config& config : configs_for(world.size())) {
    const std::vector<FieldSpec> added = comparable(all_added, config);
    for (const char* profile : {"update", "aligned"}) {
      DataService service(world, config);
      const Step log_prob = service.step(share_of(world, {}), "log_prob");
      RaggedBatch with_tokens = share_of(world, added);
      RaggedBatch extra{{with_tokens.samples().begin(), with_tokens.samples().end()}};
      for (const FieldSpec& spec : added) extra.add_field(with_tokens.at(spec.name));
      DataService fresh(world, config);
      expect_equal(service.step(log_prob, profile, extra), fresh.step(with_tokens, profile));
    }
  }
}

TEST(Profiles, added_fields_are_sent_again_with_their_samples) {
  const boost::mpi::communicator world;
  const std::vector<FieldSpec> brought{{"advantages", DType::float32, FieldKind::response_token, {}},
                                       {"tool_calls", DType::int64, FieldKind::rows, {2}}};
  // Replaces supplied and derived fields; then adds fields of another kind.
  const std::vector<FieldSpec> all_first{{"advantages", DType::float64, FieldKind::sample, {3}},
                                         {"labels", DType::int64, FieldKind::token, {}}};
  const std::vector<FieldSpec> second{{"tool_calls", DType::uint8, FieldKind::text, {}},
                                      {"verdict", DType::uint8, FieldKind::bytes, {}}};
  const auto added = [&](const std::vector<FieldSpec>& fields) {
    const RaggedBatch with_tokens = share_of(world, fields);
    RaggedBatch batch{{with_tokens.samples().begin(), with_tokens.samples().end()}};
    for (const FieldSpec& spec : fields) batch.add_field(with_tokens.at(spec.name));
    return batch;
  };
  for (Config config : configs_for(world.size())) {
    config.fields["labels"].at = RowConvention::next;
    const std::vector<FieldSpec> first = comparable(all_first, config);
    std::vector<FieldSpec> all = first;
    all.insert(all.end(), second.begin(), second.end());
    for (const char* way : {"log_prob", "update", "aligned"}) {
      DataService service(world, config);
      Step step = service.step(share_of(world, brought), "log_prob");
      step = service.step(std::move(step), "update", added(first));
      step = service.step(std::move(step), way, added(second));
      for (const char* profile : {"aligned", "update"}) {
        step = service.step(std::move(step), profile);
        DataService fresh(world, config);
        expect_equal(step, fresh.step(share_of(world, all), profile));
      }
    }
  }
}

TEST(Profiles, added_fields_of_other_samples_or_tokens_are_everybodys_error) {
  const boost::mpi::communicator world;
  DataService service(world, configs_for(world.size()).front());
  const Step step = service.step(share_of(world), "log_prob");
  const std::vector<FieldSpec> reward{{"reward", DType::float32, FieldKind::sample, {}}};
  const auto refusal = [&](const RaggedBatch& added, int bad) {
    try {
      (void)service.step(step, "update", added);
      return std::string("accepted");
    } catch (const InputError& error) {
      EXPECT_EQ(error.report().rank, bad);
      return std::string(error.what());
    }
  };
  for (const int bad : {0, world.size() / 2, world.size() - 1}) {
    const bool me = world.rank() == bad;
    EXPECT_THAT(refusal(me ? share_of(world, reward) : RaggedBatch(), bad), HasSubstr("input_ids"));
    RaggedBatch too_many(std::vector<SampleShape>(100));
    too_many.add_field(reward[0]);
    EXPECT_THAT(refusal(me ? too_many : RaggedBatch(), bad), HasSubstr("100 samples"));
  }
}

TEST(Profiles, invalid_added_fields_are_everybodys_error) {
  const boost::mpi::communicator world;
  DataService service(world, configs_for(world.size()).front());
  const Step step = service.step(share_of(world), "log_prob");
  for (const FieldSpec& spec : {FieldSpec{"loss_weights", DType::float32, FieldKind::token, {}},
                                FieldSpec{"prediction_rows", DType::int64, FieldKind::token, {}},
                                FieldSpec{"labels", DType::float32, FieldKind::token, {}},
                                FieldSpec{"position_ids", DType::int64, FieldKind::response_token, {}}}) {
    const RaggedBatch with_tokens = share_of(world, {});
    RaggedBatch added{{with_tokens.samples().begin(), with_tokens.samples().end()}};
    added.add_field(spec);
    EXPECT_THAT(testing_support::message_of([&] { (void)service.step(step, "update", added); }),
                HasSubstr("field '" + spec.name + "'"));
  }
  EXPECT_EQ(service.step(step, "update").volume, ExchangeVolume{});
}

/// Returns the error of a pass over a step after rank `bad` has changed its micro-batches.
std::string pass_over_changed(const boost::mpi::communicator& world, int bad,
                              const std::function<void(std::vector<MicroBatch>&)>& change) {
  DataService service(world, configs_for(world.size()).front());
  Step step = service.step(share_of(world), "log_prob");
  Step changed = step;
  if (world.rank() == bad) change(changed.micro_batches);
  const std::string message =
      testing_support::message_of([&] { (void)service.step(std::move(changed), "update"); });
  EXPECT_EQ(service.step(std::move(step), "update").volume, ExchangeVolume{});
  return message;
}

TEST(Profiles, invalid_columns_in_a_step_are_everybodys_error) {
  const boost::mpi::communicator world;
  const FieldSpec own{"own", DType::float64, FieldKind::token, {}};
  for (const int bad : {0, world.size() / 2, world.size() - 1}) {
    EXPECT_THAT(pass_over_changed(world, bad,
                                  [&](auto& m) {
                                    for (MicroBatch& each : m) each.tensors.fields.emplace_back(own, 1);
                                  }),
                HasSubstr("field 'own' of micro-batch 0: has 1 row;"));
    EXPECT_THAT(pass_over_changed(world, bad,
                                  [&](auto& m) {
                                    m.back().tensors.fields.emplace_back(
                                        own, m.back().tensors.rows_of(FieldKind::token));
                                  }),
                HasSubstr("field 'own' of micro-batch"));
    EXPECT_THAT(pass_over_changed(world, bad,
                                  [&](auto& m) {
                                    m.front().tensors.fields.emplace_back(
                                        own, m.front().tensors.rows_of(FieldKind::token));
                                  }),
                HasSubstr("is missing, but micro-batch 0 has it"));
    EXPECT_THAT(pass_over_changed(world, bad,
                                  [](auto& m) {
                                    for (MicroBatch& each : m) each.tensors.fields.clear();
                                  }),
                HasSubstr("no longer"));
  }
}

TEST(Profiles, unknown_ones_are_refused_on_every_rank) {
  const boost::mpi::communicator world;
  DataService service(world, configs_for(world.size()).front());
  EXPECT_THROW((void)service.step(share_of(world), "training"), ConfigError);
  EXPECT_NO_THROW((void)service.step(share_of(world), "update"));
}

TEST(Profiles, can_run_an_old_step) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    DataService service(world, config);
    const Step old = service.step(share_of(world), "log_prob");
    const Step expected = service.step(old, "aligned");
    (void)service.step(RaggedBatch(), "log_prob");
    expect_equal(service.step(old, "aligned"), expected);
  }
}

TEST(Profiles, can_run_a_step_of_another_service_with_the_same_configuration) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    DataService one(world, config);
    const Step step = one.step(share_of(world), "log_prob");
    DataService other(world, config);
    for (const char* profile : {"update", "aligned"})
      expect_equal(other.step(step, profile), one.step(step, profile));
  }
}

TEST(Profiles, cannot_assign_a_step_of_a_service_without_profiles) {
  const boost::mpi::communicator world;
  const Config config = configs_for(world.size()).front();
  Config without = config;
  without.profiles.clear();
  const Step step = DataService(world, without).step(share_of(world));
  DataService service(world, config);
  EXPECT_THROW((void)service.step(step, "aligned"), InputError);
  EXPECT_NO_THROW((void)service.step(step, "update"));
}

}  // namespace
}  // namespace evenkeel::profiles_test
