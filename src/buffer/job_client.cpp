#include "buffer/job_client.hpp"

#include <httplib.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "buffer/intake/received_samples.hpp"
#include "buffer/server_json.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds longest_connect{5};

/// Returns the error that an answer reports, or a generic error if the answer is not JSON from a buffer's
/// server.
ErrorReport parse_error_report(const std::string& url, const httplib::Response& response) {
  const json said = json::parse(response.body, nullptr, false);
  ErrorReport report{ErrorKind::input, url, "answers with status " + std::to_string(response.status),
                     "Check that this is the address of evenkeel buffer", -1};
  if (said.is_object() && said.contains("message") && said["message"].is_string()) {
    report.where = said.value("where", url);
    report.message = said["message"];
    report.hint = said.value("hint", "");
  }
  if (response.status == 401) {
    report.kind = ErrorKind::config;
    report.message = "refuses access: " + report.where + " " + report.message;
    report.where = url;
    report.hint = "Name a file with the buffer's token (stream.token_file, or --token-file)";
  }
  if (response.status == 413) report.kind = ErrorKind::limit;
  if (response.status == 429 || response.status >= 500) report.kind = ErrorKind::io;
  return report;
}

/// Runs `call` with SIGPIPE blocked. Without this, the signal would terminate this process if the server had
/// closed the connection.
template <typename Call>
std::string call_with_sigpipe_blocked(Call&& call) {
  sigset_t broken_pipe;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  const auto restore = [&] {
    int signal = 0;
    sigpending(&pending);
    if (!was_pending && sigismember(&pending, SIGPIPE) == 1) sigwait(&broken_pipe, &signal);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  };
  try {
    std::string content = call();
    restore();
    return content;
  } catch (...) {
    restore();
    throw;
  }
}

std::optional<std::int64_t> find_step_number(const json& status, const char* name) {
  if (!status.contains(name) || status[name].is_null()) return std::nullopt;
  return status[name].get<std::int64_t>();
}

std::optional<double> read_seconds_since_last_sample(const json& in) {
  const json& since = in.at("seconds_since_last_sample");
  return since.is_null() ? std::nullopt : std::optional<double>(since.get<double>());
}

OutstandingTickets parse_outstanding_tickets(const json& in) {
  OutstandingTickets tickets{in.at("tickets")};
  if (tickets.count == 0) return tickets;
  const json& oldest = in.at("oldest_ticket");
  return {tickets.count, oldest.at("holder"), oldest.at("age"), oldest.at("expires_in")};
}

}  // namespace

class JobClient::Connection {
 public:
  Connection(std::string url, std::string token, const std::filesystem::path& ca, JobPass pass)
      : url_(std::move(url)), client_(url_), pass_(std::move(pass)) {
    if (!client_.is_valid() || url_.find("://") == std::string::npos)
      throw ConfigError("url", "is '" + url_ + "'; it must be an address such as http://127.0.0.1:8710");
    client_.set_keep_alive(true);
    client_.set_tcp_nodelay(true);
    set_answer_timeout(default_answer_timeout);
    if (!token.empty()) client_.set_bearer_token_auth(token);
    if (!ca.empty()) client_.set_ca_cert_path(ca.string());
    client_.enable_server_certificate_verification(true);
  }

  std::string get(const std::string& path) {
    return call_with_sigpipe_blocked([&] { return body_or_throw(client_.Get(path_with_pass(path))); });
  }
  std::string post(const std::string& path, const json& content) {
    return call_with_sigpipe_blocked([&] {
      return body_or_throw(client_.Post(path_with_pass(path), content.dump(), "application/json"));
    });
  }

  std::string send(const std::string& path, std::string_view body, const std::string& type,
                   const std::string& packed) {
    httplib::Headers headers;
    if (!packed.empty()) headers.emplace("Content-Encoding", packed);
    return call_with_sigpipe_blocked(
        [&] { return body_or_throw(client_.Post(path, headers, body.data(), body.size(), type)); });
  }

  void set_pass(JobPass pass) { pass_ = std::move(pass); }

  void set_answer_timeout(std::chrono::seconds time) {
    client_.set_connection_timeout(std::min(time, longest_connect));
    client_.set_read_timeout(time);
    client_.set_write_timeout(time);
  }

