#include "buffer/values/value_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "buffer/http/server_calls.hpp"
#include "buffer/values/answer_file.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::ordered_json;

constexpr std::int64_t max_values_in_flight = std::int64_t{1} << 30;
constexpr const char* frame_type = "application/octet-stream";

ordered_json json_of(const ValueStatus& status) {
  ordered_json out{{"store", status.store},      {"durable", status.data_loss_risk.empty()},
                   {"indexes", status.indexes},  {"values", status.values},
                   {"bytes", status.bytes},      {"used", status.used},
                   {"capacity", status.capacity}};
  if (!status.data_loss_risk.empty()) out["risk"] = status.data_loss_risk;
  return out;
}

std::string metrics_of(const ValueStatus& status) {
  std::string out;
  const auto gauge = [&](const char* name, const char* help, std::int64_t value) {
    out += fmt::format(
        "# HELP evenkeel_store_{0} {1}\n# TYPE evenkeel_store_{0} gauge\nevenkeel_store_{0} {2}\n", name,
        help, value);
  };
  gauge("indexes", "Samples that have values", status.indexes);
  gauge("values", "Values that are stored", status.values);
  gauge("value_bytes", "Bytes of the values that are stored", status.bytes);
  gauge("used_bytes", "Bytes in use", status.used);
  gauge("capacity_bytes", "Maximum number of bytes in use", status.capacity);
  return out;
}

class ValueCalls final : public ServerCalls {
 public:
  ValueCalls(std::shared_ptr<ValueStore> store, std::filesystem::path checkpoints)
      : ServerCalls("is not an endpoint of a value store",
                    "Send values with POST /v1/values; GET /v1/status reports the store's contents"),
        owner_(std::move(store)),
        store_(*owner_),
        checkpoints_(std::move(checkpoints)) {
    add_post("/v1/values", [this](const Request&, Response& response, Connection& connection) {
      handle_put(response, connection);
    });
    add_post("/v1/values/get", [this](const Request& request, Response& response, Connection& connection) {
      handle_get(request, response, connection);
    });
    register_call(
        "/v1/values/clear",
        [this](const Request&, Response& response, const std::string& body) {
          answer(response, {{"cleared", store_.clear(parse_selection(body))}});
        },
        max_head_of_frame);
    register_file_call("/v1/values/save",
                       [this](const std::filesystem::path& path) { return store_.save(path); });
    register_file_call("/v1/values/load",
                       [this](const std::filesystem::path& path) { return store_.load(path); });
    add_get("/v1/status",
            [this](const Request&, Response& response) { answer(response, json_of(store_.status())); });
    add_get("/metrics", [this](const Request&, Response& response) {
      response.set_content(metrics_of(store_.status()), "text/plain; version=0.0.4");
    });
  }

 private:
  void handle_put(Response& response, Connection& connection) {
    InFlightBytes in_flight(bytes_in_flight_, max_values_in_flight);
    ReceivedValues received(store_.max_frame_bytes());
    if (!receive_body(response, connection, store_.max_frame_bytes(), in_flight, received)) return;
    received.require_complete();
    store_.put(received);
    const FrameHead& head = received.head();
    answer(response,
           {{"stored", head.fields.size() * head.indexes.size()}, {"bytes", received.bytes_of_values()}});
  }

  /// An answer with values that is being sent to a client.
  struct Sending {
    FoundValues values;
    InFlightBytes in_flight;
    std::string start;
  };

  /// Writes the answer to the client's file. In the file, each field begins at a multiple of 64 bytes.
  /// Returns false if the answer cannot be written, or if it is so small that the socket is faster.
  static bool write_to_file(const Sending& sending, AnswerFile& file, Response& response) {
    if (sending.values.bytes() < min_file_answer || !file.write(sending.start)) return false;
    for (std::size_t field = 0; field < sending.values.head().fields.size(); ++field) {
      if (!file.pad_to_alignment() ||
          !sending.values.for_each_run_of(field, [&](std::string_view run) { return file.write(run); }))
        return false;
    }
    const std::int64_t bytes = file.flush();
    if (bytes >= 0) response.set_header(answer_bytes_header, std::to_string(bytes));
    return bytes >= 0;
  }

