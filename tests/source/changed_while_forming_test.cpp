// What waits in a buffer may change between a look at it and the step that is formed of it.
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
#include "buffer/door.hpp"
#include "buffer/rollout_lines.hpp"
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

TEST(Patience, says_how_many_tickets_are_open_who_holds_the_oldest_and_when_it_expires) {
  Patience patience(0.0, "http://127.0.0.1:8710", false);
  const auto message = [&](const TicketsOut& tickets) {
    std::this_thread::sleep_for(1ms);
    try {
      patience.waits_for({7, 4, 1, 2, std::nullopt, tickets});
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(
      message({3, "worker 7", 41, 559}),
      testing::HasSubstr("2 wait for samples; 3 tickets are open, the oldest for 41 s (worker 7), which "
                         "expires in 559 s; no sample has come"));
  EXPECT_THAT(message({1, "", 41, -1}),
              testing::HasSubstr("1 ticket is open, the oldest for 41 s, which expires in 0 s; "));
  EXPECT_THAT(message({}), testing::HasSubstr("2 wait for samples; no sample has come"));
}

TEST(Patience, says_after_a_second_that_the_buffer_cannot_be_reached) {
  std::vector<std::string> notes;
  send_waiting_notes_to([&](const std::string& note) { notes.push_back(note); });
  Patience patience(std::nullopt, "http://127.0.0.1:8710", true);
  const auto begun = std::chrono::steady_clock::now();
  while (notes.empty()) patience.lacks_buffer(IoError("http://127.0.0.1:8710", "cannot be reached"));
  const auto waited = std::chrono::steady_clock::now() - begun;
  send_waiting_notes_to([](const std::string&) {});
  EXPECT_THAT(notes, ElementsAre(testing::HasSubstr("trying the buffer again")));
  EXPECT_GE(waited, 1s) << "a restart that takes less is not worth a note";
  EXPECT_LT(waited, 6s);
}

/// Takes connections and says nothing, as a stopped process does.
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

TEST(Heartbeats, of_a_buffer_that_hangs_do_not_delay_the_end_of_a_job) {
  const HungBuffer buffer;
  const auto begun = std::chrono::steady_clock::now();
  { const Heartbeats heartbeats(JobClient(buffer.url())); }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
}

TEST(StepsOfBuffer, let_no_trainer_wait_for_a_buffer_that_hangs) {
  const HungBuffer buffer;
  const std::atomic<bool> must_stop{false};
  StepsOfBuffer steps({buffer.url(), "", "", std::nullopt}, must_stop);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(steps.trained(3));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
}

/// Serves until it goes.
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

/// Hands calls on to a door, and does something right before the first step is written down.
class Between {
 public:
  Between(int port_of_door, std::function<void()> act) : act_(std::move(act)) {
    const auto hand_on = [this, port_of_door](const httplib::Request& request, httplib::Response& response) {
      if (request.method == "POST" && request.path == "/v1/job/steps" && act_) std::exchange(act_, nullptr)();
      httplib::Client door("127.0.0.1", port_of_door);
      const httplib::Result result =
          request.method == "POST"
              ? door.Post(request.target, request.body, request.get_header_value("Content-Type"))
              : door.Get(request.target);
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

TEST(StepsOfBuffer, looks_at_all_samples_anew_when_a_group_has_gone_before_its_step_was_written_down) {
  Buffer buffer(make_memory_store(1 << 20), testing_support::groups_of(1));
  Door door(buffer, DoorSettings{.port = 0});
  const Serving serving_door(door, [&door] { door.serve(); });
  const auto send = [&buffer](const std::string& group, int tokens) {
    buffer.take(received(rollout_line(group, 0, 0, tokens)));
  };
  send("first", 3);
  send("aborted", 3);
  Between between(door.port(), [&] {
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