  /// Parses the text as JSON and returns read(JSON). Throws InputError if the text is not an answer of a
  /// buffer's server.
  template <typename Read>
  auto parse_answer(const std::string& text, Read&& read) const {
    try {
      return read(json::parse(text));
    } catch (const json::exception& error) {
      throw InputError(url_, std::string("sent an answer that cannot be read: ") + error.what(),
                       "Check that this is the address of evenkeel buffer");
    }
  }

 private:
  [[nodiscard]] std::string path_with_pass(const std::string& path) const {
    if (pass_.job.empty() || !path.starts_with("/v1/job/")) return path;
    return path + (path.find('?') == std::string::npos ? "?job=" : "&job=") + pass_.job;
  }

  /// Throws ConfigError that lists the changes if the buffer's rules have changed since the job began.
  void report_rule_changes() {
    const httplib::Result answer = client_.Get("/v1/job/rules");
    if (!answer || answer->status != 200) return;
    std::string changes;
    const auto compare = [&](const json& before, const json& now) {
      for (const auto& [name, value] : before.items()) {
        const json current = now.value(name, json());
        if (current == value) continue;
        changes +=
            (changes.empty() ? "" : ", ") + name + " was " + value.dump() + " and is " + current.dump();
      }
    };
    const json before = json::parse(pass_.rules, nullptr, false);
    const json now = json::parse(answer->body, nullptr, false);
    if (!before.is_object() || !now.is_object()) return;
    json settings = before.at("settings");
    if (now.contains("settings"))
      for (const auto& [name, value] : now["settings"].items()) settings.emplace(name, json());
    compare(settings, now.value("settings", json::object()));
    for (const char* name : {"read_as", "identity"}) compare({{name, before.at(name)}}, now);
    throw ConfigError(url_, "has different rules than when the job began: " + changes,
                      "Start the buffer with the same options as before, or start the job again");
  }

  std::string body_or_throw(const httplib::Result& result) {
    if (!result) {
      const httplib::Error error = result.error();
      if (error == httplib::Error::SSLLoadingCerts)
        throw ConfigError(url_, "cannot be used: the file of certificates to trust cannot be loaded",
                          "Name a readable PEM file (stream.ca_file, or --ca of evenkeel feed)");
      if (error == httplib::Error::SSLServerVerification)
        throw ConfigError(url_, "has a certificate that is not trusted: " + httplib::to_string(error),
                          "Name the certificates to trust (stream.ca_file, or --ca of evenkeel feed)");
      throw IoError(url_, "cannot be reached: " + httplib::to_string(error),
                    "Check that evenkeel buffer is running there");
    }
    if (result->status == 200) return result->body;
    if (result->status == 412 && !pass_.rules.empty()) report_rule_changes();
    if (result->status == 409) throw FieldsError(parse_error_report(url_, *result));
    throw_error(parse_error_report(url_, *result));
  }

  std::string url_;
  httplib::Client client_;
  JobPass pass_;
};

JobClient::JobClient(std::string url, std::string token, std::filesystem::path ca, JobPass pass)
    : connection_(std::make_unique<Connection>(std::move(url), std::move(token), ca, std::move(pass))) {}
JobClient::~JobClient() = default;
JobClient::JobClient(JobClient&&) noexcept = default;

JobStartReply JobClient::begin(std::int64_t samples_per_step, const JobStart& start) {
  const std::string text = connection_->post("/v1/job/begin", {{"protocol", job_protocol_version},
                                                               {"samples_per_step", samples_per_step},
                                                               {"take_over", start.takes_over},
                                                               {"accepts", json_of(start.acceptance)}});
  JobStartReply reply = connection_->parse_answer(text, [](const json& in) {
    json rules;
    for (const char* name : {"settings", "read_as", "identity"}) rules[name] = in.at(name);
    stream::StreamSettings settings = parse_settings(in.at("settings"));
    settings.ticket_deadline = in.at("ticket_deadline");
    return JobStartReply{{in.at("job"), rules.dump()},
                         settings,
                         in.at("status").at("version"),
                         in.at("identity"),
                         parse_formats(in.at("read_as").dump())};
  });
  connection_->set_pass(reply.pass);
  return reply;
}

void JobClient::set_answer_timeout(std::chrono::seconds time) {
  connection_->set_answer_timeout(time);
}

void JobClient::send_heartbeat() {
  connection_->post("/v1/job/alive", json::object());
}

void JobClient::leave() {
  connection_->post("/v1/job/leave", json::object());
}

