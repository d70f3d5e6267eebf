#include "buffer/shared/shared_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <zlib.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "buffer/buffer.hpp"
#include "buffer/job_client.hpp"
#include "buffer/redis_server.hpp"
#include "buffer/rollout_lines.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
using testing_support::groups_of;
using testing_support::no_redis;
using testing_support::RedisServer;
using testing_support::report_of;
using testing_support::rollout_line;

/// A running server.
class Serving {
 public:
  explicit Serving(SharedServerSettings settings)
      : server_(std::move(settings)), thread_([this] { server_.serve(); }), client_(server_.url()) {
    while (!client_.Get("/v1/status")) std::this_thread::sleep_for(1ms);
  }
  ~Serving() {
    server_.stop();
    thread_.join();
  }
  SharedServer& server() { return server_; }
  httplib::Client& client() { return client_; }
  httplib::Result post(const std::string& path, const std::string& body,
                       const httplib::Headers& headers = {}) {
    return client_.Post(path, headers, body, "application/x-ndjson");
  }
  json status() { return json::parse(client_.Get("/v1/status")->body); }
  /// Waits until the server is active.
  void await() {
    while (server_.buffer() == nullptr) std::this_thread::sleep_for(5ms);
  }

 private:
  SharedServer server_;
  std::thread thread_;
  httplib::Client client_;
};

class SharedServers : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_redis(); !why.empty()) GTEST_SKIP() << why;
    redis_ = std::make_unique<RedisServer>();
  }
  [[nodiscard]] std::unique_ptr<Serving> open(ServerSettings server = {}) const {
    server.port = 0;
    return std::make_unique<Serving>(
        SharedServerSettings{.store = {.address = redis_->address(), .name = "shared", .capacity = 64 << 20},
                             .stream = groups_of(1),
                             .server = std::move(server),
                             .times = {5s, 50ms}});
  }
  std::unique_ptr<RedisServer> redis_;
};

TEST_F(SharedServers, all_give_the_same_answers) {
  const auto active = open();
  const auto standby = open();
  EXPECT_EQ(standby->server().buffer(), nullptr);
  EXPECT_EQ(standby->server().active_url(), active->server().url());
  const auto answer = standby->post("/v1/samples", rollout_line("a/b", 0));
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(json::parse(answer->body)["accepted"], 1);
  EXPECT_EQ(json::parse(active->post("/v1/samples", rollout_line("a/b", 0))->body)["duplicates"], 1);
  EXPECT_EQ(standby->post("/v1/samples", "{")->status, 422);
  EXPECT_EQ(standby->post("/v1/nonsense", "x")->status, 404);
  EXPECT_EQ(standby->client().Get("/v1/job/waiting?groups=1&limit=5&wait=0")->status, 200);
  EXPECT_EQ(standby->post("/v1/groups/a%2Fb/abort", "{}")->status, 200);
  const json status = standby->status();
  EXPECT_EQ(status["role"], "standby");
  EXPECT_EQ(status["active"], active->server().url());
  EXPECT_EQ(status["samples"]["dropped"]["aborted"], 1) << "the group with a slash in its name";
  EXPECT_EQ(active->status()["role"], "active");
}

