#include "bench/stream/producers.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <exception>
#include <mutex>
#include <thread>

#include "bench/measurement.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::bench {
namespace {

constexpr std::int64_t prompt_tokens = 64;

/// The numbers of a list, all with the same number of characters: tokens of five digits, or real numbers.
void append_numbers(std::string& text, std::int64_t count, bool are_real, std::uint64_t seed) {
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    const auto number = static_cast<int>(10'000 + (seed >> 33U) % 90'000);
    if (i > 0) text += ',';
    are_real ? text.append("-0.").append(std::to_string(number)) : text.append(std::to_string(number));
  }
}

std::string line_of(std::int64_t response, int fields) {
  std::string line =
      R"({"uid":")" + std::string(uid_digits, '0') + R"(","index":0,"version":0,"prompt_ids":[)";
  append_numbers(line, prompt_tokens, false, 1);
  line += R"(],"response_ids":[)";
  append_numbers(line, response, false, 2);
  for (int field = 0; field < fields; ++field) {
    line += fmt::format(R"(],"field_{}":[)", field);
    append_numbers(line, response, true, static_cast<std::uint64_t>(3 + field));
  }
  return line + "]}\n";
}

void set_uids(MadeUpBody& body, std::int64_t first) {
  for (const std::size_t place : body.uids) {
    const std::string digits = fmt::format("{:0{}}", first++, uid_digits);
    body.bytes.replace(place, uid_digits, digits);
  }
}

void send(const Sending& sending, MadeUpBody body, int producer) {
  httplib::Client client("127.0.0.1", sending.port);
  client.set_keep_alive(true);
  client.set_tcp_nodelay(true);
  const std::int64_t samples = std::ssize(body.uids);
  std::int64_t uid = sending.first_uid + producer * sending.requests * samples;
  for (std::int64_t request = 0; request < sending.requests; ++request, uid += samples) {
    set_uids(body, uid);
    const httplib::Result answer =
        client.Post(sending.path, body.bytes.data(), body.bytes.size(), body.content_type);
    if (!answer) throw IoError("buffer", "does not answer: " + httplib::to_string(answer.error()));
    if (answer->status != 200)
      throw IoError("buffer", fmt::format("answers {}: {}", answer->status, answer->body));
  }
}

}  // namespace

MadeUpBody lines_of(std::int64_t samples, std::int64_t bytes, int fields) {
  constexpr std::int64_t token_bytes = 6;
  constexpr std::int64_t real_bytes = 9;
  const auto left = bytes - std::ssize(line_of(0, fields));
  const std::string line =
      line_of(std::max<std::int64_t>(1, left / (token_bytes + real_bytes * fields)), fields);
  MadeUpBody body{{}, "application/x-ndjson", {}};
  for (std::int64_t i = 0; i < samples; ++i) {
    body.uids.push_back(body.bytes.size() + 8);
    body.bytes += line;
  }
  return body;
}

double send_from_all(const Sending& sending, const MadeUpBody& body) {
  std::exception_ptr failure;
  std::mutex mutex;
  const double seconds = seconds_of([&] {
    std::vector<std::thread> threads;
    for (int producer = 0; producer < sending.producers; ++producer) {
      threads.emplace_back([&, producer] {
        try {
          send(sending, body, producer);
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  if (failure) std::rethrow_exception(failure);
  return seconds;
}

struct ThrowingAway::Server {
  httplib::Server server;
  std::thread serving;
};

ThrowingAway::ThrowingAway(int producers) : server_(std::make_unique<Server>()) {
  httplib::Server& server = server_->server;
  server.set_tcp_nodelay(true);
  server.set_keep_alive_max_count(std::numeric_limits<std::size_t>::max());
  server.new_task_queue = [producers] {
    return new httplib::ThreadPool(static_cast<std::size_t>(producers));
  };
  server.Post("/v1/samples", [](const httplib::Request&, httplib::Response& response,
                                const httplib::ContentReader& reader) {
    reader([](const char*, std::size_t) { return true; });
    response.set_content("{\"accepted\":1,\"duplicates\":0,\"stale\":0,\"version\":0}\n", "application/json");
  });
  port_ = server.bind_to_any_port("127.0.0.1");
  if (port_ < 0) throw IoError("127.0.0.1", "cannot be used: listening on it failed");
  server_->serving = std::thread([&server] { server.listen_after_bind(); });
}

ThrowingAway::~ThrowingAway() {
  server_->server.stop();
  server_->serving.join();
}

}  // namespace evenkeel::bench