JobWaitingGroups JobClient::wait_for_groups(std::int64_t enough, std::int64_t most,
                                            std::chrono::milliseconds time) {
  const std::string text =
      connection_->get("/v1/job/waiting?groups=" + std::to_string(enough) + "&limit=" + std::to_string(most) +
                       "&wait=" + std::to_string(std::chrono::duration<double>(time).count()));
  return connection_->parse_answer(text, [](const json& in) {
    JobWaitingGroups waiting{in.at("version"),
                             in.at("ended"),
                             in.at("ready_groups"),
                             in.at("open_groups"),
                             read_seconds_since_last_sample(in),
                             in.at("full"),
                             parse_outstanding_tickets(in),
                             in.at("coming"),
                             {}};
    for (const json& group : in.at("groups")) waiting.groups.push_back(parse_group(group));
    waiting.missing_fields = in.value("missing_fields", waiting.missing_fields);
    return waiting;
  });
}

JobStep JobClient::wait_for_step(std::int64_t step, std::chrono::seconds time) {
  const std::string text =
      connection_->get("/v1/job/step?step=" + std::to_string(step) + "&wait=" + std::to_string(time.count()));
  return connection_->parse_answer(text, [](const json& in) {
    JobStep come{{},
                 in.at("is_over"),
                 in.at("failure"),
                 find_step_number(in, "formed_step"),
                 find_step_number(in, "trained_step"),
                 in.at("ready_groups"),
                 in.at("open_groups"),
                 read_seconds_since_last_sample(in),
                 parse_outstanding_tickets(in)};
    for (const json& formed : in.at("steps")) come.step = parse_step(formed);
    return come;
  });
}

void JobClient::abandon_step(std::int64_t step, const std::string& reason) {
  connection_->post("/v1/job/abandon", {{"step", step}, {"reason", reason}});
}

void JobClient::drop_filtered(std::span<const std::int64_t> arrivals) {
  connection_->post("/v1/job/filtered",
                    {{"arrivals", std::vector<std::int64_t>(arrivals.begin(), arrivals.end())}});
}

bool JobClient::form_step(const stream::StepFormed& step) {
  try {
    connection_->post("/v1/job/steps", stream::to_json({0, step}));
    return true;
  } catch (const FieldsError&) {
    return false;
  }
}

std::vector<stream::FormedStep> JobClient::untrained_steps(std::int64_t from_step) {
  const std::string text = connection_->get("/v1/job/steps?from=" + std::to_string(from_step));
  return connection_->parse_answer(text, [](const json& in) {
    std::vector<stream::FormedStep> steps;
    for (const json& step : in.at("steps")) steps.push_back(parse_step(step));
    return steps;
  });
}

std::string JobClient::fetch_samples(std::span<const std::int64_t> arrivals) {
  std::string text = connection_->post(
      "/v1/job/samples", {{"arrivals", std::vector<std::int64_t>(arrivals.begin(), arrivals.end())}});
  if (detect_form(text) == SampleForm::tensors) return text;
  const std::int64_t lines = std::ranges::count(text, '\n');
  if (lines != std::ssize(arrivals)) {
    throw IoError("samples",
                  "do not match the request: the number received is " + std::to_string(lines) + ", but " +
                      std::to_string(arrivals.size()) + " were requested",
                  "Run the job and the buffer with the same version of Evenkeel");
  }
  return text;
}

JsonlSchema JobClient::schema() {
  return parse_schema(connection_->get("/v1/job/fields"));
}

std::string JobClient::status() {
  return connection_->get("/v1/status");
}

BufferRules JobClient::rules() {
  return connection_->parse_answer(status(), [](const json& in) {
    return BufferRules{in.at("group_size"), in.at("version"), in.at("capacity")};
  });
}

Intake JobClient::send(std::string_view samples, SampleForm form, const std::string& packed) {
  const bool are_tensors = form == SampleForm::tensors;
  const std::string type = are_tensors ? "application/vnd.safetensors" : "application/x-ndjson";
  return connection_->parse_answer(connection_->send("/v1/samples", samples, type, packed),
                                   [](const json& in) {
                                     return Intake{in.at("accepted"), in.at("duplicates"), in.at("stale"),
                                                   in.value("dropped", std::int64_t{0}), in.at("version")};
                                   });
}

void JobClient::end_stream() {
  connection_->post("/v1/end", json::object());
}

void JobClient::publish(std::int64_t version) {
  connection_->post("/v1/job/version", {{"version", version}});
}

void JobClient::report_trained(std::int64_t step) {
  connection_->post("/v1/job/trained", {{"step", step}});
}

}  // namespace evenkeel
