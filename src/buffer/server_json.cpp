#include "buffer/server_json.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "stream/event.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

template <typename Value>
void set_optional(ordered_json& out, const char* name, const std::optional<Value>& value) {
  out[name] = value ? ordered_json(*value) : ordered_json();
}

std::int64_t require_number(const json& value) {
  return stream::require_integer(value, "JSON of a buffer");
}

/// Returns the value of a key, or null if the key is missing or its value is null.
const json* find_value(const json& in, const char* name) {
  const auto found = in.find(name);
  return found == in.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::int64_t> find_integer(const json& in, const char* name) {
  const json* const value = find_value(in, name);
  return value == nullptr ? std::nullopt : std::optional(require_number(*value));
}

ordered_json json_of_drops(const stream::Status& status) {
  ordered_json out = ordered_json::object();
  for (std::size_t i = 0; i < stream::num_drop_reasons; ++i)
    out[std::string(to_string(static_cast<stream::DropReason>(i)))] = status.dropped[i].samples;
  return out;
}

/// Returns the number of samples in steps formed so far, by how many versions each sample was behind the
/// policy.
ordered_json json_of_staleness(const stream::Status& status) {
  ordered_json out = ordered_json::object();
  for (const auto& [behind, samples] : status.staleness) out[std::to_string(behind)] = samples;
  return out;
}

/// Adds the number of open tickets and, if there are any, a description of the oldest grant. Its age and the
/// time until it expires are in seconds by this machine's clock.
void add_tickets(ordered_json& out, const stream::Status& status) {
  out["tickets"] = status.tickets;
  if (!status.oldest_tickets) return;
  const stream::OpenTickets& oldest = *status.oldest_tickets;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const double seconds = std::chrono::duration<double>(now).count();
  const auto in_seconds = [](std::int64_t milliseconds) { return static_cast<double>(milliseconds) / 1000; };
  out["oldest_ticket"] = {{"holder", oldest.holder},
                          {"version", oldest.version},
                          {"age", seconds - in_seconds(oldest.granted)},
                          {"expires_in", in_seconds(oldest.deadline) - seconds}};
}

/// Adds the number of samples that wait for each late field, if the buffer has late fields.
void add_missing_fields(ordered_json& out, const stream::Status& status) {
  if (!status.missing_fields.empty()) out["missing_fields"] = status.missing_fields;
}

/// Returns the result of read(). Rethrows exceptions of nlohmann::json as InputError.
template <typename Read>
auto rethrow_json_errors(const char* what, Read&& read) {
  try {
    return read();
  } catch (const json::exception& error) {
    throw InputError(what, std::string("cannot be read: ") + error.what(),
                     "Use the same version of Evenkeel for the job, the buffer and its store");
  }
}

}  // namespace

Uid parse_uid(const json& in) {
  if (in.is_string()) return in.get<std::string>();
  if (in.is_number_unsigned() && in.get<std::uint64_t>() >> 63 != 0) return in.get<std::uint64_t>();
  if (in.is_number_integer()) return in.get<std::int64_t>();
  throw InputError("uid", "is " + in.dump() + "; it must be a string or an integer");
}

ordered_json json_of(const Intake& intake) {
  ordered_json out{{"accepted", intake.accepted},
                   {"duplicates", intake.duplicates},
                   {"stale", intake.stale},
                   {"version", intake.version}};
  if (intake.dropped > 0) out["dropped"] = intake.dropped;
  return out;
}

ordered_json json_of(const FieldIntake& intake) {
  return {{"added", intake.added},
          {"duplicates", intake.duplicates},
          {"gone", intake.gone},
          {"version", intake.version}};
}

ordered_json json_of(const BufferStatus& status) {
  const stream::Status& of = status.stream;
  ordered_json out{
      {"version", of.version},
      {"ended", of.ended},
      {"group_size", status.group_size},
      {"store", status.store},
      {"durable", status.data_loss_risk.empty()},
      {"capacity", status.capacity},
      {"bytes", status.used},
      {"groups", {{"open", of.open_groups}, {"ready", of.ready_groups}, {"formed", of.formed_groups}}},
      {"samples",
       {{"received", of.received.samples},
        {"waiting", of.waiting.samples},
        {"formed", of.formed.samples},
        {"trained", of.trained.samples},
        {"dropped", json_of_drops(of)},
        {"duplicates", of.duplicates}}},
      {"response_tokens", {{"received", of.received.response}, {"trained", of.trained.response}}},
      {"staleness", json_of_staleness(of)},
      {"waited_seconds", status.waited}};
  add_missing_fields(out, of);
  add_tickets(out, of);
  out["tickets_expired"] = of.expired_tickets;
  if (!status.data_loss_risk.empty()) out["risk"] = status.data_loss_risk;
  set_optional(out, "formed_step", of.formed_step);
  set_optional(out, "trained_step", of.trained_step);
  set_optional(out, "seconds_since_last_sample", status.seconds_since_last_sample);
  out["identity"] = status.identity;
  out["job"] = {{"number", status.job}, {"alive", status.is_job_alive}};
  return out;
}

