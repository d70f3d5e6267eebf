#include "buffer/server.hpp"

#include <httplib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text/parse_number.hpp"
#include "buffer/http/answers.hpp"
#include "buffer/http/server_calls.hpp"
#include "buffer/server_json.hpp"
#include "evenkeel/base/error.hpp"
#include "stream/event.hpp"

namespace evenkeel {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::chrono::milliseconds longest_wait{30'000};
constexpr std::int64_t all_groups = std::numeric_limits<std::int64_t>::max();
// Minimum size in bytes of the pieces in which samples are sent, except the last piece of an answer.
constexpr std::size_t joined_bytes = std::size_t{64} << 10;
constexpr const char* lines_type = "application/x-ndjson";
constexpr const char* tensors_type =
    "application/octet-stream";  // content: safetensors files, each preceded by its size

std::int64_t parse_number(const json& in, const char* name, std::int64_t least) {
  const std::optional<std::int64_t> number =
      in.contains(name) ? stream::parse_integer(in[name]) : std::nullopt;
  if (!number || *number < least) {
    const std::string limit = "an integer of at least " + std::to_string(least);
    throw InputError("body",
                     in.contains(name)
                         ? "has " + in[name].dump().substr(0, 40) + " as '" + name + "'; it must be " + limit
                         : "has no '" + std::string(name) + "', which must be " + limit,
                     "Send for example {\"" + std::string(name) + "\": " + std::to_string(least) + "}");
  }
  return *number;
}

/// Throws InputError if a job's protocol version differs from this server's version.
void require_supported_protocol(std::int64_t version) {
  if (version == job_protocol_version) return;
  throw InputError("",
                   "the job uses version " + std::to_string(version) + " of the protocol" +
                       "; this buffer supports version " + std::to_string(job_protocol_version),
                   "Run the job and the buffer with the same version of Evenkeel");
}

/// Returns the job's pass from the parameter `job`. It is empty for readers that are not part of a job, which
/// do not need a pass.
std::string read_pass(const Request& request) {
  return request.has_param("job") ? request.get_param_value("job") : "";
}

std::int64_t integer_parameter(const Request& request, const std::string& name, std::int64_t otherwise) {
  if (!request.has_param(name)) return otherwise;
  const std::string text = request.get_param_value(name);
  const std::optional<std::int64_t> value = parse_as<std::int64_t>(text);
  if (!value || *value < 0) throw InputError(name, "is '" + text + "'; it must be an integer of at least 0");
  return *value;
}

/// Returns the waiting time from parameter `wait`, which is in seconds and may have a fraction; at most
/// longest_wait.
std::chrono::milliseconds read_wait_time(const Request& request) {
  const std::string text = request.has_param("wait") ? request.get_param_value("wait") : "0";
  const std::optional<double> seconds = parse_as<double>(text);
  if (!seconds || !(*seconds >= 0))
    throw InputError("wait", "is '" + text + "'; it must be a number of seconds of at least 0");
  const std::chrono::duration<double, std::milli> longest = longest_wait;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(1000 * *seconds, longest.count())));
}

std::vector<std::int64_t> parse_arrivals(const json& asked) {
  if (!asked.contains("arrivals") || !asked["arrivals"].is_array())
    throw InputError("body", "has no list 'arrivals'", "Send {\"arrivals\": [0, 1]}");
  std::vector<std::int64_t> arrivals;
  for (const json& arrival : asked["arrivals"]) {
    const std::optional<std::int64_t> number = stream::parse_integer(arrival);
    if (!number)
      throw InputError("body", "has arrivals that are not integers", "Send {\"arrivals\": [0, 1]}");
    arrivals.push_back(*number);
  }
  return arrivals;
}

/// Parses the body of POST /v1/job/steps. Throws InputError about "body" if the body is invalid.
stream::StepFormed parse_formed_step(json event) {
  event["number"] = 0;
  event["event"] = "formed";
  try {
    return std::get<stream::StepFormed>(stream::parse_event(event).what);
  } catch (const InputError& error) {
    throw InputError("body", error.report().message,
                     "Send {\"step\": 7, \"version\": 7, \"groups\": [{\"uid\": \"q1\", \"samples\": 2}], "
                     "\"masked\": [], \"passed\": []}");
  }
}

