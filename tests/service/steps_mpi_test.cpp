
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/environment.hpp>
#include <boost/mpi/operations.hpp>
#include <chrono>
#include <fstream>

#include "evenkeel/base/error.hpp"
#include "service/equal_steps.hpp"
#include "service/step_record.hpp"
#include "support/made_up_batch.hpp"
#include "support/service_ahead.hpp"

namespace evenkeel::steps_test {
namespace {

using test::expect_equal;
using testing_support::made_up_batch;
using testing_support::made_up_fields;
using testing_support::made_up_shape;

constexpr std::int64_t steps = 6;
constexpr std::int64_t cap = 200;

/// Returns different samples, and a different number of them, in every step; some ranks supply none.
RaggedBatch share_of(const boost::mpi::communicator& comm, std::int64_t step) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 100 * step; id < 100 * step + 9 + 7 * step; ++id) {
    if (id * id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  return made_up_batch(std::move(shapes), made_up_fields());
}

Config config_of_depth(std::int64_t depth) {
  Config config;
  config.exchange.prefetch = depth;
  config.micro_batch.max_tokens = cap;
  return config;
}

std::vector<Config> configs_for(int ranks) {
  std::vector<Config> configs;
  for (const std::int64_t depth : {0, 1, 3}) {
    for (const auto& [tp, cp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 7}}) {
      if (ranks % (tp * cp) != 0) continue;
      Config& config = configs.emplace_back(config_of_depth(depth));
      config.mesh.tp = tp;
      config.mesh.cp = cp;
      config.mini_batches.count = 2;
    }
  }
  return configs;
}

/// Desynchronizes ranks: each one is delayed by a different time, which changes with every step.
void lag(const boost::mpi::communicator& comm, std::int64_t step) {
  const auto rank = static_cast<std::uint64_t>(comm.rank());
  const auto late = testing_support::mix(rank, static_cast<std::uint64_t>(step)) % 3;
  std::this_thread::sleep_for(std::chrono::milliseconds(late));
}

TEST(StepsAhead, works_in_the_background_if_all_threads_may_call_mpi) {
  const boost::mpi::communicator world;
  const bool multiple = boost::mpi::environment::thread_level() == boost::mpi::threading::multiple;
  for (const std::int64_t depth : {0, 1, 3}) {
    const test::ServiceAhead prefetcher(world, config_of_depth(depth), steps,
                                        [&](std::int64_t t) { return share_of(world, t); });
    EXPECT_EQ(prefetcher.in_background(), multiple && depth > 0);
  }
}

TEST(StepsAhead, delivers_the_steps_of_a_service_at_every_depth) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    DataService service(world, config);
    test::ServiceAhead prefetcher(world, config, steps, [&](std::int64_t t) { return share_of(world, t); });
    for (std::int64_t t = 0; t < steps; ++t) {
      lag(world, t);
      const std::optional<Step> step = prefetcher.next();
      ASSERT_TRUE(step.has_value());
      EXPECT_EQ(step->index, t);
      EXPECT_GE(step->waited_seconds, 0);
      expect_equal(*step, service.step(share_of(world, t)));
    }
    EXPECT_FALSE(prefetcher.next().has_value());
    EXPECT_FALSE(prefetcher.next().has_value());
  }
}

TEST(StepsAhead, delivers_the_same_steps_if_the_trainer_calls_progress) {
  const boost::mpi::communicator world;
  for (const std::int64_t depth : {0, 1, 3}) {
    const Config config = config_of_depth(depth);
    DataService service(world, config);
    test::ServiceAhead prefetcher(world, config, steps, [&](std::int64_t t) { return share_of(world, t); });
    for (std::int64_t t = 0; t < steps; ++t) {
      const std::optional<Step> step = prefetcher.next();
      prefetcher.progress();
      prefetcher.progress();
      expect_equal(step.value(), service.step(share_of(world, t)));
    }
    EXPECT_FALSE(prefetcher.progress());
  }
}

TEST(StepsAhead, starts_no_more_steps_than_its_depth) {
  const boost::mpi::communicator world;
  for (const std::int64_t depth : {0, 1, 3}) {
    std::atomic<std::int64_t> begun = 0;
    test::ServiceAhead prefetcher(world, config_of_depth(depth), steps, [&](std::int64_t t) {
      ++begun;
      return share_of(world, t);
    });
    for (std::int64_t taken = 0; taken <= steps; ++taken) {
      const std::int64_t most = std::min(taken + depth, steps);
      while (prefetcher.progress()) EXPECT_LE(begun, most);
      while (begun < most) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(begun, most);
      EXPECT_EQ(prefetcher.next().has_value(), taken < steps);
    }
  }
}