ordered_json json_of(const stream::WaitingGroup& group) {
  ordered_json samples = ordered_json::array();
  for (const stream::WaitingSample& sample : group.samples) {
    samples.push_back(ordered_json::array(
        {sample.arrival, sample.index, sample.prompt, sample.response, sample.version, sample.bytes}));
  }
  return {{"uid", stream::json_of(group.uid)},
          {"ready", group.ready},
          {"passed", group.passed},
          {"samples", samples}};
}

stream::WaitingGroup parse_group(const json& in) {
  return rethrow_json_errors("group", [&] {
    stream::WaitingGroup group{
        parse_uid(in.at("uid")), require_number(in.at("ready")), require_number(in.at("passed")), {}};
    for (const json& sample : in.at("samples")) {
      const auto number = [&](std::size_t at) { return require_number(sample.at(at)); };
      group.samples.push_back({number(0), number(1), number(2), number(3), number(4), number(5)});
    }
    return group;
  });
}

ordered_json json_of(const stream::FormedStep& step) {
  ordered_json out{{"step", step.step},
                   {"version", step.version},
                   {"groups", ordered_json::array()},
                   {"masked", step.masked}};
  for (const stream::WaitingGroup& group : step.groups) out["groups"].push_back(json_of(group));
  return out;
}

stream::FormedStep parse_step(const json& in) {
  return rethrow_json_errors("step", [&] {
    stream::FormedStep step{require_number(in.at("step")), require_number(in.at("version")), {}, {}};
    for (const json& arrival : in.at("masked")) step.masked.push_back(require_number(arrival));
    for (const json& group : in.at("groups")) step.groups.push_back(parse_group(group));
    return step;
  });
}

ordered_json json_of(const stream::StreamSettings& settings) {
  ordered_json out{{"group_size", settings.group_size}};
  set_optional(out, "min_group", settings.min_group);
  set_optional(out, "deadline", settings.deadline);
  out["ticket_deadline"] = settings.ticket_deadline;
  set_optional(out, "max_staleness", settings.max_staleness);
  out["on_stale"] = stream::name_of(settings.on_stale);
  if (!settings.late_fields.empty()) out["late_fields"] = settings.late_fields;
  return out;
}

stream::StreamSettings parse_settings(const json& in) {
  return rethrow_json_errors("settings", [&] {
    stream::StreamSettings settings;
    settings.group_size = require_number(in.at("group_size"));
    settings.min_group = find_integer(in, "min_group");
    if (const json* const deadline = find_value(in, "deadline")) settings.deadline = deadline->get<double>();
    settings.ticket_deadline = in.value("ticket_deadline", settings.ticket_deadline);
    settings.max_staleness = find_integer(in, "max_staleness");
    const std::string on_stale = in.at("on_stale");
    const std::optional<OnStale> known = stream::parse_on_stale(on_stale);
    if (!known)
      throw InputError("settings", "have the unknown value '" + on_stale + "' for on_stale",
                       "Use the same version of Evenkeel for the job, the buffer and its store");
    settings.on_stale = *known;
    settings.late_fields = in.value("late_fields", settings.late_fields);
    return settings;
  });
}

ordered_json json_of(const WaitingGroups& waiting) {
  ordered_json out{{"version", waiting.stream.version},
                   {"ended", waiting.stream.is_exhausted()},
                   {"ready_groups", waiting.stream.ready_groups},
                   {"open_groups", waiting.stream.open_groups}};
  set_optional(out, "seconds_since_last_sample", waiting.seconds_since_last_sample);
  out["full"] = waiting.full;
  add_tickets(out, waiting.stream);
  add_missing_fields(out, waiting.stream);
  out["coming"] = waiting.coming;
  out["groups"] = ordered_json::array();
  for (const stream::WaitingGroup& group : waiting.groups) out["groups"].push_back(json_of(group));
  return out;
}