TEST_F(SharedServers, forward_large_answers_and_compressed_bodies_unchanged) {
  const auto active = open();
  const auto standby = open();
  const std::string line = rollout_line("long", 0, 0, 500'000);
  std::string packed(compressBound(line.size()) + 64, '\0');
  z_stream stream{};
  ASSERT_EQ(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(line.data()));
  stream.avail_in = static_cast<uInt>(line.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  EXPECT_EQ(standby->post("/v1/samples", packed, {{"Content-Encoding", "gzip"}})->status, 200);
  const auto sent = standby->post("/v1/job/samples", R"({"arrivals": [1]})");
  ASSERT_EQ(sent->status, 200);
  EXPECT_TRUE(sent->body == line) << sent->body.size() << " bytes of " << line.size();
}

TEST_F(SharedServers, take_over_from_a_server_that_stops) {
  auto active = open();
  const auto standby = open();
  ASSERT_EQ(active->post("/v1/samples", rollout_line("a", 0))->status, 200);
  active.reset();
  standby->await();
  EXPECT_EQ(json::parse(standby->post("/v1/samples", rollout_line("a", 0) + rollout_line("b", 0))->body),
            json::parse(R"({"accepted": 1, "duplicates": 1, "stale": 0, "version": 0})"));
}

TEST_F(SharedServers, know_which_job_trains_when_they_take_over) {
  auto active = open();
  const auto standby = open();
  JobClient zombie(standby->server().url());
  static_cast<void>(zombie.begin(1));
  const JobPass pass = JobClient(active->server().url()).begin(1, {.takes_over = true}).pass;
  active.reset();
  standby->await();
  EXPECT_NO_THROW(JobClient(standby->server().url(), {}, {}, pass).send_heartbeat());
  EXPECT_THAT(report_of<InputError>([&] { zombie.send_heartbeat(); }).message, HasSubstr("is fenced: job 2"));
}

TEST_F(SharedServers, acknowledge_nothing_after_losing_the_lease_until_they_hold_it_again) {
  const auto server = open();
  ASSERT_EQ(server->post("/v1/samples", rollout_line("a", 0))->status, 200);
  redis_->call({"SET", "evenkeel:{shared}:lease", "x http://127.0.0.1:1", "PX", "300"});
  const auto refused = server->post("/v1/samples", rollout_line("b", 0));
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->get_header_value("Retry-After"), "1");
  while (server->server().buffer() != nullptr) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(server->post("/v1/samples", rollout_line("b", 0))->status, 503) << "nobody is there";
  server->await();
  EXPECT_EQ(json::parse(server->post("/v1/samples", rollout_line("a", 0) + rollout_line("b", 0))->body),
            json::parse(R"({"accepted": 1, "duplicates": 1, "stale": 0, "version": 0})"));
}

TEST_F(SharedServers, never_forward_a_request_twice) {
  const auto active = open();
  const auto standby = open();
  const auto twice = standby->post("/v1/samples", rollout_line("a", 0), {{"X-Evenkeel-Passed-On", "1"}});
  EXPECT_EQ(twice->status, 503);
  EXPECT_EQ(active->status()["samples"]["received"], 0);
}

TEST_F(SharedServers, accept_only_clients_with_the_token) {
  const ServerSettings with_token{.token = "secret"};
  const auto active = open(with_token);
  const auto standby = open(with_token);
  EXPECT_EQ(standby->post("/v1/samples", rollout_line("a", 0))->status, 401);
  EXPECT_EQ(standby->post("/v1/samples", rollout_line("a", 0), {{"Authorization", "Bearer secret"}})->status,
            200);
}

TEST_F(SharedServers, require_an_address_that_others_can_reach) {
  EXPECT_EQ(report_of<ConfigError>([&] { return open({.address = "0.0.0.0", .token = "secret"}); }).where,
            "--advertise");
}

TEST_F(SharedServers, answer_503_while_redis_is_down_and_continue_afterwards) {
  redis_ = std::make_unique<RedisServer>(testing_support::redis_that_is_durable);
  const auto server = open();
  ASSERT_EQ(server->post("/v1/samples", rollout_line("a", 0))->status, 200);
  redis_->kill();
  EXPECT_EQ(server->post("/v1/samples", rollout_line("b", 0))->status, 503);
  redis_->start();
  httplib::Result again = server->post("/v1/samples", rollout_line("a", 0) + rollout_line("b", 0));
  while (again->status == 503) {
    std::this_thread::sleep_for(10ms);
    again = server->post("/v1/samples", rollout_line("a", 0) + rollout_line("b", 0));
  }
  EXPECT_EQ(json::parse(again->body),
            json::parse(R"({"accepted": 1, "duplicates": 1, "stale": 0, "version": 0})"));
}

}  // namespace
}  // namespace evenkeel
