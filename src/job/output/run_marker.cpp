#include "job/output/run_marker.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/output_file.hpp"

namespace evenkeel {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* hint_for_marker =
    "Check that evenkeel run wrote the file, and that it was not modified";
constexpr std::array all_outputs{RunOutput::dump, RunOutput::results, RunOutput::report, RunOutput::trace};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

RunOutput output_of(const std::string& name) {
  const auto* const found =
      std::ranges::find(all_outputs, name, [](RunOutput output) { return name_of(output); });
  if (found == all_outputs.end()) throw InputError("", "lists an unknown output '" + name + "'");
  return *found;
}

RunMarker::State state_of(const std::string& name) {
  if (name == "complete") return RunMarker::State::complete;
  if (name == "running") return RunMarker::State::running;
  throw InputError("", "has an unknown state '" + name + "'");
}

/// Returns `name` if it is a valid profile name, which can be part of a path. Otherwise throws InputError.
std::string require_valid_profile_name(std::string name) {
  const bool plain = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
  if (!plain) throw InputError("", "has a profile '" + name + "', which is not a valid name");
  return name;
}

RunMarker marker_of(const Json& json) {
  RunMarker marker;
  marker.version = json.at("evenkeel").get<std::string>();
  marker.state = state_of(json.at("state"));
  marker.by = {json.at("run"), json.at("started"), json.at("host"), json.at("pid"), json.at("rank")};
  marker.job = json.value("job", "");
  marker.first_step = json.value("first_step", std::int64_t{0});
  marker.configuration = json.at("configuration").get<std::string>();
  marker.ranks = json.at("ranks").get<int>();
  for (const Json& name : json.at("profiles")) marker.profiles.insert(require_valid_profile_name(name));
  for (const auto& [name, files] : json.at("files").items()) {
    marker.files[output_of(name)] = files.is_null() ? 0 : files.get<std::int64_t>();
    marker.from[output_of(name)] = json.at("from").at(name).get<std::int64_t>();
  }
  for (const Json& name : json.at("passes")) marker.passes.insert(name.get<std::string>());
  if (marker.state == RunMarker::State::complete) {
    marker.steps = json.at("steps").get<std::int64_t>();
    marker.ended = json.at("ended").get<std::string>();
  }
  return marker;
}

Json json_of(const RunMarker& marker) {
  const bool complete = marker.state == RunMarker::State::complete;
  Json files = Json::object();
  for (const auto& [output, count] : marker.files)
    files[std::string(name_of(output))] = complete ? Json(count) : Json();
  Json from = Json::object();
  for (const auto& [output, step] : marker.from) from[std::string(name_of(output))] = step;
  Json json{{"evenkeel", marker.version},
            {"state", complete ? "complete" : "running"},
            {"run", marker.by.run},
            {"started", marker.by.started},
            {"host", marker.by.host},
            {"pid", marker.by.pid},
            {"rank", marker.by.rank},
            {"job", marker.job},
            {"first_step", marker.first_step},
            {"ranks", marker.ranks},
            {"configuration", marker.configuration},
            {"profiles", marker.profiles},
            {"passes", marker.passes},
            {"files", std::move(files)},
            {"from", std::move(from)}};
  if (complete) {
    json["steps"] = marker.steps;
    json["ended"] = marker.ended;
  }
  return json;
}

}  // namespace

RunLayout RunMarker::layout() const {
  RunLayout layout{{}, profiles};
  for (const auto& [output, count] : files) layout.outputs.insert(output);
  return layout;
}

std::optional<RunMarker> read_run_marker(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / RunMarker::file_name;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path);
  if (!std::filesystem::exists(status)) return std::nullopt;
  if (!std::filesystem::is_regular_file(status))
    throw InputError(path.string(), "is not a regular file", hint_for_marker);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw IoError(path.string(), "cannot be read", "Check its permissions");
  try {
    return marker_of(Json::parse(text));
  } catch (const Json::exception& error) {
    throw InputError(path.string(), std::string("does not describe a run: ") + error.what(), hint_for_marker);
  } catch (const InputError& error) {
    throw InputError(path.string(), error.report().message, hint_for_marker);
  }
}

void write_run_marker(const std::filesystem::path& folder, const RunMarker& marker) {
  write_text_file(folder / RunMarker::file_name,
                  json_of(marker).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string random_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

RunIdentity new_identity(int rank) {
  return {random_name(), current_time_text(), host_name(), ::getpid(), rank};
}

}  // namespace evenkeel
