#include "buffer/server.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/intake/sample_bodies.hpp"
#include "buffer/job_client.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/sample_tensors.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
using testing_support::groups_of;
using testing_support::report_of;
using testing_support::rollout_line;
using testing_support::sample_tensors;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// An in-memory buffer with a running server.
class OpenServer {
 public:
  explicit OpenServer(ServerSettings settings = {}, std::int64_t capacity = 1 << 20,
                      std::int64_t group_size = 2, const DeclaredFormats& formats = {})
      : OpenServer(groups_of(group_size), std::move(settings), capacity, formats) {}
  explicit OpenServer(const stream::StreamSettings& rules, ServerSettings settings = {},
                      std::int64_t capacity = 1 << 20, const DeclaredFormats& formats = {})
      : buffer_(make_memory_store(capacity), rules, formats),
        server_(buffer_, with_free_port(std::move(settings))),
        serving_([this] { server_.serve(); }) {
    httplib::Client waiting("127.0.0.1", server_.port());
    while (server_.url().starts_with("http:") && !waiting.Get("/v1/status")) std::this_thread::sleep_for(1ms);
  }
  ~OpenServer() {
    buffer_.stop();
    server_.stop();
    serving_.join();
  }

  Buffer& buffer() { return buffer_; }
  [[nodiscard]] std::string url() const { return server_.url(); }
  [[nodiscard]] int port() const { return server_.port(); }
  httplib::Result post(const std::string& path, const std::string& body, const httplib::Headers& headers = {},
                       const std::string& type = "application/x-ndjson") {
    return client().Post(path, headers, body, type);
  }
  httplib::Result get(const std::string& path) { return client().Get(path); }

 private:
  static ServerSettings with_free_port(ServerSettings settings) {
    settings.port = 0;
    return settings;
  }
  [[nodiscard]] httplib::Client client() const { return httplib::Client("127.0.0.1", port()); }

  Buffer buffer_;
  BufferServer server_;
  std::thread serving_;
};

TEST(BufferServer, can_be_stopped_before_it_serves) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(1));
  BufferServer stopped_before(buffer, ServerSettings{.port = 0});
  stopped_before.stop();
  stopped_before.serve();
  for (int times = 0; times < 20; ++times) {
    BufferServer server(buffer, ServerSettings{.port = 0});
    std::thread serving([&server] { server.serve(); });
    server.stop();
    serving.join();
  }
  buffer.stop();
}

TEST(BufferServer, answers_samples_with_their_outcome) {
  OpenServer server;
  const auto answer =
      server.post("/v1/samples", rollout_line("a", 0) + rollout_line("a", 1) + rollout_line("a", 0));
  ASSERT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(json::parse(answer->body),
            json::parse(R"({"accepted": 2, "duplicates": 1, "stale": 0, "version": 0})"));
}

TEST(BufferServer, adds_fields_to_samples_and_reports_missing_ones) {
  stream::StreamSettings rules = groups_of(1);
  rules.late_fields = {"values"};
  OpenServer server(rules);
  server.post("/v1/samples", rollout_line("a", 0) + rollout_line("b", 0));
  const std::string line = R"({"uid": "a", "index": 0, "values": [1, 2, 3]})";
  const auto answer = server.post("/v1/fields", line);
  ASSERT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(json::parse(answer->body),
            json::parse(R"({"added": 1, "duplicates": 0, "gone": 0, "version": 0})"));
  EXPECT_EQ(json::parse(server.get("/v1/status")->body)["missing_fields"], json::parse(R"({"values": 1})"));
  EXPECT_THAT(server.get("/metrics")->body, HasSubstr(R"(samples_missing_field{field="values"} 1)"));
  EXPECT_EQ(json::parse(server.get("/v1/job/rules")->body)["settings"]["late_fields"][0], "values");
  EXPECT_EQ(server.post("/v1/fields", R"({"uid": "c", "index": 0, "values": [1, 2, 3]})")->status, 404);
  EXPECT_EQ(server.post("/v1/fields", R"({"uid": "a", "index": 0, "values": [1, 2, 4]})")->status, 409);
  EXPECT_EQ(server.post("/v1/fields", R"({"uid": "a", "index": 0, "other": [1, 2, 3]})")->status, 422);
  EXPECT_EQ(server.post("/v1/fields", line, {}, "application/vnd.safetensors")->status, 422);
}

