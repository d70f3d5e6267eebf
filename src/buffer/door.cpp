#include "buffer/door.hpp"

#include <httplib.h>
#include <sys/stat.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <fstream>
#include <functional>
#include <limits>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "buffer/connections.hpp"
#include "buffer/door_json.hpp"
#include "buffer/door_words.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using httplib::ContentReader;
using httplib::Request;
using httplib::Response;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int backlog = 1024;
constexpr int silent_seconds = 10;  // in the middle of a request
constexpr int idle_seconds = 5;     // between two of them
constexpr std::chrono::seconds longest_body{120};
constexpr std::chrono::milliseconds longest_wait{30'000};
constexpr std::int64_t most_bytes_in_flight = std::int64_t{192} << 20;
constexpr std::int64_t most_bytes_of_call = std::int64_t{16} << 20;  // but for samples
constexpr std::int64_t all_groups = std::numeric_limits<std::int64_t>::max();
constexpr const char* json_type = "application/json";
constexpr const char* lines_type = "application/x-ndjson";
constexpr const char* tensors_type = "application/octet-stream";  // safetensors, each behind its size

/// Bytes of bodies that are in memory at this time.
class InFlight {
 public:
  explicit InFlight(std::atomic<std::int64_t>& all) : all_(all) {}
  ~InFlight() { all_ -= mine_; }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  void add(std::int64_t bytes) {
    mine_ += bytes;
    if ((all_ += bytes) > most_bytes_in_flight) {
      throw FullError({ErrorKind::limit, "body", "cannot be taken now: too many others are being sent",
                       "Send the same again", -1});
    }
  }

 private:
  std::atomic<std::int64_t>& all_;
  std::int64_t mine_ = 0;
};

int status_of(const Error& error) {
  if (dynamic_cast<const FieldsError*>(&error) != nullptr) return 409;
  if (dynamic_cast<const FullError*>(&error) != nullptr) return 429;
  switch (error.report().kind) {
    case ErrorKind::limit:
      return 413;
    case ErrorKind::io:
      return 503;
    default:
      return 422;
  }
}

void answer(Response& response, const ordered_json& content) {
  response.set_content(content.dump(-1, ' ', false, json::error_handler_t::replace) + "\n", json_type);
}

void answer(Response& response, int status, const ErrorReport& report) {
  response.status = status;
  if (status == 429 || status == 503) response.set_header("Retry-After", "1");
  answer(response, {{"error", to_string(report)},
                    {"where", report.where},
                    {"message", report.message},
                    {"hint", report.hint}});
}

std::int64_t parameter(const Request& request, const std::string& name, std::int64_t otherwise) {
  if (!request.has_param(name)) return otherwise;
  const std::string text = request.get_param_value(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    throw InputError(name, "is '" + text + "'; a whole number is needed");
  return value;
}

std::chrono::milliseconds time_to_wait(const Request& request) {
  const std::chrono::seconds wait{std::min<std::int64_t>(parameter(request, "wait", 0), 3600)};
  return std::min<std::chrono::milliseconds>(wait, longest_wait);
}

/// What the sender says; 0 if nothing that can be.
std::int64_t told_bytes(const Request& request) {
  const std::string text = request.get_header_value("Content-Length");
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  return error == std::errc{} && end == text.data() + text.size() && bytes > 0 ? bytes : 0;
}

bool send(httplib::DataSink& sink, std::string_view bytes) {
  return bytes.empty() || sink.write(bytes.data(), bytes.size());
}

/// httplib's servers, with a longer queue of connections.
template <typename Server>
class Listening : public Server {
 public:
  using Server::Server;
  void listen_to(int connections) { ::listen(this->svr_sock_, connections); }
};

}  // namespace

class Door::Answers {
 public:
  Answers(Buffer& buffer, const DoorSettings& settings) : buffer_(buffer), settings_(settings) {
    if (settings.token.empty() && !is_loopback(settings.address)) {
      throw ConfigError("listen", "is " + settings.address + ", which others can reach",
                        "Name a file with a token, or listen on 127.0.0.1");
    }
    if (settings.certificate.empty() != settings.key.empty())
      throw ConfigError("cert", "and key go together", "Give both, or none");
    if (settings.certificate.empty()) {
      use<httplib::Server>();
    } else {
      use<httplib::SSLServer>(settings.certificate.c_str(), settings.key.c_str());
    }
  }

  [[nodiscard]] int port() const noexcept { return port_; }
  [[nodiscard]] std::string url() const {
    const std::string scheme = settings_.certificate.empty() ? "http://" : "https://";
    const bool is_v6 = settings_.address.find(':') != std::string::npos;
    return scheme + (is_v6 ? "[" + settings_.address + "]" : settings_.address) + ":" + std::to_string(port_);
  }
  httplib::Server& server() noexcept { return *server_; }

 private:
  template <typename Server, typename... Arguments>
  void use(Arguments... arguments) {
    auto server = std::make_unique<Listening<Server>>(arguments...);
    if (!server->is_valid()) {
      throw IoError(settings_.certificate.string(),
                    "cannot be used as a certificate with the key " + settings_.key.string(),
                    "Both must be PEM files, and belong together");
    }
    server->new_task_queue = [] { return new Connections; };
    server->set_tcp_nodelay(true);
    server->set_keep_alive_max_count(std::numeric_limits<std::size_t>::max());
    server->set_keep_alive_timeout(idle_seconds);
    server->set_read_timeout(silent_seconds);
    server->set_write_timeout(silent_seconds);
    server->set_payload_max_length(static_cast<std::size_t>(buffer_.most_body_bytes()));
    // httplib's own would share the port with another buffer.
    server->set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    add_calls(*server);
    port_ = settings_.port;
    if (port_ == 0) {
      port_ = server->bind_to_any_port(settings_.address);
    } else if (!server->bind_to_port(settings_.address, port_)) {
      port_ = -1;
    }
    if (port_ < 0) {
      throw IoError(settings_.address + ":" + std::to_string(settings_.port), "cannot be listened on",
                    "Is another program there? Try another port");
    }
    server->listen_to(backlog);
    server_ = std::move(server);
  }

  using Call = std::function<void(const Request&, Response&, const std::string& body)>;

  /// `act`, if the sender may, with its errors as answers.
  template <typename Act>
  void guard(const Request& request, Response& response, Act&& act) const {
    try {
      if (!settings_.token.empty() &&
          !is_token(request.get_header_value("Authorization"), "Bearer " + settings_.token)) {
        response.set_header("WWW-Authenticate", "Bearer");
        const bool has_none = !request.has_header("Authorization");
        return answer(response, 401,
                      {ErrorKind::config, "Authorization", has_none ? "is missing" : "has another token",
                       "Send Authorization: Bearer TOKEN, with the token of the buffer's file", -1});
      }
      act();
    } catch (const Error& error) {
      answer(response, status_of(error), error.report());
    } catch (const std::bad_alloc&) {
      answer(response, 503, {ErrorKind::io, "buffer", "is out of memory", "Send the same again", -1});
    }
  }

  /// Reads a request's body to its end, also of one that is refused: what follows it is the next request.
  /// Returns false, with the answer, if there is more than `most` or it does not come.
  static bool receive(const Request& request, Response& response, const ContentReader& reader,
                      std::int64_t most, const std::function<void(std::span<const char>)>& take) {
    if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) return true;
    const auto begun = std::chrono::steady_clock::now();
    std::int64_t bytes = 0;
    const bool is_whole = reader([&](const char* data, std::size_t size) {
      bytes += static_cast<std::int64_t>(size);
      if (bytes > most || std::chrono::steady_clock::now() - begun > longest_body) return false;
      take({data, size});
      return true;
    });
    if (is_whole) return true;
    const bool is_large = bytes > most || response.status == 413;
    response.set_header("Connection", "close");
    answer(
        response, is_large ? 413 : 400,
        is_large
            ? ErrorReport{ErrorKind::limit, "body", "has more than " + std::to_string(most) + " bytes",
                          "Send fewer samples in a request", -1}
            : ErrorReport{ErrorKind::input, "body", "ended before its last byte", "Send the same again", -1});
    return false;
  }

  void add_call(httplib::Server& server, const char* path, Call call) {
    server.Post(path, [this, call = std::move(call)](const Request& request, Response& response,
                                                     const ContentReader& reader) {
      take_as_it_is(request);
      std::string body;
      if (!receive(request, response, reader, most_bytes_of_call,
                   [&](std::span<const char> bytes) { body.append(bytes.begin(), bytes.end()); }))
        return;
      guard(request, response, [&] { call(request, response, body); });
    });
  }

  /// httplib would unpack and take apart some bodies itself, without noticing that one is cut off.
  static std::string take_as_it_is(const Request& request) {
    auto& headers = const_cast<Request&>(request).headers;
    std::string encoding = request.get_header_value("Content-Encoding");
    headers.erase("Content-Encoding");
    if (request.is_multipart_form_data()) headers.erase("Content-Type");
    return encoding;
  }

  void take_samples(const Request& request, Response& response, const ContentReader& reader) {
    const std::string encoding = take_as_it_is(request);
    InFlight in_flight(bytes_in_flight_);
    SpooledBody body;
    const std::int64_t expected = std::min(told_bytes(request), buffer_.most_body_bytes());
    std::exception_ptr failure;
    const auto keep = [&](std::span<const char> bytes) {
      try {
        if (failure) return;
        if (body.size() == 0) body.expect(expected);
        in_flight.add(std::ssize(bytes));
        body.write(bytes);
      } catch (const Error&) {
        failure = std::current_exception();
      }
    };
    if (!receive(request, response, reader, buffer_.most_body_bytes(), keep)) return;
    guard(request, response, [&] {
      if (failure) std::rethrow_exception(failure);
      const bool are_tensors =
          request.get_header_value("Content-Type").starts_with("application/vnd.safetensors");
      const SampleForm form = are_tensors ? SampleForm::tensors : SampleForm::lines;
      const Packing packing = packing_of(encoding);
      if (packing != Packing::none) {
        SpooledBody packed = std::move(body);
        answer(response, json_of(buffer_.take(
                             ReceivedSamples(packed.unpacked(packing, buffer_.most_body_bytes()), form))));
      } else {
        answer(response, json_of(buffer_.take(ReceivedSamples(std::move(body), form))));
      }
    });
  }

  static json object_of(const std::string& body) {
    json parsed = json::parse(body.empty() ? "{}" : body, nullptr, false);
    if (!parsed.is_object()) throw InputError("body", "is no JSON object");
    return parsed;
  }

  void add_get(httplib::Server& server, const char* path,
               std::function<void(const Request&, Response&)> act) {
    server.Get(path, [this, act = std::move(act)](const Request& request, Response& response) {
      guard(request, response, [&] { act(request, response); });
    });
  }

  void add_calls(httplib::Server& server) {
    server.Post("/v1/samples",
                [this](const Request& request, Response& response, const ContentReader& reader) {
                  try {
                    take_samples(request, response, reader);
                  } catch (const Error& error) {
                    answer(response, status_of(error), error.report());
                  }
                });
    add_call(server, "/v1/tickets", [this](const Request&, Response& response, const std::string& body) {
      const GrantedTickets granted = buffer_.grant(number_at(object_of(body), "groups", 1));
      answer(response, {{"granted", granted.groups}, {"version", granted.version}});
    });
    add_call(server, "/v1/groups/(.+)/close",
             [this](const Request& request, Response& response, const auto&) {
               buffer_.close_group(buffer_.group_called(request.matches[1]));
               answer(response, {{"version", buffer_.status().stream.version}});
             });
    add_call(server, "/v1/groups/(.+)/abort",
             [this](const Request& request, Response& response, const std::string& body) {
               const json given = object_of(body);
               std::optional<std::int64_t> index;
               if (given.contains("index")) index = number_at(given, "index", 0);
               const json reason = given.value("reason", json(""));
               if (!reason.is_string()) throw InputError("body", "has a 'reason' that is no text");
               buffer_.abort_group(buffer_.group_called(request.matches[1]), index, reason);
               answer(response, {{"version", buffer_.status().stream.version}});
             });
    add_call(server, "/v1/end", [this](const Request&, Response& response, const auto&) {
      buffer_.end();
      answer(response, {{"version", buffer_.status().stream.version}});
    });
    add_get(server, "/v1/status",
            [this](const Request&, Response& response) { answer(response, json_of(buffer_.status())); });
    add_get(server, "/metrics", [this](const Request&, Response& response) {
      response.set_content(metrics_of(buffer_.status()), "text/plain; version=0.0.4");
    });
    add_job_calls(server);
  }

  void add_job_calls(httplib::Server& server) {
    add_call(server, "/v1/job/begin", [this](const Request&, Response& response, const std::string& body) {
      const std::int64_t samples = number_at(object_of(body), "samples_per_step", 1);
      const std::int64_t group_size = buffer_.settings().group_size;
      if (samples % group_size != 0) {
        throw InputError("batch.global_batch",
                         "is " + std::to_string(samples) + ", and the buffer's groups of " +
                             std::to_string(group_size) + " samples do not fill it",
                         "Set it to a multiple of the buffer's --group-size");
      }
      buffer_.begin_job(samples / group_size);
      answer(response, {{"settings", json_of(buffer_.settings())}, {"status", json_of(buffer_.status())}});
    });
    add_get(server, "/v1/job/fields", [this](const Request&, Response& response) {
      response.set_content(text_of_schema(buffer_.schema()), json_type);
    });
    add_get(server, "/v1/job/waiting", [this](const Request& request, Response& response) {
      answer(response,
             json_of(buffer_.wait_for(parameter(request, "groups", 1), parameter(request, "most", all_groups),
                                      time_to_wait(request))));
    });
    add_get(server, "/v1/job/step", [this](const Request& request, Response& response) {
      answer(response, json_of(buffer_.wait_for_step(parameter(request, "step", 0), time_to_wait(request))));
    });
    add_call(server, "/v1/job/filtered", [this](const Request&, Response& response, const std::string& body) {
      buffer_.drop_filtered(arrivals_of(object_of(body)));
      answer(response, {{"version", buffer_.status().stream.version}});
    });
    add_call(server, "/v1/job/gives_up", [this](const Request&, Response& response, const std::string& body) {
      const json given = object_of(body);
      const json why = given.value("why", json(""));
      if (!why.is_string()) throw InputError("body", "has a 'why' that is no text");
      buffer_.give_up(number_at(given, "step", 0), why);
      answer(response, {{"version", buffer_.status().stream.version}});
    });
    add_get(server, "/v1/job/steps", [this](const Request& request, Response& response) {
      ordered_json steps = ordered_json::array();
      for (const stream::FormedStep& step : buffer_.formed(parameter(request, "from", 0)))
        steps.push_back(json_of(step));
      answer(response, {{"steps", std::move(steps)}});
    });
    add_call(server, "/v1/job/steps", [this](const Request&, Response& response, const std::string& body) {
      json event = object_of(body);
      event["number"] = 0;
      event["event"] = "formed";
      const stream::Event formed = stream::event_of(event);
      buffer_.form(std::get<stream::StepFormed>(formed.what));
      answer(response, {{"step", std::get<stream::StepFormed>(formed.what).step}});
    });
    add_call(server, "/v1/job/version", [this](const Request&, Response& response, const std::string& body) {
      const std::int64_t version = number_at(object_of(body), "version", 0);
      buffer_.publish(version);
      answer(response, {{"version", version}});
    });
    add_call(server, "/v1/job/trained", [this](const Request&, Response& response, const std::string& body) {
      const std::int64_t step = number_at(object_of(body), "step", 0);
      buffer_.trained(step);
      answer(response, {{"step", step}});
    });
    add_call(server, "/v1/job/samples", [this](const Request&, Response& response, const std::string& body) {
      send_samples(object_of(body), response);
    });
  }

  /// All are looked at before the first is sent, each from where it is stored.
  void send_samples(const json& asked, Response& response) const {
    struct Sending {
      std::vector<std::int64_t> arrivals;
      std::size_t next = 0;
    };
    auto sending = std::make_shared<Sending>(Sending{arrivals_of(asked)});
    std::size_t bytes = 0;
    bool are_tensors = false;
    for (const std::int64_t arrival : sending->arrivals) {
      buffer_.read_body(arrival, [&](std::string_view body) {
        const BodyFrame frame = frame_of(body);
        bytes += frame.before.size() + body.size() + frame.after.size();
        are_tensors = form_of_body(body) == SampleForm::tensors;
      });
    }
    const char* const type = are_tensors ? tensors_type : lines_type;
    if (bytes == 0) return response.set_content("", type);
    response.set_content_provider(
        bytes, type, [this, sending](std::size_t, std::size_t, httplib::DataSink& sink) {
          bool is_sent = false;
          try {
            buffer_.read_body(sending->arrivals[sending->next++], [&](std::string_view body) {
              const BodyFrame frame = frame_of(body);
              is_sent = send(sink, frame.before) && send(sink, body) && send(sink, frame.after);
            });
          } catch (const Error&) {
            return false;  // the connection ends before the last byte
          }
          return is_sent;
        });
  }

  Buffer& buffer_;
  const DoorSettings settings_;
  std::unique_ptr<httplib::Server> server_;
  int port_ = -1;
  std::atomic<std::int64_t> bytes_in_flight_ = 0;
};

Door::Door(Buffer& buffer, const DoorSettings& settings)
    : answers_(std::make_unique<Answers>(buffer, settings)) {}

Door::~Door() = default;

int Door::port() const noexcept {
  return answers_->port();
}

std::string Door::url() const {
  return answers_->url();
}

void Door::serve() {
  answers_->server().listen_after_bind();
}

void Door::stop() {
  answers_->server().stop();
}

std::string read_token(const std::filesystem::path& path) {
  std::string token;
  std::ifstream file(path);
  if (!file) throw IoError(path.string(), "cannot be opened");
  std::getline(file, token);
  while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
  if (token.empty()) throw ConfigError(path.string(), "has no token in its first line");
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw ConfigError(path.string(), "can be read by others", "chmod 600 " + path.string());
  return token;
}

}  // namespace evenkeel