/// Returns the value of a header, or an empty string if the request does not have it. Throws InputError if
/// the value is too long or not printable ASCII.
std::string read_header(const Request& request, const char* header) {
  const std::string name = request.get_header_value(header);
  const bool is_plain = std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
  if (!is_plain)
    throw InputError(header, "has bytes that are not printable ASCII",
                     "Send only printable ASCII characters");
  if (std::ssize(name) > stream::max_name_bytes) {
    throw InputError(header,
                     "has " + std::to_string(name.size()) + " bytes, but at most " +
                         std::to_string(stream::max_name_bytes) + " are allowed",
                     "Send a shorter value");
  }
  return name;
}

constexpr const char* holder_header = "Evenkeel-Holder";

/// Returns the uid in a body such as {"uid": "q1"} or {"uid": 7}.
Uid read_uid(const json& given) {
  if (!given.contains("uid")) throw InputError("body", "has no 'uid'", "Send {\"uid\": \"q1\"}");
  return parse_uid(given["uid"]);
}

/// Returns the compression for an HTTP content encoding. Names are case-insensitive.
Packing parse_packing(const std::string& given) {
  std::string encoding = given;
  std::ranges::transform(encoding, encoding.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  if (encoding.empty() || encoding == "identity") return Packing::none;
  if (encoding == "gzip" || encoding == "x-gzip") return Packing::gzip;
  if (encoding == "zstd") return Packing::zstd;
  throw InputError("Content-Encoding", "is '" + given + "', which is not supported",
                   "Use gzip or zstd, or leave the header out");
}

/// Throws InputError if the JSON Lines of a request without a Content-Encoding header are compressed.
void require_uncompressed(const InputFile& lines) {
  const Packing packing = detect_packing(lines);
  if (packing == Packing::none) return;
  const std::string name = packing == Packing::gzip ? "gzip" : "zstd";
  throw InputError("body", "looks " + name + "-compressed, but the request is not marked as compressed",
                   "Send the header Content-Encoding: " + name);
}

bool has_tensors(const Request& request) {
  return request.get_header_value("Content-Type").starts_with("application/vnd.safetensors");
}

class BufferCalls final : public ServerCalls, public std::enable_shared_from_this<BufferCalls> {
 public:
  explicit BufferCalls(std::shared_ptr<Buffer> buffer)
      : ServerCalls("is not an endpoint of a buffer",
                    "Send samples with POST /v1/samples; GET /v1/status reports the buffer's contents"),
        owner_(std::move(buffer)),
        buffer_(*owner_) {
    add_calls();
  }

 private:
  /// Receives the body of a request with samples or fields, and decompresses it. Returns nullopt if the
  /// request was answered with an error.
  std::optional<RequestBody> receive_and_decompress(const Request& request, Response& response,
                                                    Connection& connection, InFlightBytes& in_flight) {
    RequestBody body;
    if (!receive_body(response, connection, buffer_.max_body_bytes(), in_flight, body)) return std::nullopt;
    const Packing packing = parse_packing(request.get_header_value("Content-Encoding"));
    if (packing == Packing::none) {
      if (!has_tensors(request)) require_uncompressed(body.file());
      return std::optional<RequestBody>(std::move(body));
    }
    return body.unpack_body(packing, buffer_.max_body_bytes());
  }

  void handle_samples(const Request& request, Response& response, Connection& connection) {
    InFlightBytes in_flight(bytes_in_flight_);
    std::optional<RequestBody> body = receive_and_decompress(request, response, connection, in_flight);
    if (!body) return;
    const SampleForm form = has_tensors(request) ? SampleForm::tensors : SampleForm::lines;
    const std::string holder = read_header(request, holder_header);
    const ReceivedSamples samples(*std::move(body), form, buffer_.formats());
    answer(response, json_of(buffer_.accept_samples(samples, holder)));
  }

  void handle_fields(const Request& request, Response& response, Connection& connection) {
    InFlightBytes in_flight(bytes_in_flight_);
    std::optional<RequestBody> body = receive_and_decompress(request, response, connection, in_flight);
    if (!body) return;
    if (has_tensors(request))
      throw InputError("body", "has safetensors, but fields can only be added as JSON Lines",
                       R"(Send lines such as {"uid": "q1", "index": 0, "NAME": VALUE})");
    answer(response, json_of(buffer_.add_fields(read_fields(body->file(), buffer_.settings().late_fields))));
  }

  /// Runs a call that reads on behalf of a job. Checks the pass again afterwards, since the job may have been
  /// fenced while the call waited.
  template <typename Read>
  auto read_for_job(const Request& request, Read&& read) {
    const std::string pass = read_pass(request);
    buffer_.renew_job(pass);
    auto content = read();
    buffer_.renew_job(pass);
    return content;
  }

  /// Adds a call that makes a change on behalf of a job and therefore requires the job's pass.
  void add_job_change_call(const char* path,
                           std::function<void(Response&, const json& given, const std::string& pass)> act) {
    register_call(
        path, [act = std::move(act)](const Request& request, Response& response, const std::string& body) {
          const std::string pass = read_pass(request);
          if (pass.empty()) {
            throw InputError(
                "job", "is missing from the URL",
                "Call POST /v1/job/begin first, and append ?job=PASS with the value of 'job' in its answer");
          }
          act(response, parse_object(body), pass);
        });
  }

  void add_calls() {
    add_post("/v1/samples", [this](const Request& request, Response& response, Connection& connection) {
      handle_samples(request, response, connection);
    });
    add_post("/v1/fields", [this](const Request& request, Response& response, Connection& connection) {
      handle_fields(request, response, connection);
    });
    register_call("/v1/tickets", [this](const Request& request, Response& response, const std::string& body) {
      const GrantedTickets granted = buffer_.grant_tickets(
          parse_number(parse_object(body), "groups", 1),
          {read_header(request, holder_header), read_header(request, "Idempotency-Key")});
      answer(response, {{"granted", granted.groups}, {"version", granted.version}});
    });
    register_call("/v1/groups/close", [this](const Request&, Response& response, const std::string& body) {
      handle_close(read_uid(parse_object(body)), response);
    });
    register_call("/v1/groups/abort", [this](const Request&, Response& response, const std::string& body) {
      const json given = parse_object(body);
      handle_abort(read_uid(given), given, response);
    });
    register_call("/v1/groups/([\\s\\S]+)/close",
                  [this](const Request& request, Response& response, const auto&) {
                    handle_close(buffer_.find_uid_by_name(request.matches[1]), response);
                  });
    register_call("/v1/groups/([\\s\\S]+)/abort",
                  [this](const Request& request, Response& response, const std::string& body) {
                    const json given = parse_object(body);
                    handle_abort(buffer_.find_uid_by_name(request.matches[1]), given, response);
                  });
    register_call("/v1/end", [this](const Request&, Response& response, const auto&) {
      buffer_.end_stream();
      answer(response, {{"version", buffer_.status().stream.version}});
    });
    register_call("/v1/skip", [this](const Request&, Response& response, const std::string& body) {
      const std::int64_t step = parse_number(parse_object(body), "step", 0);
      buffer_.skip_through(step);
      answer(response, {{"step", step}});
    });
    add_get("/v1/status",
            [this](const Request&, Response& response) { answer(response, json_of(buffer_.status())); });
    add_get("/metrics", [this](const Request&, Response& response) {
      response.set_content(metrics_of(buffer_.status()), "text/plain; version=0.0.4");
    });
    add_job_calls();
  }

  void handle_close(const Uid& uid, Response& response) {
    buffer_.close_group(uid);
    answer(response, {{"version", buffer_.status().stream.version}});
  }

  void handle_abort(const Uid& uid, const json& given, Response& response) {
    std::optional<std::int64_t> index;
    if (given.contains("index")) index = parse_number(given, "index", 0);
    const json reason = given.value("reason", json(""));
    if (!reason.is_string()) throw InputError("body", "has a 'reason' that is not a string", "Send a string");
    const json in_step = given.value("in_step", json(false));
    if (!in_step.is_boolean())
      throw InputError("body", "has an 'in_step' that is not true or false", "Send true or false");
    if (in_step && index) {
      throw InputError("body", "has both 'index' and 'in_step'",
                       "Leave index out: only a whole group can be removed from a formed step");
    }
    std::optional<std::int64_t> step;
    if (in_step)
      buffer_.abort_formed_group(uid, reason);
    else
      step = buffer_.abort_group(uid, index, reason);
    ordered_json content{{"version", buffer_.status().stream.version}};
    if (step) content["in_step"] = *step;
    answer(response, content);
  }

  void add_job_calls() {
    register_call("/v1/job/begin", [this](const Request&, Response& response, const std::string& body) {
      const json given = parse_object(body);
      if (given.contains("protocol")) require_supported_protocol(parse_number(given, "protocol", 1));
      const std::int64_t samples = parse_number(given, "samples_per_step", 1);
      const std::int64_t group_size = buffer_.settings().group_size;
      if (samples % group_size != 0) {
        throw InputError("batch.global_batch",
                         "is " + std::to_string(samples) +
                             ", which is not a multiple of the buffer's groups of " +
                             std::to_string(group_size) + " samples",
                         "Set it to a multiple of the buffer's --group-size");
      }
      const json takes_over = given.value("take_over", json(false));
      if (!takes_over.is_boolean())
        throw InputError("body", "has a 'take_over' that is not true or false", "Send true or false");
      const std::string pass = buffer_.begin_job(
          samples / group_size, {takes_over, parse_acceptance(given.value("accepts", json::object()))});
      ordered_json begun = ordered_json::parse(buffer_.rules());
      begun["job"] = pass;
      begun["ticket_deadline"] = buffer_.settings().ticket_deadline;
      begun["status"] = json_of(buffer_.status());
      answer(response, begun);
    });
    add_get("/v1/job/rules",
            [this](const Request&, Response& response) { response.set_content(buffer_.rules(), json_type); });
    add_get("/v1/job/fields", [this](const Request& request, Response& response) {
      response.set_content(read_for_job(request, [&] { return serialize_schema(buffer_.schema()); }),
                           json_type);
    });
    add_get("/v1/job/waiting", [this](const Request& request, Response& response) {
      answer(response, read_for_job(request, [&] {
               return json_of(buffer_.wait_for_groups(integer_parameter(request, "groups", 1),
                                                      integer_parameter(request, "limit", all_groups),
                                                      read_wait_time(request)));
             }));
    });
    add_get("/v1/job/step", [this](const Request& request, Response& response) {
      answer(response, read_for_job(request, [&] {
               return json_of(
                   buffer_.wait_for_step(integer_parameter(request, "step", 0), read_wait_time(request)));
             }));
    });
    add_get("/v1/job/steps", [this](const Request& request, Response& response) {
      answer(response, read_for_job(request, [&] {
               ordered_json steps = ordered_json::array();
               for (const stream::FormedStep& step :
                    buffer_.untrained_steps(integer_parameter(request, "from", 0)))
                 steps.push_back(json_of(step));
               return ordered_json{{"steps", std::move(steps)}};
             }));
    });
    register_call("/v1/job/samples",
                  [this](const Request& request, Response& response, const std::string& body) {
                    buffer_.renew_job(read_pass(request));
                    send_samples(parse_object(body), response);
                  });
    add_job_change_calls();
  }

  void add_job_change_calls() {
    const auto answer_version = [this](Response& response) {
      answer(response, {{"version", buffer_.status().stream.version}});
    };
    add_job_change_call("/v1/job/alive", [=, this](Response& response, const json&, const std::string& pass) {
      buffer_.renew_job(pass);
      answer_version(response);
    });
    add_job_change_call("/v1/job/leave", [=, this](Response& response, const json&, const std::string& pass) {
      buffer_.leave_job(pass);
      answer_version(response);
    });
    add_job_change_call("/v1/job/filtered",
                        [=, this](Response& response, const json& given, const std::string& pass) {
                          buffer_.drop_filtered(parse_arrivals(given), pass);
                          answer_version(response);
                        });
    add_job_change_call("/v1/job/abandon",
                        [=, this](Response& response, const json& given, const std::string& pass) {
                          const json reason = given.value("reason", json(""));
                          if (!reason.is_string())
                            throw InputError("body", "has a 'reason' that is not a string", "Send a string");
                          buffer_.abandon_step(parse_number(given, "step", 0), reason, pass);
                          answer_version(response);
                        });
    add_job_change_call("/v1/job/steps",
                        [this](Response& response, const json& given, const std::string& pass) {
                          const stream::StepFormed formed = parse_formed_step(given);
                          buffer_.form_step(formed, pass);
                          answer(response, {{"step", formed.step}});
                        });
    add_job_change_call("/v1/job/version",
                        [this](Response& response, const json& given, const std::string& pass) {
                          const std::int64_t version = parse_number(given, "version", 0);
                          buffer_.publish(version, pass);
                          answer(response, {{"version", version}});
                        });
    add_job_change_call("/v1/job/trained",
                        [this](Response& response, const json& given, const std::string& pass) {
                          const std::int64_t step = parse_number(given, "step", 0);
                          buffer_.mark_trained(step, pass);
                          answer(response, {{"step", step}});
                        });
  }

  /// Sends the bodies of samples. Reads all bodies once before it sends the first one, because errors cannot
  /// be reported later. Joins small bodies to avoid packets that contain only the end of a line.
  void send_samples(const json& asked, Response& response) {
    struct Sending {
      std::vector<std::int64_t> arrivals;
      std::size_t next = 0;
      std::string joined;
      std::size_t left = 0;  // number of bytes of the answer that have not been sent yet
    };
    auto sending = std::make_shared<Sending>(Sending{parse_arrivals(asked), 0, {}});
    std::size_t& bytes = sending->left;
    bool are_tensors = false;
    for (const std::int64_t arrival : sending->arrivals) {
      buffer_.read_body(arrival, [&](std::string_view body, const BodyFrame& frame) {
        bytes += frame.before.size() + body.size() + frame.after.size();
        are_tensors = detect_form(body) == SampleForm::tensors;
      });
    }
    const char* const type = are_tensors ? tensors_type : lines_type;
    if (bytes == 0) return response.set_content("", type);
    response.set_content_provider(
        bytes, type,
        [this, self = shared_from_this(), sending](std::size_t, std::size_t, httplib::DataSink& sink) {
          std::string& joined = sending->joined;
          joined.clear();
          try {
            while (sending->next < sending->arrivals.size() && joined.size() < joined_bytes) {
              buffer_.read_body(sending->arrivals[sending->next++],
                                [&](std::string_view body, const BodyFrame& frame) {
                                  joined.append(frame.before).append(body).append(frame.after);
                                });
            }
          } catch (const Error&) {
            return false;  // closes the connection before the last byte, so the client detects the failure
          }
          // A field was added to a sample in the meantime, so the announced size of the answer is too small.
          // Close the connection, so that the client repeats the request.
          if (joined.size() > sending->left) return false;
          sending->left -= joined.size();
          return sink.write(joined.data(), joined.size());
        });
  }

  const std::shared_ptr<Buffer> owner_;
  Buffer& buffer_;
};

}  // namespace

HttpHandler make_answer_function(std::shared_ptr<Buffer> buffer) {
  auto answers = std::make_shared<BufferCalls>(std::move(buffer));
  return [answers](const Request& request, Response& response, Connection* connection) {
    answers->answer_request(request, response, connection);
  };
}

BufferServer::BufferServer(Buffer& buffer, const ServerSettings& settings)
    : HttpListener(settings,
                   make_answer_function(std::shared_ptr<Buffer>(std::shared_ptr<Buffer>(), &buffer))) {}

std::string read_token(const std::filesystem::path& path) {
  std::string token;
  std::ifstream file(path);
  if (!file) throw IoError(path.string(), "cannot be opened", "Name a file that this user can read");
  std::getline(file, token);
  while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
  if (token.empty())
    throw ConfigError(path.string(), "has an empty first line", "Write the token or the password there");
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw ConfigError(path.string(), "can be accessed by other users", "Run chmod 600 " + path.string());
  return token;
}

}  // namespace evenkeel
