#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/equal_steps.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::equal_on_ranks_test {
namespace {

using test::expect_equal;
using testing::HasSubstr;
using testing_support::made_up_batch;
using testing_support::made_up_fields;
using testing_support::made_up_shape;

RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 31; ++id) {
    if (id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  return made_up_batch(std::move(shapes), made_up_fields());
}

/// Returns the first rank (unless the others are compared with it), a middle one and the last one.
std::set<int> odd_ranks(const boost::mpi::communicator& world) {
  if (world.size() == 1) return {};  // there is no other rank to differ from
  return {0, world.size() / 2, world.size() - 1};
}

/// Returns the first rank that differs from rank 0 if `odd` differs from all others.
int first_other(int odd) {
  return odd == 0 ? 1 : odd;
}

ErrorReport refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.report();
  }
  return {};
}

TEST(EqualConfigurations, are_required_before_anything_depends_on_them) {
  const boost::mpi::communicator world;
  const auto narrower = [](Config& config) { config.micro_batch.max_tokens = 64; };
  const auto other_order = [](Config& config) { config.mesh.order = RankOrder("pp-dp-cp-tp"); };
  const auto other_mesh = [&](Config& config) { config.mesh.tp = 1 << 20; };  // more than all ranks
  const auto more_mini_batches = [](Config& config) { config.mini_batches.count = 3; };
  const auto other_path = [](Config& config) { config.exchange.path = ExchangePath::alltoallv; };
  const auto prefetched = [](Config& config) { config.exchange.prefetch = 4; };
  const auto no_word = [](Config& config) { config.balance.preset = static_cast<Preset>(99); };
  const auto more_profiles = [](Config& config) { config.profiles["a"] = config.profile({}); };
  using Change = std::function<void(Config&)>;
  for (const auto& [key, change] : {std::pair<const char*, Change>{"micro_batch.max_tokens", narrower},
                                    {"mesh.order", other_order},
                                    {"mesh.tp", other_mesh},
                                    {"batch.mini_batches", more_mini_batches},
                                    {"exchange.path", other_path},
                                    {"exchange.prefetch", prefetched},
                                    {"balance.preset", no_word},
                                    {"profiles.a.balance.algorithm", more_profiles}}) {
    for (const int odd : odd_ranks(world)) {
      Config config;
      if (world.rank() == odd) change(config);
      const ErrorReport report = refusal([&] { const DataService service(world, config); });
      EXPECT_EQ(report.kind, ErrorKind::config) << key;
      EXPECT_EQ(report.where, key);
      EXPECT_EQ(report.rank, std::string(key) == "balance.preset" ? odd : first_other(odd));
    }
  }
  DataService service(world, Config{});
  EXPECT_GT(service.step(share_of(world)).micro_batches.size(), 0U);
}

TEST(EqualConfigurations, a_difference_is_reported_with_both_values_and_ranks) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // there is no other rank to differ from
  Config config;
  config.micro_batch.max_tokens = 128;
  if (world.rank() == 1) config.micro_batch.max_tokens = 64;
  const ErrorReport one = refusal([&] { const DataService service(world, config); });
  EXPECT_EQ(one.message, "is 128 on rank 0 and 64 on rank 1");
  EXPECT_EQ(one.hint, "Give every rank the same configuration: read it on one rank and broadcast it");
  if (world.rank() == 1) {
    config.loss.norm_length = 7;
    config.pack.pad_token = 3;
    config.batch.seed = 9;
    config.batch.epochs = 2;
    config.exchange.prefetch = 3;
  }
  const ErrorReport many = refusal([&] { const DataService service(world, config); });
  EXPECT_EQ(many.where, "batch.epochs");
  EXPECT_EQ(
      many.message,
      "is 1 on rank 0 and 2 on rank 1; batch.seed is 1 on rank 0 and 9 on rank 1; "
      "micro_batch.max_tokens is 128 on rank 0 and 64 on rank 1; pack.pad_token is 0 on rank 0 and 3 on "
      "rank 1; and 2 more differ");
}

Config two_profiles() {
  Config config;
  config.micro_batch.max_tokens = 1000;
  config.profiles["log_prob"] = config.profile({});
  config.profiles["measured"] = config.profile({});
  config.profiles["measured"].balance.measured = MeasuredCost{};
  config.profiles["update"] = config.profile({});
  config.profiles["update"].micro_batch.max_tokens = 200;
  return config;
}