ordered_json json_of(const PendingStep& come) {
  ordered_json out{{"steps", ordered_json::array()},
                   {"is_over", come.is_over},
                   {"failure", come.failure},
                   {"ready_groups", come.stream.ready_groups},
                   {"open_groups", come.stream.open_groups}};
  if (come.step) out["steps"].push_back(json_of(*come.step));
  add_tickets(out, come.stream);
  set_optional(out, "formed_step", come.stream.formed_step);
  set_optional(out, "trained_step", come.stream.trained_step);
  set_optional(out, "seconds_since_last_sample", come.seconds_since_last_sample);
  return out;
}

ordered_json json_of_rules(const Buffer& buffer, const std::string& identity) {
  ordered_json settings = json_of(buffer.settings());
  settings.erase("ticket_deadline");  // may change while a job runs, since steps do not depend on it
  return {{"settings", std::move(settings)},
          {"read_as", ordered_json::parse(serialize_formats(buffer.formats()))},
          {"identity", identity}};
}

std::string metrics_of(const BufferStatus& status) {
  const stream::Status& of = status.stream;
  std::string out;
  const auto family = [&](const char* name, const char* type, const char* help) {
    out += fmt::format("# HELP evenkeel_buffer_{0} {2}\n# TYPE evenkeel_buffer_{0} {1}\n", name, type, help);
  };
  const auto value = [&](const char* name, auto number, const std::string& labels = {}) {
    out += fmt::format("evenkeel_buffer_{}{} {}\n", name, labels.empty() ? "" : "{" + labels + "}", number);
  };
  const auto gauge = [&](const char* name, const char* help, auto number) {
    family(name, "gauge", help);
    value(name, number);
  };
  gauge("policy_version", "Version of the policy that the trainer published last", of.version);
  gauge("capacity_bytes", "Maximum number of bytes in use", status.capacity);
  gauge("used_bytes", "Bytes in use", status.used);
  family("groups", "gauge", "Groups of samples by state");
  value("groups", of.open_groups, "state=\"open\"");
  value("groups", of.ready_groups, "state=\"ready\"");
  value("groups", of.formed_groups, "state=\"formed\"");
  family("samples", "gauge", "Samples that are in the buffer, by state");
  value("samples", of.waiting.samples, "state=\"waiting\"");
  value("samples", of.formed.samples, "state=\"formed\"");
  if (!of.missing_fields.empty()) {
    family("samples_missing_field", "gauge", "Samples that are waiting for a late field");
    for (const auto& [field, samples] : of.missing_fields)
      value("samples_missing_field", samples, fmt::format("field={}", nlohmann::json(field).dump()));
  }
  const auto counter = [&](const char* name, const char* help, std::int64_t number) {
    family(name, "counter", help);
    value(name, number);
  };
  counter("received_samples_total", "Samples that were accepted", of.received.samples);
  counter("duplicate_samples_total", "Samples that had been received before", of.duplicates);
  counter("trained_samples_total", "Samples that were trained", of.trained.samples);
  counter("received_response_tokens_total", "Response tokens of samples that were accepted",
          of.received.response);
  counter("trained_response_tokens_total", "Response tokens of samples that were trained",
          of.trained.response);
  family("dropped_samples_total", "counter", "Samples that were dropped, by reason");
  for (std::size_t i = 0; i < stream::num_drop_reasons; ++i) {
    value("dropped_samples_total", of.dropped[i].samples,
          fmt::format("reason=\"{}\"", to_string(static_cast<stream::DropReason>(i))));
  }
  family("samples_behind_policy_total", "counter",
         "Samples of steps, by the number of versions that they were behind the policy; the largest number "
         "includes all above it");
  for (const auto& [behind, samples] : of.staleness)
    value("samples_behind_policy_total", samples, fmt::format("versions=\"{}\"", behind));
  family("waited_seconds_total", "counter", "Seconds that jobs have waited for samples");
  value("waited_seconds_total", status.waited);
  gauge("tickets", "Tickets that were granted and neither used nor expired", of.tickets);
  counter("expired_tickets_total", "Tickets that were granted and expired", of.expired_tickets);
  if (status.seconds_since_last_sample)
    gauge("seconds_since_last_sample", "Seconds since the last sample arrived",
          *status.seconds_since_last_sample);
  return out;
}

}  // namespace evenkeel
