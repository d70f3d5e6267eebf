#include "source/dump/dump_folder.hpp"

#include <simdjson.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/narrow.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"
#include "io/jsonl/json_lines.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

constexpr const char* marker_name = "evenkeel-run.json";
constexpr std::int64_t longest_marker = std::int64_t{1} << 20;

/// Returns the folder of the part's place along dp and cp, which contains the folders of the place's
/// tensor-parallel ranks.
fs::path place_folder(const fs::path& folder, const DumpedPart& part) {
  const int cp = std::max(1, part.cp);
  return dumped_place_folder(folder, part.step, {.cp = part.place % cp, .dp = part.place / cp}, part.cp == 0);
}

fs::path file_path_of(const fs::path& folder, const DumpedPart& part, std::int64_t tp, std::int64_t pp) {
  return place_folder(folder, part) / dumped_rank_folder(tp, pp) / dumped_file_name(part.number);
}

bool path_exists(const fs::path& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

/// Entries of the run's marker file that concern its dump.
struct Marker {
  bool has_dump = false;
  bool is_complete = false;
  std::string profiles;
  std::int64_t from = 0;
  std::int64_t steps = -1;
};

Marker read_marker(const fs::path& path) {
  const InputFile file(path);
  if (file.size() > longest_marker)
    throw InputError(path.string(), "has more than 1 MiB, so it does not describe a run",
                     "Give the folder of evenkeel run --dump");
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text, 0);
  const JsonText json(text);
  if (!json.object())
    throw InputError(path.string(), "does not describe a run: it is not a JSON object",
                     "Give the folder of evenkeel run --dump");
  const simdjson::dom::object& object = *json.object();
  Marker marker;
  simdjson::dom::element ignored;
  marker.has_dump = !object["files"]["dump"].get(ignored);
  std::string_view state;
  marker.is_complete = !object["state"].get(state) && state == "complete";
  if (object["steps"].get(marker.steps)) marker.steps = -1;
  if (object["from"]["dump"].get(marker.from)) marker.from = 0;
  simdjson::dom::array profiles;
  if (object["profiles"].get(profiles)) return marker;
  for (const simdjson::dom::element profile : profiles) {
    std::string_view name;
    if (!profile.get(name)) marker.profiles.append(marker.profiles.empty() ? "" : ", ").append(name);
  }
  return marker;
}

[[noreturn]] void reject_missing(const fs::path& file) {
  throw InputError(file.string(), "is missing, although the run wrote it",
                   "Restore it, or dump the job again; evenkeel inspect FOLDER shows what else is missing");
}

DumpedPart make_part_at(std::int64_t step, bool flexible, std::int32_t place) {
  DumpedPart part;
  part.step = step;
  part.place = place;
  part.cp = flexible ? 0 : 1;
  return part;
}

/// Lists the parts of a step's micro-batches, ordered by the groups that run them.
class StepLister {
 public:
  StepLister(const fs::path& folder, std::int64_t step)
      : folder_(folder), step_(step), schema_(schema_of_step(folder, step)) {}

  [[nodiscard]] std::vector<DumpedPart> list_parts() {
    const std::int64_t places = std::int64_t{schema_.mesh.dp} * schema_.mesh.cp;
    for (std::int64_t place = 0; place < places; ++place) add_place(place);
    std::vector<DumpedPart> parts;
    for (const auto& [group, members] : groups_) {
      std::int64_t next = 0;
      for (const auto& [rank, part] : members) {
        if (rank != next++) reject_missing_member(group, next - 1);
        parts.push_back(part);
      }
      if (next < group.size) reject_missing_member(group, next);
    }
    return parts;
  }

 private:
  void add_place(std::int64_t place) {
    DumpedPart part;
    part.step = step_;
    part.samples = schema_.samples;
    part.place = narrow<std::int32_t>(place, "places of a dump");
    part.cp = schema_.flexible ? 0 : schema_.mesh.cp;
    part.stages = schema_.mesh.pp;
    const fs::path first = file_path_of(folder_, part, 0, 0);
    if (!path_exists(first)) {
      // With flexible CP, a rank may not have any micro-batches. Its folder is empty in that case.
      if (!schema_.flexible || !path_exists(place_folder(folder_, part))) reject_missing(first);
      return;
    }
    const std::int64_t files = parse_dump_schema(TensorFile(first)).micro_batches;
    for (; part.number < files; ++part.number) add_part(part);
  }

  void add_part(DumpedPart part) {
    for (std::int64_t tp = 0; tp < schema_.mesh.tp; ++tp) {
      for (std::int64_t pp = 0; pp < schema_.mesh.pp; ++pp) {
        if (const fs::path file = file_path_of(folder_, part, tp, pp); !path_exists(file))
          reject_missing(file);
      }
    }
    DumpedContext group = context_of(part);
    part.size = narrow<std::int32_t>(group.size, "ranks of a group");
    const std::int64_t rank = std::exchange(group.rank, 0);
    groups_[group].emplace(rank, part);
  }

