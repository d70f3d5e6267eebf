#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/hash.hpp"
#include "base/text/parse_number.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/service/service_state.hpp"

namespace evenkeel {
namespace {

/// Describes how steps change if a key with this prefix changes. `text` is empty if the change is allowed. If
/// several entries match a key, only the first one applies.
struct Consequence {
  std::string_view prefix;
  std::string_view text;
};

constexpr std::string_view other_samples = "steps would repeat some samples and skip others";
constexpr std::string_view other_cuts = "steps would be split into different micro-batches";
constexpr std::string_view other_weights = "tokens would have different weights in the loss";

constexpr std::array consequences{
    Consequence{"mesh.", ""},
    Consequence{"exchange.", ""},
    Consequence{"field.", ""},
    Consequence{"fields.", ""},
    Consequence{"watchdog.", ""},
    Consequence{"stream.", ""},  // the buffer stores the formed steps
    Consequence{"source.path", ""},
    Consequence{"source.", other_samples},
    Consequence{"batch.", other_samples},
    Consequence{"balance.", other_cuts},
    Consequence{"micro_batch.", other_cuts},
    Consequence{"pack.deliver", ""},  // the plan stays the same
    Consequence{"pack.", other_cuts},
    Consequence{"prefix.", other_cuts},
    Consequence{"loss.", other_weights},
};

/// Removes the name of the profile or source from a path: "profiles.update.micro_batch.max_tokens" gives
/// "micro_batch.max_tokens", "sources.chat.path" gives "source.path", and any other key of a source gives
/// "source.". Returns all other paths unchanged.
std::string_view strip_section_name(std::string_view path) {
  for (const std::string_view section : {"profiles.", "sources."}) {
    if (!path.starts_with(section)) continue;
    const std::size_t dot = path.find('.', section.size());
    if (dot == std::string_view::npos) return path;
    if (section == "profiles.") return path.substr(dot + 1);
    return path.substr(dot + 1) == "path" ? "source.path" : "source.";
  }
  return path;
}

using Values = std::map<std::string_view, std::string_view>;

/// Returns whether outliers are delayed. If they are, the choice of a step's samples depends on the settings
/// for planning.
bool delays_outliers(const Values& settings) {
  const auto found = settings.find("batch.delay_outliers");
  return found != settings.end() && found->second != "0";
}

std::string_view consequence_of(std::string_view path, bool delays_outliers) {
  const std::string_view key = strip_section_name(path);
  const auto* const found =
      std::ranges::find_if(consequences, [&](const Consequence& c) { return key.starts_with(c.prefix); });
  if (found == consequences.end()) return other_cuts;
  // Keys of profiles affect only how later passes are planned, not which samples are delayed.
  return delays_outliers && found->text == other_cuts && key == path ? other_samples : found->text;
}

Values values_of(const std::vector<ConfigSetting>& settings) {
  Values values;
  for (const auto& [path, value] : settings) values.emplace(path, value);
  return values;
}

std::string display_text(std::optional<std::string_view> value) {
  if (!value) return "not set";
  return value->empty() ? "empty" : std::string(*value);
}

std::optional<std::string_view> value_in(const Values& values, std::string_view path) {
  const auto found = values.find(path);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

void compare_settings(const ServiceState& saved, const ServiceState& now, std::vector<std::string>& found) {
  const Values before = values_of(saved.settings);
  const Values after = values_of(now.settings);
  const bool is_delayed = delays_outliers(before) || delays_outliers(after);
  Values all = before;
  all.insert(after.begin(), after.end());
  for (const auto& [path, value] : all) {
    const auto was = value_in(before, path);
    const auto is = value_in(after, path);
    const std::string_view consequence = consequence_of(path, is_delayed);
    if (was == is || consequence.empty()) continue;
    found.push_back(
        fmt::format("{} was {} and is now {} ({})", path, display_text(was), display_text(is), consequence));
  }
}

/// Describes how a source has changed; nullopt if it has not changed.
std::optional<std::string> describe_change(const SourceFingerprint& was, const SourceFingerprint& is) {
  if (was.samples != is.samples)
    return fmt::format("had {} and now has {}", format_plain_count(was.samples, "sample"), is.samples);
  if (was.bytes != is.bytes)
    return fmt::format("had {} and now has {}", format_plain_count(was.bytes, "byte"), is.bytes);
  if (was.digest != is.digest) return "has different content";
  if (was.whole && is.whole && *was.whole != *is.whole) return "has different content";
  return std::nullopt;
}

void compare_sources(const ServiceState& saved, const ServiceState& now, std::vector<std::string>& found) {
  if (saved.sources.size() != now.sources.size()) {
    const std::string names = join(now.sources, &SourceFingerprint::name);
    found.push_back(fmt::format("the job had {} and now has {}{} ({})",
                                format_plain_count(std::ssize(saved.sources), "source"), now.sources.size(),
                                names.empty() ? "" : ": " + names, other_samples));
    return;
  }
  bool changed = false;
  for (std::size_t i = 0; i < saved.sources.size(); ++i) {
    const auto change = describe_change(saved.sources[i], now.sources[i]);
    if (!change) continue;
    changed = true;
    found.push_back(fmt::format("{} {} ({})", now.sources[i].name, *change, other_samples));
  }
  if (changed || saved.order == now.order) return;
  const std::string_view why = delays_outliers(values_of(now.settings))
                                   ? "different samples of the sources are used, or this version of Evenkeel "
                                     "delays different ones (batch.delay_outliers)"
                                   : "different samples of the sources are used";
  found.push_back(fmt::format("{}, so {}", why, other_samples));
}

using Json = nlohmann::ordered_json;

constexpr std::int64_t version = 1;
// The checksum covers all text after it.
constexpr std::string_view before_checksum = "{\n \"checksum\": \"";
constexpr std::string_view after_checksum = "\",\n";
constexpr std::size_t digits_of_checksum = 16;
constexpr std::int64_t max_steps = std::int64_t{1} << 62;
constexpr int largest_axis = 1 << 20;

std::string to_hexadecimal(std::uint64_t number) {
  return fmt::format("{:016x}", number);
}

Json json_of(const SourceFingerprint& source) {
  Json json = {{"name", source.name},
               {"samples", source.samples},
               {"bytes", source.bytes},
               {"digest", to_hexadecimal(source.digest)}};
  if (source.whole) json["whole"] = to_hexadecimal(*source.whole);
  return json;
}

// Omits communication costs unless they were measured. States of older versions do not have them.
Json json_of(const SavedCost& cost) {
  Json json = {{"overhead", cost.overhead},
               {"linear", cost.linear},
               {"quadratic", cost.quadratic},
               {"observations", cost.observations}};
  if (cost.inside_node) json["inside_node"] = *cost.inside_node;
  if (cost.between_nodes) json["between_nodes"] = *cost.between_nodes;
  return json;
}

Json json_of(const PackedShape& shape) {
  return {{"rows", shape.rows},
          {"sequences", shape.sequences},
          {"max_seqlen", shape.max_seqlen},
          {"cp", shape.cp}};
}

Json json_of(const ServiceState& state) {
  Json settings = Json::object();
  for (const auto& [path, value] : state.settings) settings[path] = value;
  Json sources = Json::array();
  for (const SourceFingerprint& source : state.sources) sources.push_back(json_of(source));
  Json costs = Json::object();
  for (const auto& [profile, cost] : state.costs) costs[profile] = json_of(cost);
  const GridPoint& m = state.mesh;
  Json json = {{"evenkeel_state", version},
               {"next_step", state.next_step},
               {"job", state.job},
               {"mesh", {{"tp", m.tp}, {"cp", m.cp}, {"dp", m.dp}, {"pp", m.pp}}},
               {"order", to_hexadecimal(state.order)},
               {"sources", std::move(sources)},
               {"settings", std::move(settings)},
               {"costs", std::move(costs)}};
  for (const PackedShape& shape : state.shapes) json["shapes"].push_back(json_of(shape));
  return json;
}

/// Reads members of one JSON object in a state. Validates every value, since any text can be given a matching
/// checksum.
class Reader {
 public:
  explicit Reader(const Json& object, std::string name) : object_(object), name_(std::move(name)) {
    if (!object_.is_object()) reject("is not an object");
  }

  [[nodiscard]] const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) reject(fmt::format("has no {}", key));
    return *found;
  }
  [[nodiscard]] Reader object(const char* key) const { return Reader(at(key), key); }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) reject(fmt::format("has a '{}' that is not a string", key));
    return value.get<std::string>();
  }
  [[nodiscard]] std::uint64_t hash(const char* key) const {
    const std::string digits = text(key);
    const std::optional<std::uint64_t> number = parse_hexadecimal_as<std::uint64_t>(digits);
    if (!number || digits.size() != 16)
      reject(fmt::format("has a '{}' that is not a number of 16 hexadecimal digits", key));
    return *number;
  }
  [[nodiscard]] const Json& items(const char* key, Json::value_t type) const {
    const Json& value = at(key);
    if (value.type() != type) reject(fmt::format("has a '{}' of the wrong type", key));
    return value;
  }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) const {
    const Json& value = at(key);
    const bool fits = value.is_number_integer() && (!value.is_number_unsigned() ||
                                                    std::in_range<std::int64_t>(value.get<std::uint64_t>()));
    if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
      reject(fmt::format("has a '{}' that is not an integer from {} to {}", key, least, most));
    return value.get<std::int64_t>();
  }
  /// Returns a number of seconds. It must be zero or within the range of possible measurements, since costs
  /// are later converted to integers.
  [[nodiscard]] double seconds(const char* key) const {
    constexpr double least = 1e-30;
    constexpr double most = 1e9;
    const Json& value = at(key);
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number != 0 && !(number >= least && number <= most))
      reject(fmt::format("has a '{}' that is neither 0 nor from {} to {} seconds", key, least, most));
    return number;
  }

  /// Returns seconds(), or nullopt if the key is missing.
  [[nodiscard]] std::optional<double> optional_seconds(const char* key) const {
    if (!object_.contains(key)) return std::nullopt;
    return seconds(key);
  }

  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }

  [[noreturn]] void reject(const std::string& why) const { throw InputError("", name_ + " " + why); }

 private:
  const Json& object_;
  std::string name_;
};

