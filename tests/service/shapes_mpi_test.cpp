// Tests a limited number of shapes (micro_batch.shapes): a run gets the same rows as without the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/communicator.hpp>
#include <set>

#include "evenkeel/base/error.hpp"
#include "service/equal_steps.hpp"
#include "service/steps_in_all_modes.hpp"
#include "support/error_message.hpp"
#include "support/service_ahead.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel::shapes_test {
namespace {

using test::expect_equal;
using test::results_of;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::made_up_batch;
using testing_support::made_up_shape;

constexpr std::int64_t max_shapes = 4;

/// Returns samples with `factor` times the usual lengths.
RaggedBatch longer_share(std::int64_t step, std::int64_t factor, const boost::mpi::communicator& world) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 37; ++id) {
    if (id % world.size() != world.rank()) continue;
    SampleShape shape = made_up_shape(100 * step + id);
    shape.prompt *= factor;
    shape.response *= factor;
    shapes.push_back(shape);
  }
  return made_up_batch(std::move(shapes), testing_support::made_up_fields());
}

RaggedBatch share_of(std::int64_t step, const boost::mpi::communicator& world) {
  return test::share_of(step, world.rank(), world.size());
}

/// Returns jobs that can be combined with a limited number of shapes, without that limit.
std::vector<Config> plain_configs(int ranks) {
  std::vector<Config> configs;
  for (Config& config : test::configs_for(ranks)) {
    if (config.prefix != PrefixSharing::none || config.micro_batch.shapes) continue;
    if (config.mesh.flexible_cp) {
      configs.push_back(std::move(config));
      continue;
    }
    Config& contiguous = configs.emplace_back(config);
    contiguous.pack.cp_layout = CpLayout::contiguous;
    contiguous.exchange.tp_copies = TensorParallelCopies::shared;
    Config& fixed = configs.emplace_back(config);
    if (config.balance.strategy != Strategy::grid) {
      fixed.micro_batch.mode = MicroBatchMode::fixed;
      fixed.micro_batch.size = 5;
    }
    configs.push_back(std::move(config));
  }
  return configs;
}

/// Returns the number of additional shapes for groups of different sizes, which need separate shapes.
std::int64_t more_for_sizes(const Config& config, std::int64_t most) {
  return config.mesh.flexible_cp ? 3 * most : most;
}

Config with_shapes(Config config, std::int64_t most = max_shapes) {
  config.micro_batch.shapes = most;
  for (auto& [name, profile] : config.profiles) profile.micro_batch.shapes = most;
  return config;
}

RowRange rows_of(const PackedMicroBatch& m, const Column& column, std::int64_t sequence) {
  if (is_counted(column.spec().kind)) return column.samples()[sequence];
  if (column.spec().kind == FieldKind::sample) return {sequence, sequence + 1};
  return m.layout.local_range(sequence);
}

/// Returns the total number of rows needed: padding has no rows in counted fields.
std::int64_t rows_needed(const PackedMicroBatch& m, const Column& plain) {
  return is_counted(plain.spec().kind) ? plain.rows() : m.rows_of(plain.spec().kind);
}

bool equal_rows(const Column& one, RowRange rows, const Column& other, RowRange of_other) {
  const auto bytes = static_cast<std::size_t>(rows.size()) * one.row_bytes();
  return rows.size() == of_other.size() &&
         std::equal(one.row(rows.begin), one.row(rows.begin) + bytes, other.row(of_other.begin));
}

template <typename T>
void expect_padding_is(const PackedMicroBatch& m, std::string_view name, std::int64_t from, T value) {
  const Column* column = m.find(name);
  if (column == nullptr) return;
  const std::span<const T> values = column->values<T>();
  EXPECT_TRUE(std::ranges::all_of(values.subspan(static_cast<std::size_t>(from)), [&](T v) {
    return v == value;
  })) << name;
}