  /// Returns the context group that runs the part's micro-batch, and the part's rank in the group. With a
  /// fixed CP size, both follow from DumpedPart::place; otherwise, they are read from the part's file.
  [[nodiscard]] DumpedContext context_of(const DumpedPart& part) const {
    if (!schema_.flexible)
      return {part.place / part.cp * part.cp, part.cp, part.place % part.cp, part.number};
    const TensorFile file(file_path_of(folder_, part, 0, 0));
    const DumpSchema schema = parse_dump_schema(file);
    require_matching_place(schema, part, 0, file.path());
    return schema.context;
  }

  [[noreturn]] void reject_missing_member(const DumpedContext& group, std::int64_t rank) const {
    DumpedPart part;
    part.step = step_;
    part.cp = 0;
    part.place = narrow<std::int32_t>(group.first + rank, "places of a dump");
    throw InputError(
        place_folder(folder_, part).string(),
        "has no file of a micro-batch that is shared by ranks " + numbered_name("data-", group.first, 3) +
            " to " + numbered_name("data-", group.first + group.size - 1, 3) + ", although the run wrote one",
        "Restore it, or dump the job again; evenkeel inspect FOLDER shows what else is missing");
  }

  const fs::path& folder_;
  std::int64_t step_;
  DumpSchema schema_;
  std::map<DumpedContext, std::map<std::int64_t, DumpedPart>> groups_;  // by group, then by rank in it
};

}  // namespace

fs::path dumped_file_path(const fs::path& folder, const DumpedPart& part, std::int64_t stage) {
  return file_path_of(folder, part, 0, stage);
}

fs::path dump_marker(const fs::path& folder) {
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown)) {
    if (fs::exists(folder, unknown))
      throw InputError(folder.string(), "is a file, not the folder of a dump",
                       "Give the folder of evenkeel run --dump");
    throw IoError(folder.string(), "does not exist", "Give the folder of evenkeel run --dump");
  }
  if (fs::exists(folder / marker_name, unknown)) return folder / marker_name;
  fs::path above = folder.has_filename() ? folder.parent_path() : folder.parent_path().parent_path();
  if (above.empty()) above = ".";
  if (fs::exists(above / marker_name, unknown)) return above / marker_name;
  throw InputError(folder.string(),
                   std::string("is a folder without ") + marker_name + ", which is in every dump",
                   "Give the folder of evenkeel run --dump");
}

DumpedSteps steps_of_dump(const fs::path& folder) {
  const fs::path path = dump_marker(folder);
  const Marker marker = read_marker(path);
  if (!marker.has_dump) {
    throw InputError(folder.string(), "has no dump: its run did not write one there",
                     "Give the folder of evenkeel run --dump");
  }
  if (!marker.is_complete) {
    throw InputError(folder.string(), "is the dump of a run that has failed or has not ended yet",
                     "Wait until evenkeel inspect shows that it is complete, or run the job again");
  }
  if (fs::exists(folder / marker_name) && !marker.profiles.empty()) {
    throw InputError(folder.string(), "has a folder for each profile: " + marker.profiles,
                     "Give one of these folders");
  }
  if (marker.steps < 0)
    throw InputError(path.string(), "does not specify the number of steps",
                     "Give the folder of evenkeel run --dump");
  if (marker.from < 0 || marker.from >= marker.steps)
    throw InputError(folder.string(), "is a dump without steps", "Give the folder of a run that made some");
  return {marker.from, marker.steps};
}

DumpSchema schema_of_step(const fs::path& folder, std::int64_t step) {
  const bool flexible = path_exists(place_folder(folder, make_part_at(step, true, 0)));
  DumpedPart part = make_part_at(step, flexible, 0);
  fs::path file = file_path_of(folder, part, 0, 0);
  while (flexible && !path_exists(file) && path_exists(place_folder(folder, part))) {
    ++part.place;
    file = file_path_of(folder, part, 0, 0);
  }
  if (!path_exists(file)) reject_missing(file_path_of(folder, make_part_at(step, flexible, 0), 0, 0));
  const TensorFile tensors(file);
  DumpSchema schema = parse_dump_schema(tensors);
  if (schema.flexible != flexible || schema.step != step || (flexible && schema.mesh.cp != 1))
    throw InputError(tensors.path(), "has metadata that does not match its location in the dump",
                     "Give the folder of evenkeel run --dump, as the run wrote it");
  return schema;
}

std::vector<DumpedPart> list_dumped_parts(const fs::path& folder, std::int64_t step) {
  return StepLister(folder, step).list_parts();
}

void require_matching_place(const DumpSchema& schema, const DumpedPart& part, std::int64_t stage,
                            const std::string& path) {
  const std::int64_t place = std::int64_t{schema.place.dp} * schema.mesh.cp + schema.place.cp;
  const DumpedContext& group = schema.context;
  const bool is_matching = schema.step == part.step && schema.samples == part.samples &&
                           schema.micro_batch == part.number && place == part.place &&
                           schema.mesh.pp == part.stages && schema.place.pp == stage &&
                           schema.place.tp == 0 && (schema.flexible ? 0 : schema.mesh.cp) == part.cp &&
                           group.first + group.rank == place;
  if (is_matching) return;
  throw InputError(path, "has metadata that does not match its location in the dump",
                   "Give the folder of evenkeel run --dump, as the run wrote it");
}

}  // namespace evenkeel