constexpr std::int64_t any_size = std::numeric_limits<std::int64_t>::max();

SourceFingerprint parse_source(const Json& json) {
  const Reader reader(json, "a source");
  return {reader.text("name"), reader.integer("samples", 0, any_size), reader.integer("bytes", 0, any_size),
          reader.hash("digest"), reader.has("whole") ? std::optional(reader.hash("whole")) : std::nullopt};
}

SavedCost cost_of(const Json& json) {
  const Reader reader(json, "a cost");
  SavedCost cost;
  cost.overhead = reader.seconds("overhead");
  cost.linear = reader.seconds("linear");
  cost.quadratic = reader.seconds("quadratic");
  if (cost.linear == 0 && cost.quadratic == 0) reader.reject("has neither a linear nor a quadratic part");
  cost.observations = reader.integer("observations", 0, any_size);
  cost.inside_node = reader.optional_seconds("inside_node");
  cost.between_nodes = reader.optional_seconds("between_nodes");
  return cost;
}

PackedShape shape_of(const Json& json) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const Reader reader(json, "a shape");
  return {reader.integer("rows", 1, most), reader.integer("sequences", 1, most),
          reader.integer("max_seqlen", 1, most), reader.integer("cp", 1, largest_axis)};
}

std::string require_valid_job_name(std::string name) {
  const bool plain = name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '-' || c == '_';
                     });
  if (!plain)
    throw InputError("", "the state has an invalid job name; a name has at most 64 letters, digits, - and _");
  return name;
}