TEST(BufferServer, does_not_mention_late_fields_if_there_are_none) {
  OpenServer server;
  EXPECT_FALSE(json::parse(server.get("/v1/status")->body).contains("missing_fields"));
  EXPECT_FALSE(json::parse(server.get("/v1/job/rules")->body)["settings"].contains("late_fields"));
  EXPECT_THAT(server.post("/v1/fields", R"({"uid": "a", "index": 0, "values": 1})")->body,
              HasSubstr("List the fields that are added later"));
}

TEST(BufferServer, answers_a_malformed_line_with_its_location_and_stores_nothing) {
  OpenServer server;
  const auto answer = server.post("/v1/samples", rollout_line("a", 0) + "{\"uid\": 1}\n");
  EXPECT_EQ(answer->status, 422);
  EXPECT_THAT(json::parse(answer->body)["error"], HasSubstr("body:2: has no prompt_ids"));
  EXPECT_EQ(server.buffer().status().stream.received.samples, 0);
}

TEST(BufferServer, answers_each_refusal_with_its_status) {
  OpenServer server({}, 3000);
  ASSERT_EQ(server.post("/v1/samples", rollout_line("a", 0))->status, 200);
  std::string other = rollout_line("b", 0);
  other.insert(1, R"("reward": 1.0, )");
  EXPECT_EQ(server.post("/v1/samples", other)->status, 409);
  EXPECT_EQ(server.post("/v1/samples", rollout_line("b", 0, 0, 3000))->status, 413)
      << "more than the capacity";
  ASSERT_EQ(server.post("/v1/samples", rollout_line("b", 0, 0, 350))->status, 200);
  const auto full = server.post("/v1/samples", rollout_line("c", 0, 0, 350));
  EXPECT_EQ(full->status, 429);
  EXPECT_EQ(full->get_header_value("Retry-After"), "1");
  EXPECT_EQ(server.post("/v1/samples", "xyz", {{"Content-Encoding", "br"}})->status, 422);
  EXPECT_EQ(server.post("/v1/samples", "xyz", {{"Content-Encoding", "gzip"}})->status, 422);
  EXPECT_THAT(server.post("/v1/samples", "xyz", {{"Content-Encoding", "GZIP"}})->body,
              testing::Not(HasSubstr("Content-Encoding")));
  EXPECT_THAT(server.post("/v1/samples", "\x1f\x8b\x08 a gzip body")->body,
              HasSubstr("body: looks gzip-compressed, but the request is not marked as compressed. Send "
                        "the header Content-Encoding: gzip"));
  EXPECT_THAT(server.post("/v1/samples", "x", {}, "application/vnd.safetensors")->body,
              HasSubstr("body: has 1 byte; the header's length alone takes 8"));
  EXPECT_EQ(server.post("/v1/tickets", "{}")->status, 422);
  EXPECT_EQ(server.post("/v1/tickets", "[")->status, 422);
  const auto no_call = server.post("/v1/nonsense", "");
  EXPECT_EQ(no_call->status, 404);
  EXPECT_THAT(no_call->body, HasSubstr("POST /v1/nonsense: is not an endpoint of a buffer"));
}

TEST(BufferServer, accepts_tensors_and_returns_them_to_the_job) {
  OpenServer server;
  const auto answer = server.post("/v1/samples", sample_tensors(), {}, "application/vnd.safetensors");
  ASSERT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(server.post("/v1/samples", rollout_line("a", 0))->status, 409);
  JobClient job(server.url());
  const std::vector<std::int64_t> arrivals{1};
  const RaggedBatch batch = parse_samples(job.fetch_samples(arrivals), arrivals, job.schema(), {});
  EXPECT_EQ(batch.samples()[0], (SampleShape{SampleId{1}, 1, 1, 2}));
  EXPECT_THAT(batch.at("input_ids").values<std::int64_t>(), testing::ElementsAre(5, 6, 7));
}