TEST(StepsAhead, throws_a_readers_error_at_its_step_on_every_rank_and_continues) {
  const boost::mpi::communicator world;
  for (const std::int64_t depth : {0, 1, 3}) {
    for (const int bad : {0, world.size() / 2, world.size() - 1}) {
      const auto read = [&](std::int64_t t) {
        if (t % 3 == 1 && world.rank() == bad)
          throw InputError("rollouts.jsonl:" + std::to_string(t), "malformed");
        return share_of(world, t);
      };
      DataService service(world, config_of_depth(depth));
      test::ServiceAhead prefetcher(world, config_of_depth(depth), steps, read);
      for (std::int64_t t = 0; t < steps; ++t) {
        if (t % 3 != 1) {
          expect_equal(prefetcher.next().value(), service.step(share_of(world, t)));
          continue;
        }
        try {
          (void)prefetcher.next();
          FAIL() << "step " << t << " failed on rank " << bad;
        } catch (const InputError& error) {
          EXPECT_EQ(error.report().where, "rollouts.jsonl:" + std::to_string(t));
          EXPECT_EQ(error.report().rank, bad);
        }
      }
      EXPECT_FALSE(prefetcher.next().has_value());
    }
  }
}

TEST(StepsAhead, throws_what_planning_finds_with_its_type) {
  const boost::mpi::communicator world;
  test::ServiceAhead prefetcher(world, config_of_depth(1), 3, [&](std::int64_t t) {
    return made_up_batch({{SampleId{world.rank()}, 0, 1, t == 1 ? cap : 5}}, {});
  });
  EXPECT_TRUE(prefetcher.next().has_value());
  EXPECT_THROW((void)prefetcher.next(), LimitError);
  EXPECT_TRUE(prefetcher.next().has_value());
}

TEST(StepsAhead, makes_no_more_steps_once_mpi_has_failed) {
  const boost::mpi::communicator world;
  for (const std::int64_t depth : {0, 1, 3}) {
    test::ServiceAhead prefetcher(world, config_of_depth(depth), steps, [&](std::int64_t t) {
      EXPECT_LE(t, 1);
      if (t == 1) throw MpiError("MPI_Recv", "failed");
      return share_of(world, t);
    });
    EXPECT_TRUE(prefetcher.next().has_value());
    EXPECT_THROW((void)prefetcher.next(), MpiError);
    EXPECT_THROW((void)prefetcher.next(), MpiError);
    EXPECT_FALSE(prefetcher.progress());
  }
}

TEST(StepsAhead, can_be_destroyed_after_any_step) {
  const boost::mpi::communicator world;
  for (const std::int64_t depth : {0, 1, 3}) {
    for (std::int64_t taken = 0; taken <= steps; ++taken) {
      for (const bool at_once : {true, false}) {
        test::ServiceAhead prefetcher(world, config_of_depth(depth), steps, [&](std::int64_t t) {
          lag(world, 10 + t);
          return share_of(world, t);
        });
        for (std::int64_t t = 0; t < taken; ++t) EXPECT_TRUE(prefetcher.next().has_value());
        if (!at_once) lag(world, taken);
      }
      EXPECT_EQ(boost::mpi::all_reduce(world, taken, boost::mpi::maximum<std::int64_t>()), taken);
    }
  }
}

TEST(StepsAhead, can_be_destroyed_while_a_failed_step_waits) {
  const boost::mpi::communicator world;
  for (int taken = 0; taken < 3; ++taken) {
    test::ServiceAhead prefetcher(world, config_of_depth(3), steps, [&](std::int64_t t) {
      if (t > 0) throw InputError("", "nothing there");
      return share_of(world, t);
    });
    if (taken > 0) {
      EXPECT_TRUE(prefetcher.next().has_value());
    }
    if (taken > 1) {
      EXPECT_THROW((void)prefetcher.next(), InputError);
    }
  }
}

// Passes over a step, the collection of results, and the trainer's own collective calls do not interfere with
// messages of the steps that are made at the same time.
TEST(StepsAhead, does_not_disturb_the_trainers_communication) {
  const boost::mpi::communicator world;
  for (Config config : configs_for(world.size())) {
    config.profiles["update"] = config.profile({});
    config.profiles["update"].micro_batch.max_tokens = cap / 2;
    config.profiles["aligned"] = config.profile({});
    config.profiles["aligned"].pack.align_lcm = 16;
    DataService service(world, config);
    DataService alone(world, config);
    test::ServiceAhead prefetcher(world, config, steps, [&](std::int64_t t) { return share_of(world, t); });
    for (std::int64_t t = 0; t < steps; ++t) {
      const Step step = prefetcher.next().value();
      const Step expected = alone.step(share_of(world, t));
      for (const char* profile : {"update", "aligned"}) {
        EXPECT_EQ(boost::mpi::all_reduce(world, 1, std::plus<int>()), world.size());
        expect_equal(service.step(step, profile), alone.step(expected, profile));
      }
      StepResults results(step.micro_batches.size());
      for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
        const auto rows = static_cast<std::size_t>(step.micro_batches[m].tensors.layout.local_rows());
        results.put(m, "entropy", FieldKind::token, std::span<const float>(std::vector<float>(rows, 1.5F)));
      }
      const RaggedBatch home = service.collect(step, results);
      EXPECT_EQ(home.size(), share_of(world, t).size());
    }
  }
}

