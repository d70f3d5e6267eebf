#include "stream/event.hpp"

#include <array>
#include <limits>

#include "evenkeel/base/error.hpp"

namespace evenkeel::stream {
namespace {

using nlohmann::json;

/// Limit on the absolute value of every count in an event. It is far below 2^63, so sums of counts cannot
/// overflow.
constexpr std::int64_t most_counted = std::int64_t{1} << 53;

constexpr std::array<std::string_view, num_drop_reasons> reason_names{"stale", "aborted", "too_small", "late",
                                                                      "filtered"};

constexpr const char* other_version_hint = "Use the version of Evenkeel that wrote the store";

[[noreturn]] void reject(const std::string& what, const char* hint = "Restore the store from a backup") {
  throw InputError("stream event", what, hint);
}

/// Type-checked access to the keys of one JSON object.
class Reader {
 public:
  explicit Reader(const json& object, const char* fault = "is not an object") : object_(object) {
    if (!object.is_object()) reject(fault);
  }

  [[nodiscard]] const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) reject(std::string("has no '") + key + "'");
    return *found;
  }
  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  [[nodiscard]] std::int64_t integer(const char* key) const { return integer(at(key), key); }
  [[nodiscard]] std::int64_t count(const char* key) const {
    const std::int64_t count = integer(key);
    if (count > most_counted || count < -most_counted)
      reject(std::string("'") + key + "' is " + std::to_string(count) +
             "; its absolute value must be at most " + std::to_string(most_counted));
    return count;
  }
  /// Returns the hash of a sample's content.
  [[nodiscard]] std::uint32_t hash(const char* key) const {
    const std::int64_t hash = integer(key);
    if (hash < 0 || hash > std::numeric_limits<std::uint32_t>::max())
      reject(std::string("'") + key + "' is " + std::to_string(hash) + ", which is not a 32-bit hash");
    return static_cast<std::uint32_t>(hash);
  }
  [[nodiscard]] std::string text(const char* key) const {
    if (!at(key).is_string()) reject(std::string("'") + key + "' is not a string");
    return at(key).get<std::string>();
  }
  [[nodiscard]] bool flag(const char* key) const {
    if (!at(key).is_boolean()) reject(std::string("'") + key + "' is neither true nor false");
    return at(key).get<bool>();
  }
  [[nodiscard]] Uid uid() const {
    const json& uid = at("uid");
    if (uid.is_string()) return uid.get<std::string>();
    if (uid.is_number_unsigned() && uid.get<std::uint64_t>() > INT64_MAX) return uid.get<std::uint64_t>();
    const std::optional<std::int64_t> number = parse_integer(uid);
    if (!number) reject("'uid' is neither a string nor a 64-bit integer");
    return *number;
  }
  [[nodiscard]] std::vector<std::int64_t> integers(const char* key) const {
    std::vector<std::int64_t> integers;
    for (const json& element : list(key)) integers.push_back(integer(element, key));
    return integers;
  }
  [[nodiscard]] const json& list(const char* key) const {
    if (!at(key).is_array()) reject(std::string("'") + key + "' is not a list");
    return at(key);
  }

 private:
  static std::int64_t integer(const json& value, const char* key) {
    const std::optional<std::int64_t> integer = parse_integer(value);
    if (!integer) reject(std::string("'") + key + "' is not a 64-bit integer");
    return *integer;
  }

  const json& object_;
};

DropReason parse_drop_reason(const std::string& name) {
  for (std::size_t i = 0; i < num_drop_reasons; ++i)
    if (reason_names[i] == name) return static_cast<DropReason>(i);
  reject("has an unknown reason '" + name + "'", other_version_hint);
}

// Each event_to_json() converts one kind of event to JSON. parse_event_content() is the inverse.

