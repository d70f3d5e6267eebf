#include "buffer/redis/redis_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/redis_server.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::groups_of;
using testing_support::no_redis;
using testing_support::redis_that_is_durable;
using testing_support::RedisServer;
using testing_support::report_of;

constexpr const char* lease_key = "evenkeel:{test}:lease";
constexpr const char* bodies_key = "evenkeel:{test}:bodies";
constexpr LeaseTimes short_times{1500ms, 100ms};

std::string sample_in(const Store& store, std::int64_t number) {
  std::string body;
  store.read_body(number, [&](std::string_view bytes) { body = bytes; });
  return body;
}

StoreChange with_body(std::int64_t number, std::string_view bytes) {
  StoreChange change;
  change.bodies.push_back({number, bytes});
  change.events.emplace_back(number, "came");
  return change;
}

class RedisBuffer : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_redis(); !why.empty()) GTEST_SKIP() << why;
  }
  void use(std::vector<std::string> options = {}) {
    redis_ = std::make_unique<RedisServer>(std::move(options));
    lease_ = std::make_unique<Lease>(redis_->address(), "test", "http://here");
    settings_ = {.address = redis_->address(), .name = "test", .capacity = 64 << 20, .patience = 2s};
    settings_.log = [this](const std::string& what) { said_.push_back(what); };
  }
  [[nodiscard]] std::unique_ptr<Store> open() const {
    return open_redis_store(settings_, lease_->state().value);
  }
  void await_replica(const RedisServer& replica) const {
    while (redis_->connect()->info()["connected_slaves"] != "1" ||
           replica.connect()->info()["master_link_status"] != "up")
      std::this_thread::sleep_for(10ms);
  }
  /// Waits until the replica has as many commits as its master.
  void await_commits(const RedisServer& replica) const {
    const auto commits = [](const RedisServer& server) {
      return std::string(server.call({"HGET", "evenkeel:{test}:about", "commits"}).text());
    };
    while (commits(replica) != commits(*redis_)) std::this_thread::sleep_for(10ms);
  }
  [[nodiscard]] std::string refusal() const {
    return to_string(report_of<IoError>([&] { return open(); }));
  }

  std::unique_ptr<RedisServer> redis_;
  std::unique_ptr<Lease> lease_;
  RedisSettings settings_;
  std::vector<std::string> said_;
};

TEST_F(RedisBuffer, keeps_all_commits_after_redis_is_killed) {
  use(redis_that_is_durable);
  const auto store = open();
  StoreChange change = with_body(1, "one");
  change.seen = {{{1, 2}, 5}};
  change.notes = {{"totals", "{}"}};
  store->commit(change);
  redis_->kill();
  EXPECT_THROW(store->commit(with_body(2, "two")), IoError);
  EXPECT_THROW(store->commit(with_body(2, "two")), IoError);
  EXPECT_THROW(store->refresh(), IoError);
  redis_->start();
  EXPECT_EQ(sample_in(*store, 1), "one");
  store->refresh();
  EXPECT_THAT(store->seen_slots(), ElementsAre(stream::SeenSlot{{1, 2}, 5}));
  EXPECT_EQ(store->note("totals"), "{}");
  store->commit(with_body(2, "two"));
  EXPECT_EQ(sample_in(*store, 2), "two");
  EXPECT_TRUE(said_.empty());
}

TEST_F(RedisBuffer, with_samples_is_refused_by_a_store_of_values) {
  use();
  Buffer(open(), groups_of(2)).stop();
  const auto store = open();
  check_or_record_content(*store, StoreContent::stream);
  EXPECT_THAT(report_of<InputError>([&] { check_or_record_content(*store, StoreContent::values); }).message,
              HasSubstr("holds samples of a stream, not values"));
}

TEST_F(RedisBuffer, with_values_is_refused_by_a_buffer) {
  use();
  check_or_record_content(*open(), StoreContent::values);
  const auto store = open();
  check_or_record_content(*store, StoreContent::values);
  EXPECT_THAT(report_of<InputError>([&] { check_or_record_content(*store, StoreContent::stream); }).message,
              HasSubstr("holds values"));
}

TEST_F(RedisBuffer, is_written_only_by_the_holder_of_the_lease) {
  use();
  const auto store = open();
  redis_->call({"SET", lease_key, "another http://there"});
  EXPECT_THAT(report_of<IoError>([&] { store->commit(with_body(1, "one")); }).message,
              HasSubstr("no longer belongs to this server"));
  EXPECT_THROW(store->refresh(), IoError);
  EXPECT_THROW(open(), IoError);
  EXPECT_EQ(redis_->call({"EXISTS", bodies_key}).number(), 0) << "nothing was written";
}