ServiceState state_of(const Json& json) {
  const Reader reader(json, "the state");
  const std::int64_t of_text = reader.integer("evenkeel_state", 1, any_size);
  if (of_text != version)
    throw InputError(
        "", fmt::format("the state has version {}; this program supports version {}", of_text, version),
        "Resume with the version of Evenkeel that wrote the state");
  ServiceState state;
  state.next_step = reader.integer("next_step", 0, max_steps);
  state.job = require_valid_job_name(reader.text("job"));
  const Reader mesh = reader.object("mesh");
  const auto axis = [&](const char* name) { return static_cast<int>(mesh.integer(name, 1, largest_axis)); };
  state.mesh = {.tp = axis("tp"), .cp = axis("cp"), .dp = axis("dp"), .pp = axis("pp")};
  state.order = reader.hash("order");
  for (const Json& source : reader.items("sources", Json::value_t::array))
    state.sources.push_back(parse_source(source));
  for (const auto& [path, value] : reader.items("settings", Json::value_t::object).items()) {
    if (!value.is_string()) reader.reject("has a setting that is not a string");
    state.settings.push_back({path, value.get<std::string>()});
  }
  for (const auto& [profile, cost] : reader.items("costs", Json::value_t::object).items())
    state.costs.emplace(profile, cost_of(cost));
  // The key is missing without micro_batch.shapes, and in states of older versions.
  if (reader.has("shapes")) {
    for (const Json& shape : reader.items("shapes", Json::value_t::array))
      state.shapes.push_back(shape_of(shape));
  }
  return state;
}