TEST(BufferServer, reads_lines_in_declared_formats_and_then_refuses_tensors) {
  OpenServer server({}, 1 << 20, 2, {{"note", LineFormat::text}});
  const auto tensors = server.post("/v1/samples", sample_tensors(), {}, "application/vnd.safetensors");
  EXPECT_EQ(tensors->status, 422);
  EXPECT_THAT(
      json::parse(tensors->body)["error"],
      HasSubstr("body: has safetensors, but the buffer has declared formats of JSON Lines: note=text."));
  std::string line = rollout_line("a", 0);
  line.insert(1, R"("note": "good", )");
  ASSERT_EQ(server.post("/v1/samples", line)->status, 200);
  JobClient job(server.url());
  const DeclaredFormats formats = job.begin(2).formats;
  EXPECT_EQ(formats.at("note"), LineFormat::text);
  const std::vector<std::int64_t> arrivals{1};
  const RaggedBatch batch = parse_samples(job.fetch_samples(arrivals), arrivals, job.schema(), formats);
  EXPECT_EQ(batch.at("note").spec().kind, FieldKind::text);
}

TEST(BufferServer, keeps_the_connection_after_a_refusal) {
  OpenServer server({}, 3000);
  httplib::Client client("127.0.0.1", server.port());
  client.set_keep_alive(true);
  EXPECT_EQ(client.Post("/v1/samples", rollout_line("a", 0, 0, 3000), "application/json")->status, 413);
  EXPECT_EQ(client.Post("/v1/samples", "{", "application/json")->status, 422);
  EXPECT_EQ(client.Post("/v1/samples", rollout_line("a", 0), "application/json")->status, 200);
}

TEST(BufferServer, closes_and_aborts_groups_and_ends_the_stream) {
  OpenServer server;
  ASSERT_EQ(server.post("/v1/samples", rollout_line("a/b", 0) + rollout_line("c", 0) + rollout_line("d", 0))
                ->status,
            200);
  EXPECT_EQ(server.post("/v1/groups/a%2Fb/abort", R"({"reason": "lost"})")->status, 200);
  EXPECT_EQ(server.post("/v1/groups/c/abort", R"({"index": 0})")->status, 200);
  EXPECT_EQ(server.post("/v1/groups/c/abort", R"({"index": "0"})")->status, 422);
  EXPECT_EQ(server.post("/v1/groups/d/close", "")->status, 200);
  EXPECT_EQ(server.post("/v1/end", "")->status, 200);
  const json status = json::parse(server.get("/v1/status")->body);
  EXPECT_EQ(status["ended"], true);
  EXPECT_EQ(status["samples"]["received"], 3);
  EXPECT_EQ(status["samples"]["waiting"], 0);
  EXPECT_EQ(status["samples"]["dropped"]["aborted"], 2);
  EXPECT_THAT(server.get("/metrics")->body, HasSubstr("evenkeel_buffer_received_samples_total 3\n"));
}

TEST(BufferServer, closes_and_aborts_groups_named_by_a_text_or_an_integer) {
  OpenServer server;
  const auto abort = [&](const std::string& body) { return server.post("/v1/groups/abort", body)->status; };
  EXPECT_EQ(abort(R"({"uid": 7, "index": 0, "reason": "the engine died"})"), 200);
  const std::string of_seven =
      R"({"uid": 7, "index": 1, "version": 0, "prompt_ids": [1], "response_ids": [2]})";
  ASSERT_EQ(server.post("/v1/samples", of_seven + "\n" + rollout_line("7\\n", 0))->status, 200);
  EXPECT_EQ(server.buffer().status().stream.dropped[3].samples, 1) << "of a group that is over";
  EXPECT_EQ(server.post("/v1/groups/close", R"({"uid": "7\n"})")->status, 200);
  EXPECT_EQ(server.post("/v1/groups/7%0A/close", "")->status, 200) << "a line break is a part of a name";
  EXPECT_EQ(server.post("/v1/groups/8%0D%0A/abort", "")->status, 200);
  EXPECT_EQ(abort("{}"), 422);
  EXPECT_EQ(abort(R"({"uid": 1.5})"), 422);
  EXPECT_EQ(abort(R"({"uid": ""})"), 422);
  const auto unknown = server.post("/v1/groups/close", R"({"uid": "q9"})");
  EXPECT_EQ(unknown->status, 404);
  EXPECT_THAT(unknown->body, HasSubstr("group 'q9': is unknown: none of its samples has been received"));
  EXPECT_EQ(server.post("/v1/groups/q9/close", "")->status, 404);
  const auto either = server.post("/v1/groups/8/abort", "");
  EXPECT_EQ(either->status, 404);
  EXPECT_THAT(json::parse(either->body)["hint"], HasSubstr(R"(Send {"uid": 8} or {"uid": "8"} to)"));
  EXPECT_EQ(server.post("/v1/samples", rollout_line(std::string(1025, 'u'), 0))->status, 422);
  EXPECT_EQ(server.post("/v1/samples", rollout_line("", 0))->status, 422);
}