/// Requires that the micro-batch with its shape starts with the sequences of the one without it, followed
/// only by padding.
void expect_padded(const PackedMicroBatch& m, const PackedMicroBatch& plain, const Config& config) {
  ASSERT_TRUE(m.shape.has_value());
  EXPECT_EQ(m.layout.local_rows(), m.shape->rows);
  EXPECT_EQ(m.layout.size(), m.shape->sequences);
  EXPECT_EQ(m.layout.max_seqlen(), m.shape->max_seqlen);
  EXPECT_EQ(std::ssize(m.samples), m.shape->sequences);
  if (config.mesh.flexible_cp) {
    EXPECT_LE(m.layout.local_rows(), config.micro_batch.max_tokens_per_rank);
  } else {
    EXPECT_LE(m.layout.num_rows(), config.micro_batch.max_tokens);
  }
  EXPECT_EQ(m.num_tokens(), plain.num_tokens());
  EXPECT_EQ(m.empty(), plain.empty());
  EXPECT_EQ(m.has_filler(), plain.has_filler());
  ASSERT_EQ(m.fields.size(), plain.fields.size());
  for (std::int64_t i = 0; i < plain.layout.size(); ++i) {
    EXPECT_EQ(m.samples[static_cast<std::size_t>(i)], plain.samples[static_cast<std::size_t>(i)]);
    EXPECT_EQ(m.layout.length(i), plain.layout.length(i));
    for (const Column& column : plain.fields) {
      const Column* found = m.find(column.spec().name);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->rows(), rows_needed(m, column));
      EXPECT_TRUE(equal_rows(*found, rows_of(m, *found, i), column, rows_of(plain, column, i)))
          << column.spec().name;
    }
  }
  for (std::int64_t i = plain.layout.size(); i < m.layout.size(); ++i) {
    EXPECT_EQ(m.samples[static_cast<std::size_t>(i)], (SampleShape{filler_sample, 0, 0, 0}));
    EXPECT_EQ(m.layout.length(i), 0);
    EXPECT_LE(m.layout.aligned_length(i), m.layout.max_seqlen());
  }
  const std::int64_t from = plain.layout.local_rows();
  expect_padding_is<std::int64_t>(m, "input_ids", from, config.pack.pad_token);
  expect_padding_is<std::int64_t>(m, "labels", from, config.pack.label_pad);
  expect_padding_is<float>(m, "loss_mask", from, 0);
  expect_padding_is<float>(m, "loss_weights", from, 0);
  expect_padding_is<double>(m, "rewards", 2 * plain.layout.size(), 0);
}

void expect_padded(const Step& step, const Step& plain, const Config& config) {
  ASSERT_EQ(step.micro_batches.size(), plain.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    EXPECT_EQ(step.micro_batches[m].loss, plain.micro_batches[m].loss);
    EXPECT_EQ(step.micro_batches[m].mini_batch, plain.micro_batches[m].mini_batch);
    expect_padded(step.micro_batches[m].tensors, plain.micro_batches[m].tensors, config);
  }
}

/// Returns the delivered shapes over all ranks.
std::set<PackedShape> delivered_shapes(const boost::mpi::communicator& world, std::span<const Step> steps) {
  std::vector<PackedShape> mine;
  for (const Step& step : steps)
    for (const MicroBatch& m : step.micro_batches) mine.push_back(m.tensors.shape.value());
  const auto all = all_gather_lists<PackedShape>(Communicator(world), mine, {}, "shapes");
  return {all.values.begin(), all.values.end()};
}

TEST(FewShapes, deliver_the_same_rows_and_results_as_without_shapes) {
  const boost::mpi::communicator world;
  for (const Config& plain : plain_configs(world.size())) {
    const Config config = with_shapes(plain, more_for_sizes(plain, max_shapes));
    DataService service(world, config);
    DataService without(world, plain);
    for (std::int64_t number = 0; number < 3; ++number) {
      const Step step = service.step(share_of(number, world));
      const Step expected = without.step(share_of(number, world));
      expect_padded(step, expected, config);
      const RaggedBatch home = service.collect(step, results_of(step));
      const RaggedBatch expected_home = without.collect(expected, results_of(expected));
      ASSERT_EQ(home.fields().size(), expected_home.fields().size());
      EXPECT_TRUE(std::ranges::equal(home.fields(), expected_home.fields()));
    }
  }
}