void require_valid_checksum(std::string_view text) {
  if (text.size() > ServiceState::max_bytes) {
    throw InputError(
        "", fmt::format("has {} bytes; a state has at most {}", text.size(), ServiceState::max_bytes));
  }
  const std::size_t rest = before_checksum.size() + digits_of_checksum + after_checksum.size();
  if (!text.starts_with(before_checksum) || text.size() < rest)
    throw InputError("", "does not begin with a checksum: it is not a state");
  if (text.substr(before_checksum.size(), digits_of_checksum) != to_hexadecimal(fnv1a_64(text.substr(rest))))
    throw InputError("", "was truncated or modified after it was written: its checksum differs");
}

}  // namespace

ServiceState state_of_new_job(const Config& config) {
  ServiceState state;
  state.settings = list_settings(config);
  return state;
}

std::vector<std::string> differences(const ServiceState& saved, const ServiceState& now) {
  std::vector<std::string> found;
  compare_settings(saved, now, found);
  compare_sources(saved, now, found);
  return found;
}

void require_same_job(const ServiceState& saved, const ServiceState& now, std::string_view name) {
  const std::vector<std::string> found = differences(saved, now);
  if (found.empty()) return;
  std::string message = "does not match this job: ";
  for (std::size_t i = 0; i < found.size(); ++i) message += (i == 0 ? "" : "; ") + found[i];
  throw ConfigError(
      std::string(name), message,
      "Restore the settings and files that it was saved with, or accept the changes (--accept-changes; "
      "accept_changes in C and Python; ChangedJob::accepted in C++)");
}

std::string to_text(const ServiceState& state) {
  const std::string json = json_of(state).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string rest = json.substr(json.find('\n') + 1);
  const std::string text =
      std::string(before_checksum) + to_hexadecimal(fnv1a_64(rest)) + std::string(after_checksum) + rest;
  if (text.size() <= ServiceState::max_bytes) return text;
  throw LimitError(
      "state of the job",
      fmt::format("takes {} bytes; at most {} are possible", text.size(), ServiceState::max_bytes),
      "Use fewer profiles or sources, or merge a source's files");
}

ServiceState parse_state(std::string_view text, std::string_view name) {
  const char* const hint =
      "Pass a state exactly as a job or a service saved it. If the text contains rollouts, put them in a "
      "file whose name ends in .jsonl";
  try {
    require_valid_checksum(text);
    return state_of(Json::parse(text));
  } catch (const Json::exception& error) {
    throw InputError(std::string(name), std::string("is not a state: ") + error.what(), hint);
  } catch (const InputError& error) {
    throw InputError(std::string(name), error.report().message,
                     error.report().hint.empty() ? hint : error.report().hint);
  }
}

}  // namespace evenkeel
