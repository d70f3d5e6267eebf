#include "buffer/values/value_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "buffer/value_frames.hpp"
#include "buffer/values/value_store.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
using testing_support::make_frame;
using testing_support::report_of;
using testing_support::ScratchFolder;

/// A store in memory with a running server.
class OpenStore {
 public:
  explicit OpenStore(std::int64_t capacity = 64 << 20, const std::string& token = "",
                     const std::filesystem::path& checkpoints = {}, const std::filesystem::path& socket = {})
      : store_(make_memory_store(capacity)),
        server_(store_, {.port = 0, .token = token, .socket = socket}, checkpoints),
        serving_([this] { server_.serve(); }),
        client_("127.0.0.1", server_.port()) {
    client_.set_keep_alive(true);
    while (!client_.Get("/v1/status")) std::this_thread::sleep_for(1ms);
  }
  ~OpenStore() {
    store_.stop();
    server_.stop();
    serving_.join();
  }
  httplib::Result post(const std::string& path, const std::string& body) {
    return client_.Post(path, body, "application/octet-stream");
  }
  httplib::Client& client() { return client_; }

 private:
  ValueStore store_;
  ValueServer server_;
  std::thread serving_;
  httplib::Client client_;
};

std::string values_in(const std::string& frame) {
  return frame.substr(frame_prefix + decode_size(frame));
}

TEST(ValueServer, puts_gets_and_clears_values) {
  OpenStore store;
  const std::string large(3 << 20, 'L');
  const auto put = store.post(
      "/v1/values",
      make_frame(
          R"({"indexes":[3,4],"fields":{"a":{"dtype":"U8","shapes":[[3145728],[2]]},"b":{"dtype":"I16","shape":[]}}})",
          large + "xyAABB"));
  ASSERT_EQ(put->status, 200) << put->body;
  EXPECT_EQ(json::parse(put->body), json::parse(R"({"stored":4,"bytes":3145734})"));
  const auto got = store.post("/v1/values/get", R"({"indexes":[4,3],"fields":["b","a"]})");
  ASSERT_EQ(got->status, 200) << got->body;
  EXPECT_EQ(got->get_header_value("Content-Type"), "application/octet-stream");
  EXPECT_EQ(got->get_header_value("Content-Length"), std::to_string(got->body.size()));
  EXPECT_TRUE(values_in(got->body) == "BBAAxy" + large);
  const auto status = json::parse(store.client().Get("/v1/status")->body);
  EXPECT_EQ(status["indexes"], 2);
  EXPECT_EQ(status["values"], 4);
  EXPECT_EQ(status["bytes"], 3145734);
  EXPECT_EQ(status["durable"], false);
  EXPECT_THAT(store.client().Get("/metrics")->body, HasSubstr("evenkeel_store_values 4\n"));
  EXPECT_EQ(json::parse(store.post("/v1/values/clear", R"({"indexes":[3,5]})")->body)["cleared"], 2);
  const auto missing = store.post("/v1/values/get", R"({"indexes":[4,3],"fields":["b","a"]})");
  EXPECT_EQ(missing->status, 404);
  EXPECT_EQ(json::parse(missing->body)["missing"], 2);
  EXPECT_THAT(json::parse(missing->body)["error"].get<std::string>(), HasSubstr("index 3, field 'b'"));
}

