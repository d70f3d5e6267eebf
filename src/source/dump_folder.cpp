#include "source/dump_folder.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "evenkeel/base/error.hpp"
#include "io/input_file.hpp"
#include "io/json_text.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

constexpr const char* marker_name = "evenkeel-run.json";
constexpr std::int64_t longest_marker = std::int64_t{1} << 20;

std::string numbered(const char* prefix, std::int64_t number, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%s%0*lld", prefix, digits, static_cast<long long>(number));
  return text.data();
}

/// How many of PREFIX000, PREFIX001, ... there are, up to the first gap.
template <typename PathOf>
std::int64_t count_up(const PathOf& path_of) {
  std::int64_t count = 0;
  std::error_code unknown;
  while (fs::exists(path_of(count), unknown)) ++count;
  return count;
}

fs::path step_folder(const fs::path& folder, std::int64_t step) {
  return folder / numbered("step-", step, 6);
}

/// What the marker tells of a run, as far as its dump depends on it. (Not with the library that writes it,
/// which ends the process where memory runs out.)
struct Marker {
  bool has_dump = false;
  bool is_complete = false;
  std::string profiles;
  std::int64_t steps = -1;
};

Marker read_marker(const fs::path& path) {
  const InputFile file(path);
  if (file.size() > longest_marker)
    throw InputError(path.string(), "has more than 1 MiB, and so tells of no run");
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text, 0);
  const JsonText json(text);
  if (!json.object()) throw InputError(path.string(), "does not tell of a run: it is no JSON object");
  const simdjson::dom::object& object = *json.object();
  Marker marker;
  simdjson::dom::element ignored;
  marker.has_dump = !object["files"]["dump"].get(ignored);
  std::string_view state;
  marker.is_complete = !object["state"].get(state) && state == "complete";
  if (object["steps"].get(marker.steps)) marker.steps = -1;
  simdjson::dom::array profiles;
  if (object["profiles"].get(profiles)) return marker;
  for (const simdjson::dom::element profile : profiles) {
    std::string_view name;
    if (!profile.get(name)) marker.profiles.append(marker.profiles.empty() ? "" : ", ").append(name);
  }
  return marker;
}

[[noreturn]] void refuse_missing(const fs::path& file) {
  throw InputError(file.string(), "is missing, and the run wrote it",
                   "evenkeel inspect FOLDER tells what else is");
}

/// Throws unless the run has ended and this is the folder that holds its steps; returns how many those are.
std::int64_t steps_of_run(const fs::path& folder) {
  const fs::path path = dump_marker(folder);
  const Marker marker = read_marker(path);
  if (!marker.has_dump) {
    throw InputError(folder.string(), "holds no dump: its run wrote none there",
                     "Give the folder of evenkeel run --dump");
  }
  if (!marker.is_complete) {
    throw InputError(folder.string(), "is the dump of a run that has not ended, or failed",
                     "Wait until evenkeel inspect calls it complete, or run the job again");
  }
  if (fs::exists(folder / marker_name) && !marker.profiles.empty()) {
    throw InputError(folder.string(), "has a folder for each profile: " + marker.profiles,
                     "Give one of these folders");
  }
  if (marker.steps < 0) throw InputError(path.string(), "does not tell how many steps there are");
  return marker.steps;
}

}  // namespace

fs::path dumped_file(const fs::path& folder, const DumpFolder::MicroBatch& micro_batch, std::int64_t cp,
                     std::int64_t stage) {
  return step_folder(folder, micro_batch.step) / numbered("dp-", micro_batch.dp, 3) / numbered("cp-", cp, 3) /
         "tp-000" / numbered("pp-", stage, 3) / (numbered("mb-", micro_batch.number, 5) + ".safetensors");
}

fs::path dump_marker(const fs::path& folder) {
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown)) {
    if (fs::exists(folder, unknown))
      throw InputError(folder.string(), "is a file; the folder of a dump is needed",
                       "Give the folder of evenkeel run --dump");
    throw IoError(folder.string(), "is not there", "Give the folder of evenkeel run --dump");
  }
  if (fs::exists(folder / marker_name, unknown)) return folder / marker_name;
  fs::path above = folder.has_filename() ? folder.parent_path() : folder.parent_path().parent_path();
  if (above.empty()) above = ".";
  if (fs::exists(above / marker_name, unknown)) return above / marker_name;
  throw InputError(folder.string(), std::string("is a folder without ") + marker_name + ": no run wrote it",
                   "Give the folder of evenkeel run --dump");
}

DumpFolder list_dump(const fs::path& folder) {
  const std::int64_t steps = steps_of_run(folder);
  if (fs::exists(step_folder(folder, 0) / numbered("data-", 0, 3))) {
    throw InputError(
        folder.string(),
        "is the dump of a run with mesh.cp: flexible, whose samples are cut over groups of all sizes; "
        "such dumps cannot be a source",
        "Dump the run with mesh.cp set to a number, or read what it read");
  }
  DumpFolder dump;
  const DumpFolder::MicroBatch first;
  const auto rank_folder = [&](const DumpFolder::MicroBatch& m, std::int64_t cp, std::int64_t stage) {
    return dumped_file(folder, m, cp, stage).parent_path();
  };
  const auto cp_folder = [&](std::int64_t cp) {
    return rank_folder(first, cp, 0).parent_path().parent_path();
  };
  dump.cp = std::max<std::int64_t>(1, count_up(cp_folder));
  dump.stage =
      std::max<std::int64_t>(1, count_up([&](std::int64_t pp) { return rank_folder(first, 0, pp); })) - 1;
  const std::int64_t dp =
      count_up([&](std::int64_t d) { return step_folder(folder, 0) / numbered("dp-", d, 3); });
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t d = 0; d < std::max<std::int64_t>(1, dp); ++d) {
      DumpFolder::MicroBatch next{step, d, 0};
      const std::int64_t count = count_up([&](std::int64_t number) {
        return dumped_file(folder, {step, d, number}, 0, dump.stage);
      });
      if (count == 0) refuse_missing(dumped_file(folder, next, 0, dump.stage));
      for (; next.number < count; ++next.number) {
        for (std::int64_t cp = 1; cp < dump.cp; ++cp) {
          const fs::path other = dumped_file(folder, next, cp, dump.stage);
          if (!fs::exists(other)) refuse_missing(other);
        }
        dump.micro_batches.push_back(next);
      }
      // All DP ranks have as many micro-batches of a step.
      const DumpFolder::MicroBatch other{step, 0, count};
      if (d > 0 && fs::exists(dumped_file(folder, other, 0, dump.stage)))
        refuse_missing(dumped_file(folder, {step, d, count}, 0, dump.stage));
      if (d > 0 && !fs::exists(dumped_file(folder, {step, 0, count - 1}, 0, dump.stage)))
        refuse_missing(dumped_file(folder, {step, 0, count - 1}, 0, dump.stage));
    }
  }
  return dump;
}

}  // namespace evenkeel
