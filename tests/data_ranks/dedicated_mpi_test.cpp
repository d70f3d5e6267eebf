#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <functional>
#include <iostream>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/data_ranks/serve.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/prefetcher.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "service/equal_steps.hpp"
#include "support/made_up_batch.hpp"
#include "support/ranked_tests.hpp"

// A job with data ranks, seen from its trainers: they run the tests, while the first ranks serve.

namespace evenkeel {
namespace {

using test::expect_equal;
using testing::HasSubstr;

int data_ranks = 1;
std::int64_t prefetch = 1;

/// The job's configuration; without data ranks its trainers do all by themselves.
Config config_of(int of_data_ranks) {
  Config config = parse_config(
      "source: {kind: synthetic, samples: 300, seed: 5}\n"
      "batch: {global_batch: 40, shuffle: true, epochs: 2, delay_outliers: 2, outlier_length: 4000, "
      "outlier_companions: 8}\n"
      "micro_batch: {max_tokens: 8192}\n"
      "fields: {back: {wire: narrow}, for_updates: {profiles: [update]}}\n"
      "profiles:\n"
      "  log_prob: {micro_batch: {max_tokens: 16384}}\n"
      "  update: {micro_batch: {min_count: 3}}\n"
      "  aligned: {pack: {align_lcm: 16}}\n",
      "test");
  config.mesh.data_ranks = of_data_ranks;
  config.exchange.prefetch = prefetch;
  return config;
}

/// The trainers of the job, its samples in steps, and those of the same job without data ranks.
class Dedicated : public testing::Test {
 protected:
  [[nodiscard]] const boost::mpi::communicator& trainers() const { return service_.mesh().world(); }
  [[nodiscard]] Prefetcher prefetcher(std::int64_t steps, const ServiceState& from = {}) {
    return {world_, config_,
            steps,  [this](std::int64_t step) { return stream_.read(step); },
            from,   ChangedJob::accepted};
  }
  [[nodiscard]] Step expected(std::int64_t step, std::string_view profile = {}) {
    return embedded_.step([&] { return embedded_stream_.read(step); }, profile);
  }
  [[nodiscard]] Step next_step(std::string_view profile = {}) {
    return service_.step([&] { return stream_.read(0); }, profile);  // data ranks know which step it is
  }
  /// The first rank's own work.
  [[nodiscard]] bool is_first() const { return trainers().rank() == 0; }