json event_to_json(const SampleAccepted& e) {
  json body{{"event", "accepted"}, {"uid", json_of(e.key.uid)}, {"index", e.key.index},
            {"prompt", e.prompt},  {"response", e.response},    {"version", e.version},
            {"bytes", e.bytes},    {"content", e.content}};
  if (!e.holder.empty()) body["holder"] = e.holder;
  return body;
}
json event_to_json(const FieldsAdded& e) {
  return {{"event", "fields"},
          {"uid", json_of(e.key.uid)},
          {"index", e.key.index},
          {"bytes", e.bytes},
          {"content", e.content}};
}
json event_to_json(const DuplicatesReported& e) {
  return {{"event", "duplicates"}, {"count", e.count}};
}
json event_to_json(const GroupClosed& e) {
  return {{"event", "closed"}, {"uid", json_of(e.uid)}, {"by_deadline", e.by_deadline}};
}
json event_to_json(const GroupAborted& e) {
  json body{{"event", "aborted"}, {"uid", json_of(e.uid)}, {"reason", e.reason}};
  if (e.index) body["index"] = *e.index;
  if (e.in_step) body["in_step"] = true;
  return body;
}
json event_to_json(const VersionPublished& e) {
  return {{"event", "published"}, {"version", e.version}};
}
json event_to_json(const SamplesDropped& e) {
  return {{"event", "dropped"}, {"arrivals", e.arrivals}, {"reason", to_string(e.reason)}};
}
json event_to_json(const TicketsGranted& e) {
  return {{"event", "granted"},     {"groups", e.groups}, {"granted", e.granted},
          {"deadline", e.deadline}, {"holder", e.holder}, {"request", e.request}};
}
json event_to_json(const TicketsExpired& e) {
  return {{"event", "expired"}, {"time", e.time}, {"version", e.version}};
}
json event_to_json(const StepFormed& e) {
  json groups = json::array();
  for (const FormedGroup& group : e.groups)
    groups.push_back({{"uid", json_of(group.uid)}, {"samples", group.samples}});
  json passed = json::array();
  for (const PassedOver& group : e.passed)
    passed.push_back({{"uid", json_of(group.uid)}, {"count", group.count}});
  return {{"event", "formed"}, {"step", e.step},     {"version", e.version},
          {"groups", groups},  {"masked", e.masked}, {"passed", passed}};
}
json event_to_json(const StepTrained& e) {
  json body{{"event", "trained"}, {"step", e.step}};
  if (e.skips) body["skips"] = true;
  return body;
}
json event_to_json(const StreamEnded& /*e*/) {
  return {{"event", "ended"}};
}

FieldsAdded parse_fields_added(const Reader& from) {
  FieldsAdded fields{{from.uid(), from.integer("index")}, from.count("bytes"), {}};
  if (!from.at("content").is_object()) reject("'content' is not an object");
  const Reader content(from.at("content"));
  for (const auto& [name, hash] : from.at("content").items())
    fields.content.emplace(name, content.hash(name.c_str()));
  return fields;
}

StepFormed parse_step_formed(const Reader& from) {
  StepFormed step{from.count("step"), from.integer("version"), {}, from.integers("masked"), {}};
  for (const json& element : from.list("groups")) {
    const Reader group(element, "has an element of 'groups' that is not an object");
    step.groups.push_back({group.uid(), group.count("samples")});
  }
  for (const json& element : from.list("passed")) {
    const Reader group(element, "has an element of 'passed' that is not an object");
    step.passed.push_back({group.uid(), group.count("count")});
  }
  return step;
}

Event::What parse_event_content(const Reader& from) {
  const std::string kind = from.text("event");
  if (kind == "accepted") {
    return SampleAccepted{{from.uid(), from.integer("index")},
                          from.count("prompt"),
                          from.count("response"),
                          from.integer("version"),
                          from.count("bytes"),
                          from.hash("content"),
                          from.has("holder") ? from.text("holder") : std::string()};
  }
  if (kind == "fields") return parse_fields_added(from);
  if (kind == "duplicates") return DuplicatesReported{from.count("count")};
  if (kind == "closed") return GroupClosed{from.uid(), from.flag("by_deadline")};
  if (kind == "aborted") {
    const auto index = from.has("index") ? std::optional(from.integer("index")) : std::nullopt;
    return GroupAborted{from.uid(), index, from.text("reason"), from.has("in_step") && from.flag("in_step")};
  }
  if (kind == "published") return VersionPublished{from.integer("version")};
  if (kind == "dropped")
    return SamplesDropped{from.integers("arrivals"), parse_drop_reason(from.text("reason"))};
  if (kind == "granted") {
    return TicketsGranted{from.count("groups"), from.count("granted"), from.count("deadline"),
                          from.text("holder"), from.text("request")};
  }
  if (kind == "expired") return TicketsExpired{from.count("time"), from.integer("version")};
  if (kind == "formed") return parse_step_formed(from);
  if (kind == "trained") return StepTrained{from.count("step"), from.has("skips") && from.flag("skips")};
  if (kind == "ended") return StreamEnded{};
  reject("is of an unknown kind, '" + kind + "'", other_version_hint);
}

}  // namespace

json json_of(const Uid& uid) {
  if (const auto* text = std::get_if<std::string>(&uid)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&uid)) return *number;
  if (const auto* large = std::get_if<std::uint64_t>(&uid)) return *large;
  return nullptr;
}

std::string_view to_string(DropReason reason) noexcept {
  return reason_names[static_cast<std::size_t>(reason)];
}

nlohmann::json to_json(const Event& event) {
  json body = std::visit([](const auto& what) { return event_to_json(what); }, event.what);
  body["number"] = event.number;
  return body;
}

Event parse_event(const nlohmann::json& from) {
  const Reader reader(from);
  return {reader.count("number"), parse_event_content(reader)};
}

}  // namespace evenkeel::stream