TEST(FewShapes, of_a_step_without_samples_hold_filler_and_padding) {
  const boost::mpi::communicator world;
  const Config config = with_shapes(test::configs_for(1).front());
  DataService service(world, config);
  const Step step = service.step(made_up_batch({}, testing_support::made_up_fields()));
  ASSERT_FALSE(step.micro_batches.empty());
  for (const MicroBatch& m : step.micro_batches) {
    EXPECT_TRUE(m.tensors.empty());
    EXPECT_TRUE(m.tensors.has_filler());
    EXPECT_EQ(m.tensors.num_tokens(), 0);
    EXPECT_EQ(m.tensors.layout.local_rows(), m.tensors.shape->rows);
  }
}

TEST(FewShapes, stay_within_the_limit_as_lengths_drift) {
  const boost::mpi::communicator world;
  for (const std::int64_t most : {1, 3, 6}) {
    Config config = with_shapes(test::configs_for(1).front(), most);
    config.micro_batch.max_tokens = 4000;
    DataService service(world, config);
    std::vector<Step> steps;
    std::vector<PackedShape> before = service.state().shapes;
    EXPECT_EQ(before.size(), 1U);
    for (std::int64_t number = 0; number < 20; ++number) {
      steps.push_back(service.step(longer_share(number, 1 + number / 2, world)));
      const std::vector<PackedShape> now = service.state().shapes;
      ASSERT_GE(now.size(), before.size());
      EXPECT_TRUE(std::equal(before.begin(), before.end(), now.begin()));
      before = now;
    }
    const std::set<PackedShape> all = delivered_shapes(world, steps);
    EXPECT_LE(std::ssize(all), most);
    EXPECT_EQ(std::set<PackedShape>(before.begin(), before.end()).size(), before.size());
    EXPECT_TRUE(std::ranges::includes(std::set<PackedShape>(before.begin(), before.end()), all));
    if (most > 1) {
      EXPECT_GT(before.size(), 1U);
    }
  }
}

/// Returns a job with two passes, one with large and one with small micro-batches, and a third that changes
/// how sequences are aligned.
Config with_profiles(Config config) {
  config.profiles["log_prob"] = config.profile({});
  config.profiles["log_prob"].micro_batch.max_tokens = 1000;
  config.profiles["update"] = config.profile({});
  config.profiles["update"].micro_batch.min_count = 3;
  config.profiles["aligned"] = config.profile({});
  config.profiles["aligned"].pack.align_lcm = 3;
  const std::int64_t most = more_for_sizes(config, 8);
  return with_shapes(std::move(config), most);
}

TEST(FewShapes, of_a_later_pass_equal_those_of_a_first_pass_under_its_profile) {
  const boost::mpi::communicator world;
  for (const Config& plain : plain_configs(world.size())) {
    if (plain.mesh.flexible_cp && plain.balance.strategy != Strategy::grid) continue;  // with no min_count
    const Config config = with_profiles(plain);
    for (const char* profile : {"log_prob", "update", "aligned"}) {
      DataService passes(world, config);
      DataService fresh(world, config);
      for (std::int64_t number = 0; number < 2; ++number) {
        Step first = passes.step(share_of(number, world), "log_prob");
        const Step expected = fresh.step(share_of(number, world), profile);
        const Step second = passes.step(std::move(first), profile);
        expect_equal(second, expected);
        EXPECT_EQ(passes.state().shapes, fresh.state().shapes);
      }
    }
  }
}

TEST(FewShapes, of_all_passes_are_one_set) {
  const boost::mpi::communicator world;
  const Config config = with_profiles(test::configs_for(1).front());
  DataService service(world, config);
  std::vector<Step> steps;
  for (std::int64_t number = 0; number < 6; ++number) {
    steps.push_back(service.step(share_of(number, world), "log_prob"));
    for (const char* profile : {"update", "aligned"})
      steps.push_back(service.step(Step(steps.back()), profile));
  }
  EXPECT_LE(delivered_shapes(world, steps).size(), 8U);
}