  boost::mpi::communicator world_;
  Config config_ = config_of(data_ranks);
  DataService service_{world_, config_};
  SampleStream stream_{world_, config_};
  Config embedded_config_ = config_of(0);
  DataService embedded_{service_.mesh().world(), embedded_config_};
  SampleStream embedded_stream_{service_.mesh().world(), embedded_config_};
};

StepResults tokens_of(const Step& step, const std::string& name) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
    results.put(m, name, FieldKind::token,
                step.micro_batches[m].tensors.find("input_ids")->values<std::int64_t>());
  return results;
}

/// Fails unless `work` throws InputError with this text.
void expect_input_error(const std::function<void()>& work, const std::string& text) {
  try {
    work();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST_F(Dedicated, trainers_are_a_mesh_of_their_own) {
  EXPECT_EQ(service_.mesh().world().size(), world_.size() - data_ranks);
  EXPECT_EQ(service_.mesh().grid().sizes().dp, world_.size() - data_ranks);
  EXPECT_EQ(service_.mesh().data_ranks(), data_ranks);
  EXPECT_EQ(service_.mesh().rank().value(), world_.rank() - data_ranks);
}

TEST_F(Dedicated, streams_tell_trainers_the_same_and_give_them_no_samples) {
  EXPECT_EQ(stream_.num_samples(), embedded_stream_.num_samples());
  EXPECT_EQ(stream_.num_steps(), embedded_stream_.num_steps());
  ASSERT_EQ(stream_.sources().size(), embedded_stream_.sources().size());
  EXPECT_EQ(stream_.sources()[0].counts, embedded_stream_.sources()[0].counts);
  EXPECT_EQ(stream_.read(0).size(), 0);
  ServiceState state = service_.state();
  ServiceState embedded_state = embedded_.state();
  stream_.describe(state);
  embedded_stream_.describe(embedded_state);
  EXPECT_EQ(state.sources, embedded_state.sources);
  EXPECT_EQ(state.order, embedded_state.order);
  EXPECT_THAT(differences(embedded_state, state), testing::IsEmpty());
}

TEST_F(Dedicated, services_hand_out_the_steps_that_trainers_would_make_themselves) {
  for (std::int64_t step = 0; step < 4; ++step) expect_equal(next_step(), expected(step));
}

TEST_F(Dedicated, prefetchers_hand_out_all_steps_of_the_stream_and_end) {
  Prefetcher steps = prefetcher(stream_.num_steps());
  for (std::int64_t step = 0; step < stream_.num_steps(); ++step) {
    const std::optional<Step> made = steps.next();
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(made->index, step);
    expect_equal(*made, expected(step));
  }
  EXPECT_FALSE(steps.next().has_value());
}

TEST_F(Dedicated, streams_end_where_trainers_say) {
  SampleStream two(world_, config_, {}, 2);
  EXPECT_EQ(two.num_steps(), 2);
  Prefetcher steps(world_, config_, 3, [&](std::int64_t step) { return two.read(step); });
  for (std::int64_t step = 0; step < 2; ++step) expect_equal(*steps.next(), expected(step));
  expect_input_error([&] { static_cast<void>(steps.next()); }, "is none of the stream, which has 2");
  EXPECT_EQ(SampleStream(world_, config_, {}, 1000).num_steps(), embedded_stream_.num_steps());
}

TEST_F(Dedicated, prefetchers_may_go_at_any_step) {
  for (std::int64_t taken = 0; taken < 4; ++taken) {
    Prefetcher steps = prefetcher(stream_.num_steps());
    for (std::int64_t step = 0; step < taken; ++step) expect_equal(*steps.next(), expected(step));
  }
}

TEST_F(Dedicated, prefetchers_go_on_from_a_state_with_the_steps_after_it) {
  ServiceState reached;
  {
    Prefetcher steps = prefetcher(stream_.num_steps());
    for (int step = 0; step < 3; ++step) static_cast<void>(steps.next());
    reached = steps.state();
  }
  EXPECT_EQ(reached.next_step, 3);
  Prefetcher steps = prefetcher(5, reached);
  static_cast<void>(embedded_.step([&] { return embedded_stream_.read(0); }));
  for (std::int64_t step = 3; step < 5; ++step) {
    const std::optional<Step> made = steps.next();
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(made->index, step);
    EXPECT_EQ(made->num_tokens, expected(step).num_tokens);
  }
  EXPECT_FALSE(steps.next().has_value());
}

TEST_F(Dedicated, results_come_to_one_trainer_in_the_order_of_samples) {
  Prefetcher steps = prefetcher(3);
  while (const std::optional<Step> step = steps.next()) {
    const RaggedBatch mine = service_.collect(*step, tokens_of(*step, "back"));
    EXPECT_EQ(mine.size(), 0);
    const int root = static_cast<int>(step->index) % trainers().size();
    const RaggedBatch all = service_.collect_on(*step, tokens_of(*step, "back"), root);
    const Step same = expected(step->index);
    const RaggedBatch wanted = embedded_.collect_on(same, tokens_of(same, "back"), root);
    EXPECT_EQ(all.size(), trainers().rank() == root ? step->num_samples : 0);
    EXPECT_TRUE(std::ranges::equal(all.samples(), wanted.samples()));
    if (trainers().rank() != root) continue;
    EXPECT_EQ(all.at("back"), wanted.at("back"));
  }
}

TEST_F(Dedicated, steps_are_passed_over_again_with_what_was_collected_of_them) {
  for (const char* profile : {"update", "aligned"}) {
    const std::int64_t index = std::string(profile) == "update" ? 0 : 1;
    Step step = next_step("log_prob");
    const RaggedBatch back = service_.collect(step, tokens_of(step, "back"));
    step = service_.step(std::move(step), profile, back);
    Step same = expected(index, "log_prob");
    const RaggedBatch wanted = embedded_.collect(same, tokens_of(same, "back"));
    same = embedded_.step(std::move(same), profile, wanted);
    expect_equal(step, same);
    ASSERT_NE(step.micro_batches[0].tensors.find("back"), nullptr);
    // What was added is of the samples from now on, also where they are sent again.
    step = service_.step(std::move(step), "aligned");
    same = embedded_.step(std::move(same), "aligned");
    expect_equal(step, same);
    ASSERT_NE(step.micro_batches[0].tensors.find("back"), nullptr);
  }
}

TEST_F(Dedicated, what_was_collected_for_some_profiles_stays_with_data_ranks_until_their_passes) {
  Step step = next_step("log_prob");
  step = service_.step(std::move(step), "aligned", service_.collect(step, tokens_of(step, "for_updates")));
  EXPECT_EQ(step.micro_batches[0].tensors.find("for_updates"), nullptr);
  step = service_.step(std::move(step), "update");
  const PackedMicroBatch& tensors = std::as_const(step.micro_batches[0].tensors);
  ASSERT_NE(tensors.find("for_updates"), nullptr);
  EXPECT_TRUE(std::ranges::equal(tensors.find("for_updates")->values<std::int64_t>(),
                                 tensors.find("input_ids")->values<std::int64_t>()));
}

TEST_F(Dedicated, steps_that_a_prefetcher_made_are_passed_over_and_collected_after_it_has_gone) {
  std::vector<Step> held;
  {
    Prefetcher steps = prefetcher(4);
    while (std::optional<Step> step = steps.next()) held.push_back(*std::move(step));
  }
  std::ranges::reverse(held);
  for (Step& step : held) {
    const std::int64_t samples = step.num_samples;
    const Step later = service_.step(std::move(step), "aligned");
    const RaggedBatch all = service_.collect_on(later, tokens_of(later, "back"), 0);
    EXPECT_EQ(all.size(), is_first() ? samples : 0);
  }
}

TEST_F(Dedicated, what_was_not_collected_is_not_added_and_the_service_goes_on) {
  Step step = next_step("log_prob");
  RaggedBatch added{std::vector<SampleShape>{}};
  added.add_field({"back", DType::int64, FieldKind::token, {}});
  Step copy = step;
  expect_input_error([&] { static_cast<void>(service_.step(std::move(copy), "update", added)); },
                     "for a step from which nothing was collected");
  static_cast<void>(service_.collect(step, tokens_of(step, "other")));
  copy = step;
  expect_input_error([&] { static_cast<void>(service_.step(std::move(copy), "update", added)); },
                     "added field 'back': was not collected");
  static_cast<void>(service_.collect(step, tokens_of(step, "back")));
  step = service_.step(std::move(step), "update", added);
  EXPECT_NE(step.micro_batches[0].tensors.find("back"), nullptr);
}

TEST_F(Dedicated, trainers_that_bring_samples_are_refused_and_go_on) {
  const auto bring = [&] {
    RaggedBatch mine;
    if (is_first()) mine = testing_support::made_up_batch({testing_support::made_up_shape(1)}, {});
    return mine;
  };
  expect_input_error([&] { static_cast<void>(service_.step(bring)); }, "brought by a trainer");
  expect_equal(next_step(), expected(0));
}

TEST_F(Dedicated, errors_of_one_trainer_are_thrown_on_all_and_the_next_step_comes) {
  const auto fail = [&]() -> RaggedBatch {
    if (is_first()) throw InputError("here", "of the trainer's own");
    return {};
  };
  expect_input_error([&] { static_cast<void>(service_.step(fail)); }, "of the trainer's own");
  expect_equal(next_step(), expected(0));
}

TEST_F(Dedicated, trainers_that_do_different_things_all_hear_of_it_and_go_on) {
  if (trainers().size() < 2) GTEST_SKIP() << "takes two trainers";
  const Step step = next_step();
  const Step other = next_step();
  const Step& mine = is_first() ? step : other;
  expect_input_error([&] { static_cast<void>(service_.collect(mine, tokens_of(mine, "back"))); },
                     "ranks do different things");
  EXPECT_EQ(service_.collect_on(step, tokens_of(step, "back"), 0).size(), is_first() ? step.num_samples : 0);
}

TEST_F(Dedicated, steps_that_were_moved_from_are_refused) {
  Step step = next_step("log_prob");
  const Step gone = service_.step(std::move(step), "update");
  expect_input_error([&] { static_cast<void>(service_.collect(step, StepResults(0))); }, "moved from");
  EXPECT_FALSE(gone.micro_batches.empty());
}

TEST_F(Dedicated, steps_that_trainers_made_by_themselves_are_refused_and_the_service_goes_on) {
  const Step own = expected(0, "log_prob");
  Step copy = own;
  expect_input_error([&] { static_cast<void>(service_.collect(own, tokens_of(own, "back"))); }, "step");
  expect_input_error([&] { static_cast<void>(service_.step(std::move(copy), "update")); }, "step");
  expect_equal(next_step(), expected(0));
}

TEST_F(Dedicated, steps_beyond_the_stream_are_errors_that_name_its_number) {
  ServiceState end = service_.state();
  end.next_step = stream_.num_steps();
  Prefetcher steps = prefetcher(stream_.num_steps() + 2, end);
  const std::string text = "is none of the stream, which has " + std::to_string(stream_.num_steps());
  for (int extra = 0; extra < 2; ++extra) expect_input_error([&] { static_cast<void>(steps.next()); }, text);
  EXPECT_FALSE(steps.next().has_value());
}

TEST_F(Dedicated, other_configurations_and_communicators_are_refused) {
  Config other = config_;
  other.micro_batch.max_tokens = 4096;
  EXPECT_THROW(DataService(world_, other), ConfigError);
  other = config_;
  other.mesh.data_ranks = data_ranks + 1;
  EXPECT_THROW(DataService(world_, other), ConfigError);
  EXPECT_THROW(DataService(trainers(), config_), InputError);
  EXPECT_THROW(Prefetcher(world_, config_, -1, [](std::int64_t) { return RaggedBatch(); }), InputError);
  expect_equal(next_step(), expected(0));
}

TEST_F(Dedicated, errors_number_trainers_first_then_data_ranks) {
  Config other = config_;
  other.batch.seed = 7;
  try {
    const DataService service(world_, other);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("batch.seed: is 7 on rank 0 and 1 on rank " + std::to_string(trainers().size())));
  }
}

TEST_F(Dedicated, streams_before_the_newest_are_not_described) {
  ServiceState state;
  SampleStream newest(world_, config_, {}, 1);
  expect_input_error([&] { stream_.describe(state); }, "stream: cannot be described");
  newest.describe(state);
  EXPECT_EQ(state.sources.size(), 1U);
}

TEST_F(Dedicated, data_ranks_tell_how_long_outliers_waited) {
  for (std::int64_t step = 0; step < stream_.num_steps(); ++step) expect_equal(next_step(), expected(step));
  const DelayFigures figures = stream_.delayed();
  EXPECT_EQ(figures, embedded_stream_.delayed());
  EXPECT_EQ(figures.steps, stream_.num_steps());
  EXPECT_GT(figures.samples, 0);
  SampleStream newest(world_, config_, {}, 1);
  expect_input_error([&] { static_cast<void>(stream_.delayed()); }, "stream: cannot be told of");
}

// What data ranks keep must not grow with the prefetchers that have gone: serve_in_bounds() looks at them.
TEST_F(Dedicated, prefetchers_come_and_go_a_hundred_times) {
  for (int t = 0; t < 100; ++t) {
    Prefetcher steps = prefetcher(4);
    expect_equal(*steps.next(), expected(0));
  }
}

/// The most memory that this process has had, in bytes.
std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} << 10;
}