TEST(ValueServer, says_what_it_refuses) {
  OpenStore store(1 << 20);
  const std::string head = R"({"indexes":[0],"fields":{"a":{"dtype":"U8","shape":[600000]}}})";
  EXPECT_EQ(store.post("/v1/values", make_frame(head, "short"))->status, 422);
  EXPECT_EQ(store.post("/v1/values", "abc")->status, 422);
  EXPECT_EQ(store.post("/v1/values", "")->status, 422);
  EXPECT_EQ(store.post("/v1/values", make_frame(head, std::string(2 << 20, 'x')))->status, 413);
  ASSERT_EQ(store.post("/v1/values", make_frame(head, std::string(600'000, 'x')))->status, 200);
  const auto full = store.post("/v1/values", make_frame(head, std::string(600'000, 'x')));
  EXPECT_EQ(full->status, 429);
  EXPECT_EQ(full->get_header_value("Retry-After"), "1");
  EXPECT_EQ(store.post("/v1/values/get", "{")->status, 422);
  EXPECT_EQ(store.post("/v1/samples", "{}")->status, 404);
}

TEST(ValueServer, saves_and_loads_only_where_it_is_allowed) {
  const ScratchFolder scratch;
  std::filesystem::create_directories(scratch.path() / "allowed");
  std::filesystem::create_directory_symlink(scratch.path(), scratch.path() / "allowed" / "out");
  OpenStore none;
  EXPECT_EQ(none.post("/v1/values/save", json{{"path", scratch.path() / "file"}}.dump())->status, 403);
  OpenStore store(1 << 20, "", scratch.path() / "allowed");
  const auto call = [&](const char* name, const std::filesystem::path& path) {
    return store.post(std::string("/v1/values/") + name, json{{"path", path.string()}}.dump());
  };
  const std::string frame = make_frame(R"({"indexes":[0],"fields":{"a":{"dtype":"U8","shape":[2]}}})", "xy");
  ASSERT_EQ(store.post("/v1/values", frame)->status, 200);
  const auto saved = call("save", scratch.path() / "allowed" / "file");
  ASSERT_EQ(saved->status, 200) << saved->body;
  EXPECT_EQ(json::parse(saved->body), json::parse(R"({"indexes":1,"bytes":2})"));
  EXPECT_EQ(call("load", scratch.path() / "allowed" / "file")->status, 200);
  for (const char* outside :
       {"file", "allowed/../file", "allowed/out/file", "allowed/..", "allowed/no/file", "allowed"}) {
    const auto refused = call("save", scratch.path() / outside);
    EXPECT_EQ(refused->status, 422) << outside;
    EXPECT_THAT(refused->body, HasSubstr("--checkpoints")) << outside;
  }
  EXPECT_EQ(call("save", "file")->status, 422);
}

/// Sends a GET over a UNIX socket, and returns the answer.
std::string answer_at(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(socket.string(), address.sun_path);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return "no server";
  const std::string request = "GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(::send(descriptor, request.data(), request.size(), 0), std::ssize(request));
  std::string answer;
  std::array<char, 4096> bytes{};
  for (ssize_t received = 0; (received = ::recv(descriptor, bytes.data(), bytes.size(), 0)) > 0;)
    answer.append(bytes.data(), static_cast<std::size_t>(received));
  ::close(descriptor);
  return answer;
}

TEST(ValueServer, is_also_found_at_a_socket_which_a_server_that_was_killed_may_have_left) {
  const ScratchFolder scratch;
  const std::filesystem::path socket = scratch.path() / "socket";
  {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(socket.string(), address.sun_path);
    const int left_behind = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(::bind(left_behind, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(left_behind);
  }
  {
    const OpenStore store(1 << 20, "", {}, socket);
    EXPECT_THAT(answer_at(socket), HasSubstr("\"indexes\":0"));
    ValueStore other(make_memory_store(1 << 20));
    EXPECT_EQ(report_of<IoError>([&] { ValueServer(other, {.port = 0, .socket = socket}); }).where,
              socket.string());
    EXPECT_THAT(answer_at(socket), HasSubstr("\"indexes\":0")) << "the first server keeps it";
  }
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST(ValueServer, closes_a_connection_after_as_many_requests_as_it_announces) {
  OpenStore store;  // the store has sent one request
  const auto next = [&] { return store.client().Get("/v1/status"); };
  EXPECT_THAT(next()->get_header_value("Keep-Alive"), HasSubstr("max=1000"));
  for (int request = 3; request < 1000; ++request) ASSERT_FALSE(next()->has_header("Connection")) << request;
  EXPECT_EQ(next()->get_header_value("Connection"), "close");
  EXPECT_FALSE(next()->has_header("Connection"));
}

TEST(ValueServer, lets_in_only_who_knows_the_token) {
  OpenStore store(1 << 20, "secret");
  EXPECT_EQ(store.post("/v1/values/get", R"({"indexes":[],"fields":[]})")->status, 401);
  store.client().set_bearer_token_auth("secret");
  EXPECT_EQ(store.post("/v1/values/get", R"({"indexes":[],"fields":[]})")->status, 200);
}

}  // namespace
}  // namespace evenkeel