TEST(BufferServer, distinguishes_duplicates_from_conflicts_in_any_encoding) {
  OpenServer server;
  const std::string lines = rollout_line("a", 0) + rollout_line("a", 1);
  ASSERT_EQ(server.post("/v1/samples", lines)->status, 200);
  EXPECT_EQ(json::parse(
                server.post("/v1/samples", rollout_line("b", 0) + rollout_line("a", 1))->body)["duplicates"],
            1);
  const auto other = server.post("/v1/samples", rollout_line("a", 1, 0, 9));
  EXPECT_EQ(other->status, 409);
  EXPECT_THAT(json::parse(other->body)["error"],
              HasSubstr("body:1: sample 1 of group 'a' was already received with different content"));
}

TEST(BufferServer, grants_tickets_to_a_holder_once_per_request) {
  stream::StreamSettings settings = groups_of(1);
  settings.max_staleness = 0;
  OpenServer server(settings);
  server.buffer().begin_job(4);
  const auto granted = [&](const httplib::Headers& headers) {
    return json::parse(server.post("/v1/tickets", R"({"groups": 3})", headers)->body)["granted"];
  };
  const httplib::Headers request{{"Evenkeel-Holder", "worker 7"}, {"Idempotency-Key", "first"}};
  EXPECT_EQ(granted(request), 3);
  EXPECT_EQ(granted(request), 3);
  EXPECT_EQ(granted({}), 1);
  EXPECT_EQ(
      server.post("/v1/tickets", R"({"groups": 3})", {{"Evenkeel-Holder", std::string(257, 'h')}})->status,
      422);
  const json status = json::parse(server.get("/v1/status")->body);
  EXPECT_EQ(status["tickets"], 4);
  EXPECT_EQ(status["oldest_ticket"]["holder"], "worker 7");
  EXPECT_GT(status["oldest_ticket"]["expires_in"], 0);
  ASSERT_EQ(server.post("/v1/samples", rollout_line("a", 0), {{"Evenkeel-Holder", "worker 7"}})->status, 200);
  EXPECT_EQ(json::parse(server.get("/v1/status")->body)["tickets"], 3);
}

TEST(BufferServer, accepts_only_clients_with_the_token) {
  OpenServer server({.token = "secret"});
  EXPECT_EQ(server.post("/v1/samples", rollout_line("a", 0))->status, 401);
  EXPECT_EQ(server.post("/v1/samples", rollout_line("a", 0), {{"Authorization", "Bearer secreT"}})->status,
            401);
  EXPECT_EQ(server.post("/v1/samples", rollout_line("a", 0), {{"Authorization", "Bearer secret"}})->status,
            200);
  EXPECT_EQ(server.post("/v1/samples", rollout_line("a", 0), {{"Authorization", "bEARER  secret"}})->status,
            200);
  EXPECT_EQ(server.get("/v1/status")->status, 401);
  EXPECT_EQ(server.get("/metrics")->status, 401);
}

TEST(BufferServer, requires_a_token_to_listen_on_the_network) {
  Buffer buffer(make_memory_store(1 << 20), {});
  const auto listen = [&](const ServerSettings& settings) { const BufferServer server(buffer, settings); };
  EXPECT_THAT(report_of<ConfigError>([&] { listen({.address = "0.0.0.0", .port = 0}); }).message,
              HasSubstr("which other machines can reach"));
  listen({.address = "0.0.0.0", .port = 0, .token = "secret"});
  const OpenServer there;
  EXPECT_THAT(report_of<IoError>([&] { listen({.port = there.port()}); }).message,
              HasSubstr("cannot be opened for listening"));
}

TEST(BufferServer, speaks_tls_with_a_certificate) {
  const ScratchFolder folder;
  const std::string key = (folder / "key.pem").string();
  const std::string certificate = (folder / "cert.pem").string();
  ASSERT_EQ(std::system(("openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext "
                         "subjectAltName=IP:127.0.0.1 -keyout " +
                         key + " -out " + certificate + " 2>/dev/null")
                            .c_str()),
            0);
  OpenServer server({.certificate = certificate, .key = key});
  EXPECT_EQ(JobClient(server.url(), {}, certificate).begin(2).settings.group_size, 2);
  EXPECT_THROW(JobClient(server.url()).begin(2), ConfigError) << "nobody has signed it";
  Buffer buffer(make_memory_store(1 << 20), {});
  EXPECT_THROW(BufferServer(buffer, {.port = 0, .certificate = key, .key = key}), IoError);
}