TEST_F(RedisBuffer, refuses_a_commit_that_is_based_on_outdated_content) {
  use();
  const auto store = open();
  const auto late = open();
  store->commit(with_body(1, "one"));
  EXPECT_THAT(report_of<IoError>([&] { late->commit(with_body(1, "late")); }).message,
              HasSubstr("changes that this server does not know"));
  EXPECT_EQ(sample_in(*store, 1), "one");
  late->refresh();
  late->commit(with_body(2, "late"));
  EXPECT_EQ(sample_in(*store, 2), "late");
}

TEST_F(RedisBuffer, separates_buffers_with_different_names) {
  use();
  const auto store = open();
  store->commit(with_body(1, "one"));
  const Lease lease(redis_->address(), "other", "http://here");
  settings_.name = "other";
  const auto other = open_redis_store(settings_, lease.state().value);
  EXPECT_THROW(sample_in(*other, 1), InputError);
  settings_.name = "a}b";
  EXPECT_THROW(open(), ConfigError);
}

TEST_F(RedisBuffer, reports_damaged_records_and_never_returns_them) {
  use();
  const auto store = open();
  store->commit(with_body(1, "one"));
  store->commit(with_body(2, "two"));
  redis_->call({"HSET", bodies_key, "2", redis_->call({"HGET", bodies_key, "1"}).text()});
  EXPECT_THAT(report_of<InputError>([&] { sample_in(*store, 2); }).message,
              HasSubstr("sample 2 is damaged: a record of 7 bytes"));
  redis_->call({"HSET", "evenkeel:{test}:events", "2", "????came"});
  EXPECT_THAT(
      report_of<InputError>([&] { store->read_events([](std::int64_t, std::string_view) {}); }).message,
      HasSubstr("event 2"));
  redis_->call({"HSET", "evenkeel:{test}:seen", "short", "?"});
  EXPECT_THROW(static_cast<void>(store->seen_slots()), InputError);
  redis_->call({"HSET", "evenkeel:{test}:notes", "totals", "?"});
  EXPECT_THROW(static_cast<void>(store->note("totals")), InputError);
  redis_->call({"HSET", "evenkeel:{test}:about", "used", "many"});
  EXPECT_THROW(open(), InputError);
}

TEST_F(RedisBuffer, does_not_modify_unknown_keys) {
  use();
  redis_->call({"SET", bodies_key, "years of work"});
  EXPECT_THAT(refusal(), HasSubstr("do not belong to a buffer"));
  redis_->call({"DEL", bodies_key});
  redis_->call({"HSET", "evenkeel:{test}:about", "format", "evenkeel-buffer 4"});
  EXPECT_THAT(refusal(), HasSubstr("'evenkeel-buffer 4'; this program reads and writes 'evenkeel-buffer 3'"));
}

TEST_F(RedisBuffer, is_refused_if_redis_would_evict_samples) {
  use({"--maxmemory-policy", "allkeys-lru"});
  EXPECT_THAT(refusal(), HasSubstr("maxmemory-policy is allkeys-lru"));
}

TEST_F(RedisBuffer, warns_about_samples_that_may_be_lost) {
  use(redis_that_is_durable);
  EXPECT_EQ(open()->data_loss_risk(), "");
  redis_->call({"CONFIG", "SET", "appendfsync", "everysec"});
  EXPECT_THAT(open()->data_loss_risk(), HasSubstr("up to two seconds"));
  redis_->call({"CONFIG", "SET", "appendonly", "no"});
  EXPECT_THAT(open()->data_loss_risk(), HasSubstr("does not keep an append-only file"));
}

TEST_F(RedisBuffer, logs_in_and_reports_a_refused_login) {
  use();
  redis_->call({"CONFIG", "SET", "requirepass", "secret"});
  EXPECT_THAT(report_of<ConfigError>([&] { return open(); }).message, HasSubstr("refuses access"));
  settings_.address.password = "wrong";
  EXPECT_THROW(open(), ConfigError);
  settings_.address.password = "secret";
  open()->commit(with_body(1, "one"));
}

TEST_F(RedisBuffer, accepts_removals_when_redis_is_out_of_memory) {
  use();
  const auto store = open();
  const std::string body(1 << 20, 'x');
  redis_->call({"CONFIG", "SET", "maxmemory", "8mb"});
  std::int64_t number = 0;
  EXPECT_THROW(
      while (number < 100) {
        store->commit(with_body(number + 1, body));
        ++number;
      },
      LimitError);
  EXPECT_GT(number, 1);
  EXPECT_THROW(sample_in(*store, number + 1), InputError) << "nothing of it is there";
  StoreChange small;
  small.events.emplace_back(number + 1, "a step was formed");
  store->commit(small);
  StoreChange trained;
  for (std::int64_t old = 1; old <= number; ++old) trained.erased.push_back(old);
  store->commit(trained);
  EXPECT_EQ(store->bytes_in_use(), store->cost_of_event(std::ssize(small.events[0].second)));
  store->commit(with_body(number + 2, body));
  EXPECT_EQ(sample_in(*store, number + 2), body);
}