/// Lets one rank make a different call than all others. All of them must get an error that names both calls,
/// and the service must remain usable.
void expect_error_on_all(const std::function<void(DataService&, const Step&)>& usual,
                         const std::function<void(DataService&, const Step&)>& other,
                         const std::vector<std::string>& expected) {
  const boost::mpi::communicator world;
  for (const int odd : odd_ranks(world)) {
    DataService service(world, two_profiles());
    const Step before = service.step(share_of(world), "measured");
    const ErrorReport report = refusal([&] { (world.rank() == odd ? other : usual)(service, before); });
    EXPECT_EQ(report.kind, ErrorKind::input);
    EXPECT_THAT(report.message, HasSubstr("ranks make different calls"));
    EXPECT_THAT(report.message, HasSubstr("rank " + std::to_string(first_other(odd)) + " "));
    for (const std::string& part : expected) EXPECT_THAT(report.message, HasSubstr(part));
    DataService fresh(world, two_profiles());
    (void)fresh.step(share_of(world), "measured");
    expect_equal(service.step(share_of(world), "measured"), fresh.step(share_of(world), "measured"));
    expect_equal(service.step(before, "update"), fresh.step(before, "update"));
  }
}

TEST(EqualCalls, different_profiles_are_both_reported) {
  const auto step = [](const char* profile) {
    return [=](DataService& service, const Step&) {
      (void)service.step(share_of(service.mesh().world()), profile);
    };
  };
  expect_error_on_all(step("log_prob"), step("update"),
                      {"makes step 1 under profile 'log_prob'", "makes step 1 under profile 'update'"});
  expect_error_on_all(step("measured"), step(""), {"makes step 1 under profile 'measured'", "makes step 1"});
}

TEST(EqualCalls, different_steps_are_reported_with_both_numbers) {
  const auto pass = [](const char* profile) {
    return [=](DataService& service, const Step& before) { (void)service.step(before, profile); };
  };
  const auto over_another = [](DataService& service, const Step& before) {
    Step other = before;
    other.index = 7;
    (void)service.step(other, "update");
  };
  const auto over_another_pass = [](DataService& service, const Step& before) {
    Step other = before;
    other.profile = "log_prob";
    (void)service.step(other, "update");
  };
  expect_error_on_all(pass("update"), pass("log_prob"),
                      {"under profile 'update'", "under profile 'log_prob'"});
  expect_error_on_all(pass("update"), pass("measured"),
                      {"under profile 'update'", "under profile 'measured'"});
  expect_error_on_all(pass("update"), over_another, {"passes over step 0 ", "passes over step 7 "});
  expect_error_on_all(pass("update"), over_another_pass,
                      {"step 0 (profile 'measured')", "step 0 (profile 'log_prob')"});
}

TEST(EqualCalls, new_samples_on_one_rank_and_a_step_on_others_are_reported) {
  const auto begin = [](DataService& service, const Step&) {
    (void)service.step(share_of(service.mesh().world()), "update");
  };
  const auto pass = [](DataService& service, const Step& before) { (void)service.step(before, "update"); };
  expect_error_on_all(begin, pass, {"makes step 1 ", "passes over step 0 "});
  expect_error_on_all(pass, begin, {"makes step 1 ", "passes over step 0 "});
}

TEST(EqualCalls, a_profile_that_one_rank_misspells_is_everybodys_error) {
  const boost::mpi::communicator world;
  for (const int odd : odd_ranks(world)) {
    DataService service(world, two_profiles());
    const char* const profile = world.rank() == odd ? "updat" : "update";
    EXPECT_THROW((void)service.step(share_of(world), profile), ConfigError);
    EXPECT_EQ(service.step(share_of(world), "update").index, 0);
  }
}

TEST(EqualCalls, an_unknown_profile_is_an_error_on_every_rank) {
  const boost::mpi::communicator world;
  DataService service(world, two_profiles());
  const Step before = service.step(share_of(world), "update");
  EXPECT_THROW((void)service.step(share_of(world), "updat"), ConfigError);
  EXPECT_THROW((void)service.step(before, "updat"), ConfigError);
  EXPECT_EQ(service.step(share_of(world), "update").index, 1);
}

}  // namespace
}  // namespace evenkeel::equal_on_ranks_test