/// Returns a new socket. If this process has no descriptor left, waits up to 2 seconds for its server to
/// close connections, which is shorter than the timeout of incomplete requests.
int new_socket() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  while (socket < 0 && errno == EMFILE && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    socket = ::socket(AF_INET, SOCK_STREAM, 0);
  }
  return socket;
}

/// A connection that sends arbitrary bytes.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(new_socket()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0)
        << std::generic_category().message(errno);
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool send(std::string_view text) {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text);
  }
  /// Reads until `last` has been received or the connection ends.
  std::string read_to(std::string_view last) {
    std::string text;
    char next = 0;
    while (!text.ends_with(last) && ::recv(socket_, &next, 1, 0) == 1) text += next;
    return text;
  }

 private:
  int socket_;
};

TEST(BufferServer, serves_others_while_a_client_sends_half_a_body) {
  OpenServer server;
  std::deque<RawClient> clients;
  for (int i = 0; i < 300; ++i) {
    clients.emplace_back(server.port());
    ASSERT_TRUE(clients.back().send("POST /v1/samples HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" +
                                    rollout_line("a", 0)));
  }
  EXPECT_EQ(server.post("/v1/samples", rollout_line("b", 0))->status, 200);
  clients.clear();
  EXPECT_EQ(server.buffer().status().stream.received.samples, 1) << "nothing of half a body is taken";
}