TEST(FewShapes, of_passes_with_equal_settings_are_equal_micro_batch_by_micro_batch) {
  const boost::mpi::communicator world;
  Config config = test::configs_for(1).front();
  config.profiles["log_prob"] = config.profile({});
  DataService service(world, with_shapes(config));
  const Step first = service.step(share_of(0, world), "log_prob");
  const Step second = service.step(Step(first), "");
  EXPECT_EQ(second.volume, ExchangeVolume{});
  expect_equal(second, first);
}

TEST(FewShapes, are_unchanged_by_a_resume) {
  const boost::mpi::communicator world;
  for (const std::int64_t prefetch : {0, 2}) {
    Config config = with_shapes(test::configs_for(1).front());
    config.exchange.prefetch = prefetch;
    const auto read = [&](std::int64_t step) { return longer_share(step, 1 + step % 3, world); };
    std::vector<Step> whole;
    test::ServiceAhead all(world, config, 12, read);
    while (auto step = all.next()) whole.push_back(std::move(*step));
    ServiceState state = state_of_new_job(config);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      test::ServiceAhead steps(world, config, 12, read, state);
      const std::optional<Step> step = steps.next();
      ASSERT_TRUE(step.has_value());
      expect_equal(*step, whole[at]);
      state = parse_state(to_text(steps.state()), "a state");
    }
    EXPECT_EQ(state.shapes, all.state().shapes);
    EXPECT_GT(state.shapes.size(), 1U);
    const DataService service(world, config, state);
    EXPECT_EQ(service.state().shapes, state.shapes);
  }
}

TEST(FewShapes, are_chosen_anew_if_a_changed_limit_or_cap_is_accepted) {
  const boost::mpi::communicator world;
  const Config config = with_shapes(test::configs_for(1).front());
  DataService service(world, config);
  (void)service.step(share_of(0, world));
  const ServiceState state = service.state();
  ASSERT_GT(state.shapes.size(), 1U);
  const Config fewer = with_shapes(config, 1);
  EXPECT_THAT(testing_support::message_of([&] { const DataService other(world, fewer, state); }),
              HasSubstr("micro_batch.shapes was 4 and is now 1"));
  Config wider = config;
  wider.micro_batch.max_tokens += 8;
  for (const Config& other : {fewer, wider}) {
    const DataService anew(world, other, state, ChangedJob::accepted);
    EXPECT_EQ(anew.state().shapes.size(), 1U);
  }
  const DataService more(world, with_shapes(config, 9), state, ChangedJob::accepted);
  EXPECT_EQ(more.state().shapes, state.shapes);
}

TEST(FewShapes, are_chosen_without_profiles_that_cannot_hold_the_samples_of_a_step) {
  const boost::mpi::communicator world;
  Config config = test::configs_for(1).front();
  config.profiles["narrow"] = config.profile({});
  config.profiles["narrow"].micro_batch.max_tokens = 8;
  DataService service(world, with_shapes(config));
  Step step = service.step(longer_share(0, 2, world));
  EXPECT_EQ(step.num_samples, 37);
  EXPECT_THAT(testing_support::message_of([&] { (void)service.step(std::move(step), "narrow"); }),
              HasSubstr("above the cap of 8 tokens"));
}

TEST(FewShapes, that_profiles_do_not_agree_on_are_refused_on_all_ranks) {
  const boost::mpi::communicator world;
  Config config = with_profiles(test::configs_for(1).front());
  config.profiles["update"].micro_batch.shapes = 7;
  EXPECT_THAT(testing_support::message_of([&] { const DataService service(world, config); }),
              HasSubstr("micro_batch.shapes"));
  const Config one = with_shapes(with_profiles(test::configs_for(1).front()), 1);
  EXPECT_THAT(testing_support::message_of([&] { const DataService service(world, one); }),
              HasSubstr("is 1, but"));
}

}  // namespace
}  // namespace evenkeel::shapes_test
