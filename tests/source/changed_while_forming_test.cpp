// The contents of a buffer may change between the query and the step that is formed from its answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/server.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "source/arriving/heartbeats.hpp"
#include "source/arriving/patience.hpp"
#include "source/arriving/steps_of_buffer.hpp"

namespace evenkeel::changed_while_forming_test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing_support::received;
using testing_support::rollout_line;

TEST(Patience, reports_open_tickets_and_the_holder_and_expiry_of_the_oldest) {
  Patience patience(0.0, "http://127.0.0.1:8710", false);
  const auto message = [&](const OutstandingTickets& tickets) {
    std::this_thread::sleep_for(1ms);
    try {
      patience.on_unformed({7, 4, 1, 2, std::nullopt, tickets});
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(
      message({3, "worker 7", 41, 559}),
      testing::HasSubstr("2 are incomplete; 3 tickets are open; the oldest was issued 41 s ago to worker 7 "
                         "and expires in 559 s; no samples have arrived"));
  EXPECT_THAT(message({1, "", 41, -1}),
              testing::HasSubstr("1 ticket is open; it was issued 41 s ago and is now overdue; "));
  EXPECT_THAT(message({}), testing::HasSubstr("2 are incomplete; no samples have arrived"));
}

TEST(Patience, reports_an_unreachable_buffer_after_a_second) {
  std::vector<std::string> notes;
  set_waiting_notes_destination([&](const std::string& note) { notes.push_back(note); });
  Patience patience(std::nullopt, "http://127.0.0.1:8710", true);
  const auto begun = std::chrono::steady_clock::now();
  while (notes.empty()) patience.on_unreachable(IoError("http://127.0.0.1:8710", "cannot be reached"));
  const auto waited = std::chrono::steady_clock::now() - begun;
  set_waiting_notes_destination([](const std::string&) {});
  EXPECT_THAT(notes, ElementsAre(testing::HasSubstr("the buffer has accepted no request")));
  EXPECT_GE(waited, 1s) << "a restart that takes less is not worth a note";
  EXPECT_LT(waited, 6s);
}

/// Accepts connections but sends nothing, like a stopped process.
class HungBuffer {
 public:
  HungBuffer() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_, generic, size), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    EXPECT_EQ(::getsockname(socket_, generic, &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~HungBuffer() { ::close(socket_); }
  HungBuffer(const HungBuffer&) = delete;
  HungBuffer& operator=(const HungBuffer&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  int socket_;
  std::string url_;
};

TEST(Heartbeats, to_a_hanging_buffer_do_not_delay_the_end_of_a_job) {
  const HungBuffer buffer;
  const auto begun = std::chrono::steady_clock::now();
  { const Heartbeats heartbeats(JobClient(buffer.url())); }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
}

TEST(StepsOfBuffer, do_not_block_a_trainer_if_the_buffer_hangs) {
  const HungBuffer buffer;
  const std::atomic<bool> must_stop{false};
  StepsOfBuffer steps({buffer.url(), "", "", std::nullopt}, must_stop);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(steps.report_trained(3));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
}

/// Serves until it is destroyed.
template <typename Server>
class Serving {
 public:
  Serving(Server& server, std::function<void()> serve) : server_(server), thread_(std::move(serve)) {}
  ~Serving() {
    server_.stop();
    thread_.join();
  }

 private:
  Server& server_;
  std::thread thread_;
};

/// Forwards calls to a server, and runs a function right before the first step is recorded.
class Between {
 public:
  Between(int port_of_server, std::function<void()> act) : act_(std::move(act)) {
    const auto hand_on = [this, port_of_server](const httplib::Request& request,
                                                httplib::Response& response) {
      if (request.method == "POST" && request.path == "/v1/job/steps" && act_) std::exchange(act_, nullptr)();
      httplib::Client server("127.0.0.1", port_of_server);
      const httplib::Result result =
          request.method == "POST"
              ? server.Post(request.target, request.body, request.get_header_value("Content-Type"))
              : server.Get(request.target);
      ASSERT_TRUE(result) << httplib::to_string(result.error());
      response.status = result->status;
      response.set_content(result->body, result->get_header_value("Content-Type"));
    };
    server_.Get(".*", hand_on);
    server_.Post(".*", hand_on);
    port_ = server_.bind_to_any_port("127.0.0.1");
  }

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  httplib::Server& server() { return server_; }

 private:
  std::function<void()> act_;
  httplib::Server server_;
  int port_ = 0;
};

TEST(StepsOfBuffer, form_a_step_again_if_a_group_left_before_it_was_recorded) {
  Buffer buffer(make_memory_store(1 << 20), testing_support::groups_of(1));
  BufferServer server(buffer, ServerSettings{.port = 0});
  const Serving serving(server, [&server] { server.serve(); });
  const auto send = [&buffer](const std::string& group, int tokens) {
    buffer.accept_samples(received(rollout_line(group, 0, 0, tokens)));
  };
  send("first", 3);
  send("aborted", 3);
  Between between(server.port(), [&] {
    buffer.abort_group("aborted", std::nullopt, "its environment failed");
    send("too long", 30);
    send("last", 3);
  });
  const Serving serving_between(between.server(), [&between] { between.server().listen_after_bind(); });

  const std::atomic<bool> must_stop = false;
  StepsOfBuffer steps({.url = between.url(), .patience = 20}, must_stop);
  static_cast<void>(steps.begin(2));
  FormingRules rules;
  rules.stream = testing_support::groups_of(1);
  rules.groups = 2;
  rules.drops_above = 10;
  std::vector<Uid> groups;
  for (const stream::WaitingGroup& group : steps.step(0, &rules).groups) groups.push_back(group.uid);
  EXPECT_THAT(groups, ElementsAre(Uid("first"), Uid("last")));
  EXPECT_EQ(steps.figures().dropped["filtered"], 1);
  buffer.stop();
}

}  // namespace
}  // namespace evenkeel::changed_while_forming_test