/// Serves the tests. Returns whether that took the memory of some steps and not of all that were made.
bool serve_in_bounds(const boost::mpi::communicator& world) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // sanitizers keep what is freed
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
#else
  constexpr std::int64_t most = 32 << 20;
#endif
  const std::int64_t before = peak_memory();
  serve(world, config_of(data_ranks));
  const std::int64_t grown = peak_memory() - before;
  if (grown <= most) return true;
  std::cerr << "data rank " << world.rank() << " took " << (grown >> 20) << " MiB\n";
  return false;
}

/// Dismisses the data ranks under a service and a stream. Returns whether both then say so, where they would
/// wait for ever.
bool calls_after_dismissal_are_refused(const boost::mpi::communicator& world) {
  DataService service(world, config_of(data_ranks));
  SampleStream stream(world, config_of(data_ranks));
  dismiss_data_ranks();
  const auto is_refused = [](const std::function<void()>& work) {
    try {
      work();
    } catch (const InputError& error) {
      return std::string_view(error.what()).find("data ranks: were dismissed") != std::string_view::npos;
    }
    return false;
  };
  ServiceState state;
  return is_refused([&] { static_cast<void>(service.step([&] { return stream.read(0); })); }) &&
         is_refused([&] { stream.describe(state); });
}

}  // namespace
}  // namespace evenkeel

// A program of its own, in which the first ranks serve and the others test.
int main(int argc, char** argv) {
  using namespace evenkeel;
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc));
  data_ranks = static_cast<int>(test::number_after(arguments, "--data-ranks", 1));
  prefetch = test::number_after(arguments, "--prefetch", 1);
  const boost::mpi::environment environment(argc, argv, test::wanted_threads(arguments));
  testing::InitGoogleTest(&argc, argv);
  const boost::mpi::communicator world;
  if (world.rank() < data_ranks) return serve_in_bounds(world) ? 0 : 1;
  const bool passed = test::run_tests_on_rank(world.rank(), world.size(), data_ranks);
  if (calls_after_dismissal_are_refused(world)) return passed ? 0 : 1;
  std::cerr << "rank " << world.rank() << ": a call after the data ranks were dismissed is not refused\n";
  return 1;
}