TEST(StepsAhead, refuses_invalid_settings_at_once) {
  const boost::mpi::communicator world;
  const auto read = [&](std::int64_t t) { return share_of(world, t); };
  EXPECT_THROW(test::ServiceAhead(world, config_of_depth(1), steps, read, "training"), ConfigError);
  Config config = config_of_depth(1);
  config.mesh.dp = world.size() + 1;
  EXPECT_THROW(test::ServiceAhead(world, config, steps, read), MeshError);
}

TEST(StepsAhead, delivers_nothing_for_zero_steps) {
  const boost::mpi::communicator world;
  test::ServiceAhead prefetcher(world, config_of_depth(3), 0, [](std::int64_t) { return RaggedBatch(); });
  EXPECT_FALSE(prefetcher.progress());
  EXPECT_FALSE(prefetcher.next().has_value());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers keep freed memory

std::int64_t resident_bytes() {
  std::int64_t total = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(StepsAhead, keeps_memory_flat_over_2000_steps) {
  const boost::mpi::communicator world;
  if (world.size() > 2) GTEST_SKIP() << "two ranks show it; more take turns on few cores";
  constexpr std::int64_t many = 2000;
  const RaggedBatch mine = share_of(world, 0);
  test::ServiceAhead prefetcher(world, config_of_depth(3), many, [&](std::int64_t) { return mine; });
  std::int64_t after_warm_up = 0;
  for (std::int64_t t = 0; t < many; ++t) {
    ASSERT_TRUE(prefetcher.next().has_value());
    if (t == many / 10) after_warm_up = resident_bytes();
  }
  EXPECT_LT(resident_bytes() - after_warm_up, 20 << 20);
}

#endif

TEST(StepsAhead, balances_later_steps_by_the_times_reported) {
  const boost::mpi::communicator world;
  for (const std::int64_t depth : {0, 1, 3}) {
    Config config = config_of_depth(depth);
    config.balance.measured = MeasuredCost{};
    test::ServiceAhead prefetcher(world, config, steps, [&](std::int64_t t) { return share_of(world, t); });
    std::int64_t reported = 0;
    while (const std::optional<Step> step = prefetcher.next()) {
      EXPECT_EQ(
          boost::mpi::all_reduce(world, step->record->cost.model.linear, boost::mpi::minimum<std::int64_t>()),
          boost::mpi::all_reduce(world, step->record->cost.model.linear,
                                 boost::mpi::maximum<std::int64_t>()));
      EXPECT_LE(step->record->cost.observations, reported);
      for (std::size_t m = 0; m < step->record->plan.micro_batches.size(); ++m) {
        const MicroBatchPlan& plan = step->record->plan.micro_batches[m];
        prefetcher.report_time(*step, m, 1e-3 + 1e-5 * static_cast<double>(plan.tokens));
        reported += plan.empty() ? 0 : world.size();
      }
      reported = boost::mpi::all_reduce(world, reported, boost::mpi::maximum<std::int64_t>());
    }
    EXPECT_GT(reported, 0);
  }
}

TEST(StepsAhead, reports_different_numbers_of_steps_or_profiles) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // there is no other rank to differ from
  for (const std::int64_t depth : {0, 1}) {
    Config config = config_of_depth(depth);
    config.profiles["update"] = config.profile({});
    const bool odd = world.rank() == world.size() - 1;
    const auto read = [&](std::int64_t step) { return share_of(world, step); };
    const auto refusal = [&](std::int64_t count, const std::string& profile) {
      try {
        const test::ServiceAhead prefetcher(world, config, count, read, profile);
      } catch (const ConfigError& error) {
        return error.report();
      }
      return ErrorReport{};
    };
    const ErrorReport more = refusal(odd ? steps + 1 : steps, "");
    EXPECT_EQ(more.where, "steps");
    EXPECT_EQ(more.message, "is 6 on rank 0 and 7 on rank " + std::to_string(world.size() - 1));
    const ErrorReport other = refusal(steps, odd ? "update" : "");
    EXPECT_EQ(other.where, "profile");
    EXPECT_EQ(other.message, "is empty on rank 0 and update on rank " + std::to_string(world.size() - 1));
    if (odd) config.exchange.prefetch = 2;
    EXPECT_EQ(refusal(steps, "").where, "exchange.prefetch");
  }
}

// Otherwise, the thread would wait for space forever.
TEST(StepsAhead, refuses_a_negative_depth) {
  const boost::mpi::communicator world;
  const auto read = [&](std::int64_t step) { return share_of(world, step); };
  EXPECT_THROW(test::ServiceAhead(world, config_of_depth(-1), steps, read), ConfigError);
}

}  // namespace
}  // namespace evenkeel::steps_test