TEST_F(RedisBuffer, counts_the_same_bytes_for_a_sample_as_it_reserves) {
  use();
  const auto store = open();
  std::int64_t number = 0;
  for (const std::int64_t bytes : {0, 1, 150, 1200, 5000}) {
    const std::string body(static_cast<std::size_t>(2 * bytes), 'x');
    StoreChange change = with_body(++number, body);
    change.events[0].second = std::string(static_cast<std::size_t>(bytes), 'e');
    const std::int64_t before = store->bytes_in_use();
    store->commit(change);
    EXPECT_EQ(store->bytes_in_use() - before, store->cost_of(2 * bytes) + store->cost_of_event(bytes));
  }
}

TEST_F(RedisBuffer, counts_the_bytes_that_redis_uses) {
  use();
  const auto store = open();
  // Does not count what scripts and connections leave for later ones, which Redis 8 includes.
  const auto memory = [&] {
    const auto redis = redis_->connect();
    redis->call({"SCRIPT", "FLUSH", "SYNC"});
    auto info = redis->info();
    return std::stoll(info["used_memory"]) - std::stoll(info["mem_clients_normal"]);
  };
  const auto before = memory();
  std::int64_t number = 0;
  const auto expect_near = [&](std::int64_t counted) {
    const auto taken = memory() - before;
    EXPECT_LE(taken, counted * 21 / 20);
    EXPECT_GE(taken, counted * 9 / 10);
  };
  for (int size = 1; size < 300'000; size = size * 9 / 8 + 1) {
    const std::string body(static_cast<std::size_t>(size), 'x');
    for (int i = 0; i < 3; ++i) {
      StoreChange change = with_body(++number, body);
      change.events[0].second = std::string(150, 'e');
      store->commit(change);
    }
  }
  // Does not count the memory that events use for keys.
  const auto bytes_in_use = [&] {
    return store->bytes_in_use() - number * (store->cost_of_event(0) - store->cost_of(0));
  };
  expect_near(bytes_in_use());
  for (int size = 1; size < 1400; ++size) {
    StoreChange event;
    event.events.emplace_back(++number, std::string(static_cast<std::size_t>(size), 'e'));
    store->commit(event);
  }
  expect_near(bytes_in_use());
  while (number > 0) {
    StoreChange over;
    over.erased.push_back(number--);
    for (const std::uint64_t slot : {1, 2, 3, 4})
      over.seen.push_back({{static_cast<std::uint64_t>(number), slot}, slot});
    store->commit(over);
  }
  expect_near(bytes_in_use());
}

TEST_F(RedisBuffer, reports_commits_that_redis_has_lost) {
  use();
  const auto store = open();
  store->commit(with_body(1, "one"));
  store->commit(with_body(2, "two"));
  redis_->call({"HSET", "evenkeel:{test}:about", "commits", "1"});
  store->refresh();
  EXPECT_THAT(said_, ElementsAre(HasSubstr("has lost 1 acknowledged commit: ")));
}

TEST_F(RedisBuffer, continues_on_a_replica_that_has_every_commit) {
  const std::string port = std::to_string(testing_support::free_port());
  use({"--port", port, "--repl-diskless-sync-delay", "0"});
  const RedisServer replica({"--replicaof", "127.0.0.1 " + port});
  await_replica(replica);
  settings_.address.servers.push_back(replica.address().servers[0]);
  const auto store = open();
  store->commit(with_body(1, "one"));
  await_commits(replica);
  redis_->kill();
  EXPECT_THROW(store->commit(with_body(2, "two")), IoError);
  EXPECT_THAT(report_of<IoError>([&] { store->refresh(); }).message, HasSubstr("is a replica"));
  replica.call({"REPLICAOF", "NO", "ONE"});
  const auto after = open();
  EXPECT_EQ(sample_in(*after, 1), "one");
  after->commit(with_body(2, "two"));
}

TEST_F(RedisBuffer, holds_its_lease_until_it_expires_or_is_released) {
  use();
  auto first = std::make_unique<Lease>(redis_->address(), "lease", "http://first", short_times);
  Lease second(redis_->address(), "lease", "http://second", short_times);
  EXPECT_TRUE(first->state().is_held());
  EXPECT_FALSE(second.state().is_held());
  EXPECT_EQ(second.state().holder, "http://first");
  std::this_thread::sleep_for(2s);
  EXPECT_TRUE(first->state().is_held()) << "it is renewed";
  Lease::State before = second.state();
  first->stop_and_release();
  EXPECT_TRUE(second.wait_for_change_from(before).is_held());
  redis_->call({"SET", "evenkeel:{lease}:lease", "x http://thief", "PX", "200"});
  before = second.wait_for_change_from(second.state());
  EXPECT_EQ(before.holder, "http://thief");
  EXPECT_TRUE(second.wait_for_change_from(before).is_held()) << "once the other's has lapsed";
}

}  // namespace
}  // namespace evenkeel