TEST(BufferServer, serves_others_despite_many_clients_without_the_token) {
  // The server closes connections without the token if they use more than a quarter of the descriptors: 256.
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit files { 1024, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  OpenServer server({.token = "secret"});
  std::deque<RawClient> clients;
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(clients.emplace_back(server.port()).send("GET /v1/status HT"));
  EXPECT_EQ(server.post("/v1/samples", rollout_line("b", 0), {{"Authorization", "Bearer secret"}})->status,
            200);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(BufferServer, does_not_read_the_body_of_a_client_without_the_token) {
  OpenServer server({.token = "secret"});
  RawClient client(server.port());
  ASSERT_TRUE(client.send("POST /v1/samples HTTP/1.1\r\nContent-Length: 60000000\r\n\r\nabc"));
  EXPECT_THAT(client.read_to("\r\n\r\n"), HasSubstr("401"));
  RawClient cautious(server.port());
  ASSERT_TRUE(
      cautious.send("POST /v1/samples HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 60000000\r\n\r\n"));
  EXPECT_THAT(cautious.read_to("\r\n\r\n"), HasSubstr("401"));
}

TEST(BufferServer, stops_while_clients_send_heads_and_bodies_byte_by_byte) {
  std::vector<std::thread> clients;
  {
    OpenServer server;
    for (const std::string begin : {"GET /v1/status HTTP/1.1\r\nX-Head: ",
                                    "POST /v1/samples HTTP/1.1\r\nContent-Length: 1000\r\n\r\n"}) {
      clients.emplace_back([port = server.port(), begin] {
        RawClient client(port);
        for (bool is_open = client.send(begin); is_open; is_open = client.send("a"))
          std::this_thread::sleep_for(50ms);
      });
    }
    std::this_thread::sleep_for(100ms);
  }
  for (std::thread& client : clients) client.join();
}

TEST(BufferServer, answers_pipelined_requests_in_order) {
  OpenServer server;
  RawClient client(server.port());
  const std::string line = rollout_line("a", 0);
  const std::string post =
      "POST /v1/samples HTTP/1.1\r\nContent-Length: " + std::to_string(line.size()) + "\r\n\r\n" + line;
  ASSERT_TRUE(client.send(post + "GET /nothing HTTP/1.1\r\n\r\n" + post +
                          "GET /v1/status HTTP/1.1\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(client.read_to("no end"),
              testing::ContainsRegex("\"accepted\":1(.|\n)*404(.|\n)*\"duplicates\":1(.|\n)*\"received\":1"));
}

TEST(BufferServer, accepts_chunked_bodies_with_extensions_and_trailers) {
  OpenServer server;
  const std::string head = "POST /v1/samples HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n";
  const auto chunk = [](const std::string& text) {
    return fmt::format("{:x};a=b\r\n{}\r\n", text.size(), text);
  };
  const auto answer = [&](const std::string& body) {
    RawClient client(server.port());
    EXPECT_TRUE(client.send(head + body));
    return client.read_to("}\n");
  };
  const std::string line = rollout_line("a", 0);
  EXPECT_THAT(answer(chunk(line.substr(0, 9)) + chunk(line.substr(9)) + "0\r\nSum: 1\r\nOther: 2\r\n\r\n"),
              HasSubstr("\"accepted\":1"));
  EXPECT_THAT(answer("xyz\r\n"), HasSubstr("400"));
  EXPECT_THAT(answer("-1\r\n"), HasSubstr("400"));
  EXPECT_THAT(answer("ffffffffffffffffff\r\n"), HasSubstr("400"));
}

TEST(JobClient, takes_a_job_from_the_first_sample_to_the_last_step) {
  OpenServer server;
  JobClient job(server.url());
  EXPECT_THROW(job.begin(3), InputError) << "groups of two do not fill it";
  const JobPass pass = job.begin(2).pass;
  EXPECT_THROW(JobClient(server.url()).publish(3), InputError) << "which is no job";
  std::thread producer([&] {
    server.post("/v1/samples", rollout_line("a", 1));
    server.post("/v1/samples", rollout_line("a", 0));
  });
  const JobWaitingGroups waiting = job.wait_for_groups(1, 10, 30s);
  producer.join();
  ASSERT_EQ(waiting.groups.size(), 1);
  EXPECT_EQ(waiting.groups[0].uid, Uid("a"));
  EXPECT_EQ(job.wait_for_step(3, 0s).ready_groups, 1);
  job.publish(3);
  const stream::StepFormed step{3, 3, {{"a", 2}}, {}, {}};
  std::thread former([&] { EXPECT_TRUE(JobClient(server.url(), {}, {}, pass).form_step(step)); });
  const JobStep come = job.wait_for_step(3, 30s);
  EXPECT_EQ(come.step, job.untrained_steps(0).at(0));
  former.join();
  EXPECT_TRUE(job.form_step(step));
  EXPECT_FALSE(job.form_step({3, 3, {{"b", 2}}, {}, {}}));
  const std::vector<stream::FormedStep> formed = job.untrained_steps(0);
  ASSERT_EQ(formed.size(), 1);
  std::vector<std::int64_t> arrivals;
  for (const stream::WaitingSample& sample : formed[0].groups[0].samples) arrivals.push_back(sample.arrival);
  EXPECT_EQ(job.fetch_samples(arrivals), rollout_line("a", 0) + rollout_line("a", 1));
  EXPECT_EQ(job.fetch_samples({}), "");
  EXPECT_EQ(job.schema().fields.size(), 2) << "index and version";
  job.report_trained(3);
  EXPECT_TRUE(job.untrained_steps(0).empty());
  EXPECT_THROW(job.fetch_samples(arrivals), InputError);
  EXPECT_EQ(job.wait_for_step(4, 0s).trained_step, 3);
  server.buffer().end_stream();
  EXPECT_TRUE(job.wait_for_step(4, 30s).is_over);
  EXPECT_TRUE(job.wait_for_groups(1, 10, 30s).has_ended);
}

TEST(BufferServer, refuses_a_job_with_another_version_of_calls) {
  OpenServer server;
  const auto begin = [&](const std::string& more) {
    return server.post("/v1/job/begin", R"({"samples_per_step": 2)" + more + "}");
  };
  const auto refused = begin(R"(, "protocol": 2)");
  EXPECT_EQ(refused->status, 422);
  EXPECT_THAT(refused->body,
              AllOf(HasSubstr("job uses version 2 of the protocol"), HasSubstr("supports version 1")));
  EXPECT_EQ(begin(R"(, "protocol": "1")")->status, 422);
  EXPECT_EQ(begin(R"(, "protocol": 1)")->status, 200);
}

TEST(JobClient, reports_an_unreachable_buffer) {
  EXPECT_THROW(JobClient("http://127.0.0.1:1").begin(1), IoError);
  EXPECT_THROW(JobClient("nonsense"), ConfigError);
}

}  // namespace
}  // namespace evenkeel