  void handle_get(const Request& request, Response& response, Connection& connection) {
    std::optional<AnswerFile> file;
    try {
      file = AnswerFile::open(request, connection);
    } catch (const AnswerFileError& error) {
      return answer(response, error.status(), error.report());
    }
    InFlightBytes of_query(bytes_in_flight_);
    RequestBody query;
    if (!receive_body(response, connection, max_head_of_frame, of_query, query)) return;
    std::shared_ptr<Sending> sending;
    try {
      sending.reset(new Sending{
          store_.get(parse_query(query.bytes())), InFlightBytes(bytes_in_flight_, max_values_in_flight), {}});
    } catch (const MissingValuesError& error) {
      answer(response, error);
      ordered_json content = ordered_json::parse(response.body);
      content["missing"] = error.count();
      response.status = 404;
      return answer(response, content);
    }
    sending->in_flight.add(sending->values.copied_bytes());
    sending->start = encode_frame_start(sending->values.head());
    if (file && write_to_file(*sending, *file, response)) return;
    const auto size = sending->start.size() + static_cast<std::size_t>(sending->values.bytes());
    response.set_content_provider(
        size, frame_type, [sending](std::size_t, std::size_t, httplib::DataSink& sink) {
          return sink.write(sending->start.data(), sending->start.size()) &&
                 sending->values.for_each_run(
                     [&](std::string_view run) { return sink.write(run.data(), run.size()); });
        });
  }

  void register_file_call(const char* path, std::function<ValueStatus(const std::filesystem::path&)> act) {
    register_call(path, [this, act = std::move(act)](const Request&, Response& response,
                                                     const std::string& body) {
      if (checkpoints_.empty()) {
        return answer(response, 403,
                      {ErrorKind::config, "path", "cannot be used: this store does not save or load files",
                       "Start it with --checkpoints FOLDER", -1});
      }
      const ValueStatus status = act(parse_allowed_path(parse_object(body)));
      answer(response, {{"indexes", status.indexes}, {"bytes", status.bytes}});
    });
  }

  /// Returns the path in a body such as {"path": "/folder/file"}. Throws InputError unless the file's folder
  /// exists and, after links are resolved, is `checkpoints_` or a folder within it.
  [[nodiscard]] std::filesystem::path parse_allowed_path(const nlohmann::json& given) const {
    const nlohmann::json text = given.value("path", nlohmann::json());
    const std::filesystem::path path = text.is_string() ? text.get<std::string>() : "";
    if (!path.is_absolute() || !path.has_filename())
      throw InputError("path", "is '" + path.string() + "', which is not the absolute path of a file",
                       "Send {\"path\": \"/folder/file\"}");
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::canonical(path.parent_path(), error);
    const std::filesystem::path allowed = std::filesystem::weakly_canonical(checkpoints_);
    const auto [rest, inside] = std::ranges::mismatch(allowed, folder);
    const std::filesystem::path name = path.filename();
    if (error || rest != allowed.end() || name == "." || name == "..") {
      throw InputError(
          "path", "is " + path.string() + ", which is not in an existing folder within " + allowed.string(),
          "Use that folder, or start the store with another --checkpoints FOLDER");
    }
    return folder / name;
  }

  const std::shared_ptr<ValueStore> owner_;
  ValueStore& store_;
  const std::filesystem::path checkpoints_;
};

}  // namespace

HttpHandler make_answer_function(std::shared_ptr<ValueStore> store,
                                 const std::filesystem::path& checkpoints) {
  auto answers = std::make_shared<ValueCalls>(std::move(store), checkpoints);
  return [answers](const Request& request, Response& response, Connection* connection) {
    answers->answer_request(request, response, connection);
  };
}

ValueServer::ValueServer(ValueStore& store, const ServerSettings& settings,
                         const std::filesystem::path& checkpoints)
    : HttpListener(settings,
                   make_answer_function(std::shared_ptr<ValueStore>(std::shared_ptr<ValueStore>(), &store),
                                        checkpoints)) {}

}  // namespace evenkeel
