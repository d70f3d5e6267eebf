#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "cli/inspect/inspect.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "job/output/run_lock.hpp"
#include "job/output/run_marker.hpp"
#include "job/output/state_folder.hpp"

namespace evenkeel::cli {
namespace {

namespace fs = std::filesystem;

/// The existing files of one output of a run.
struct FoundFiles {
  std::int64_t files = 0;
  std::set<std::string> steps;
  /// Files of a dump, by step and by the folder of each rank in that step.
  std::map<fs::path, std::map<fs::path, std::set<std::string>>> ranks;
};

RunOutput output_of(const std::string& file) {
  if (file.starts_with("mb-")) return RunOutput::dump;
  if (file == "trace.json") return RunOutput::trace;
  return file.starts_with("step-") ? RunOutput::results : RunOutput::report;
}

bool has_steps(RunOutput output) {
  return output == RunOutput::dump || output == RunOutput::results;
}

/// Returns PROFILE/step-000000 for PROFILE/step-000000/dp-000/...; empty if the path does not contain a step.
fs::path step_of(const fs::path& within) {
  fs::path step;
  for (const fs::path& part : within) {
    step /= part.stem();
    if (is_step_folder(part.stem().string())) return step;
  }
  return {};
}

std::map<RunOutput, FoundFiles> find_files(const fs::path& folder, const RunLayout& layout) {
  std::map<RunOutput, FoundFiles> found;
  visit_run_entries(folder, layout, [&](const RunEntry& entry) {
    if (entry.kind != RunEntry::Kind::file) return true;
    const fs::path within = entry.path.lexically_relative(folder);
    const std::string name = within.filename().string();
    FoundFiles& output = found[output_of(name)];
    ++output.files;
    const fs::path step = step_of(within);
    if (step.empty()) return true;
    output.steps.insert(step.filename().string());
    if (output_of(name) == RunOutput::dump)
      output.ranks[step][within.parent_path().lexically_relative(step)].insert(name);
    return true;
  });
  return found;
}

/// Returns the name of the first step without any file; empty if every step has a file.
std::string missing_step(const FoundFiles& found, std::int64_t first, std::int64_t steps) {
  for (std::int64_t step = first; step < steps; ++step) {
    std::string name = fmt::format("step-{:06}", step);
    if (!found.steps.contains(name)) return name;
  }
  return {};
}

/// Returns the first missing file of a dump: a micro-batch of a step that one rank has but another rank does
/// not have. Empty if there is no such file. If ranks have different numbers of micro-batches (mesh.cp:
/// flexible, micro_batch.equal_counts: auto), the run may never have written this file.
std::string missing_micro_batch(const FoundFiles& found) {
  std::set<fs::path> ranks;
  for (const auto& [step, of_step] : found.ranks) {
    for (const auto& [rank, files] : of_step) ranks.insert(rank);
  }
  for (const auto& [step, of_step] : found.ranks) {
    std::set<std::string> names;
    for (const auto& [rank, files] : of_step) names.insert(files.begin(), files.end());
    for (const fs::path& rank : ranks) {
      for (const std::string& name : names) {
        if (!of_step.contains(rank) || !of_step.at(rank).contains(name)) return (step / rank / name).string();
      }
    }
  }
  return {};
}

/// One line of a folder's description: a name and a value.
using Line = std::pair<std::string_view, std::string>;

std::string text_of(std::span<const Line> lines) {
  LabeledLines text;
  for (const auto& [name, value] : lines) text.add_line(name, value);
  return std::move(text).text();
}

std::optional<Line> describe_file_difference(const RunMarker& marker, RunOutput output,
                                             const FoundFiles& found) {
  const std::int64_t written = marker.files.at(output);
  if (found.files == written) return std::nullopt;
  if (found.files > written) {
    return Line("too many", fmt::format("{} of the {} that the run did not write",
                                        format_plain_count(found.files - written, "file"), name_of(output)));
  }
  std::string first = !has_steps(output) ? "" : missing_step(found, marker.from.at(output), marker.steps);
  if (first.empty()) first = missing_micro_batch(found);
  return Line("missing",
              fmt::format("{} of {} of the {}{}", written - found.files, format_plain_count(written, "file"),
                          name_of(output), first.empty() ? "" : ", the first at " + first));
}

std::string state_text(const fs::path& folder, const RunMarker& marker) {
  if (is_locked(folder)) return "running";
  if (marker.state == RunMarker::State::complete) return "complete, " + marker.ended;
  return "incomplete: the run did not finish";
}

std::string files_text(RunOutput output, const FoundFiles& found) {
  std::string files = format_plain_count(found.files, "file");
  if (!has_steps(output)) return files;
  return format_plain_count(std::ssize(found.steps), "step") + ", " + files;
}

constexpr std::int64_t widest_bar = 40;

std::int64_t quantile(const std::vector<std::int64_t>& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

// Returns a histogram that counts lengths by the smallest power of two above them.
std::string histogram(const std::vector<std::int64_t>& sorted) {
  std::map<int, std::int64_t> counts;
  for (const std::int64_t length : sorted)
    ++counts[static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length)))];
  const std::int64_t most =
      std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->second;
  std::string text;
  for (const auto& [bits, count] : counts) {
    const auto bar = static_cast<std::size_t>((count * widest_bar + most - 1) / most);
    text += fmt::format("  < {:<8} {:>8}  {}\n", std::int64_t{1} << bits, count, std::string(bar, '#'));
  }
  return text;
}

}  // namespace

std::string describe_run_folder(const fs::path& folder) {
  const std::optional<RunMarker> marker = read_run_marker(folder);
  if (!marker) {
    throw InputError(
        folder.string(),
        fmt::format("is a folder without {}, which is in every output folder of a run", RunMarker::file_name),
        "Give a file, or a folder of evenkeel run: --dump, --results, --report, --trace or "
        "--state");
  }
  const RunIdentity& by = marker->by;
  std::vector<Line> lines{{"state", state_text(folder, *marker)},
                          {"started", fmt::format("{} on {}, process {}, {}", by.started, by.host, by.pid,
                                                  format_plain_count(marker->ranks, "rank"))},
                          {"run", fmt::format("{} of evenkeel {}, configuration {}", by.run, marker->version,
                                              marker->configuration)}};
  if (!marker->profiles.empty())
    lines.emplace_back("profiles", fmt::to_string(fmt::join(marker->profiles, ", ")));
  std::map<RunOutput, FoundFiles> found = find_files(folder, marker->layout());
  std::vector<Line> gaps;
  for (const auto& [output, files] : marker->files) {
    lines.emplace_back(name_of(output), files_text(output, found[output]));
    if (marker->state != RunMarker::State::complete) continue;
    if (auto gap = describe_file_difference(*marker, output, found[output])) gaps.push_back(*std::move(gap));
  }
  if (marker->state == RunMarker::State::complete && gaps.empty()) gaps.emplace_back("missing", "nothing");
  return text_of(lines) + text_of(gaps);
}

std::string report_text_in(const fs::path& folder) {
  std::ifstream file(folder / "report.txt");
  std::string text;
  for (std::string line; std::getline(file, line);) text += printable(line) + "\n";
  return text;
}

namespace {

namespace fs = std::filesystem;

std::string describe_saved(const SourceFingerprint& source) {
  const std::string bytes = source.bytes > 0 ? ", " + format_plain_count(source.bytes, "byte") : "";
  return fmt::format("{}: {}{}, digest {:016x}", source.name, format_plain_count(source.samples, "sample"),
                     bytes, source.digest);
}

std::string describe_saved(const SavedCost& cost) {
  std::string text = fmt::format("{:.3g} s per micro-batch, {:.3g} s per token, {:.3g} s per length^2",
                                 cost.overhead, cost.linear, cost.quadratic);
  if (cost.inside_node) text += fmt::format(", {:.3g} s per token and hop inside a node", *cost.inside_node);
  if (cost.between_nodes) text += fmt::format(", {:.3g} s between nodes", *cost.between_nodes);
  return text + ", from " + format_plain_count(cost.observations, "time");
}

std::string describe_saved(const PackedShape& shape) {
  return fmt::format("{} rows, {}, max_seqlen {}{}", format_with_commas(shape.rows),
                     format_plain_count(shape.sequences, "sequence"), format_with_commas(shape.max_seqlen),
                     shape.cp > 1 ? fmt::format(", cp {}", shape.cp) : "");
}

/// Returns the settings that differ from their defaults.
std::vector<ConfigSetting> changed_settings(const ServiceState& state) {
  const std::vector<ConfigSetting> defaults = list_settings(Config{});
  std::vector<ConfigSetting> changed;
  std::ranges::copy_if(state.settings, std::back_inserter(changed), [&](const ConfigSetting& setting) {
    return std::ranges::find(defaults, setting) == defaults.end();
  });
  return changed;
}

void add_state(const ServiceState& state, LabeledLines& lines) {
  lines.add_line("next step", std::to_string(state.next_step));
  if (!state.job.empty()) lines.add_line("job", state.job);
  lines.add_line("taken on", fmt::format("tp {} x cp {} x dp {} x pp {}", state.mesh.tp, state.mesh.cp,
                                         state.mesh.dp, state.mesh.pp));
  for (const SourceFingerprint& source : state.sources) lines.add_line("source", describe_saved(source));
  for (const auto& [profile, cost] : state.costs)
    lines.add_line("measured" + (profile.empty() ? "" : " " + profile), describe_saved(cost));
  for (const PackedShape& shape : state.shapes) lines.add_line("shape", describe_saved(shape));
  for (const auto& [path, value] : changed_settings(state)) lines.add_line("setting", path + ": " + value);
}

}  // namespace

bool has_state(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / StateFolder::file_name, ignored);
}

std::string explain_state(const fs::path& file) {
  LabeledLines lines;
  add_state(read_state(file), lines);
  return std::move(lines).text();
}

std::string explain_state_in(const fs::path& folder) {
  LabeledLines lines;
  lines.add_line("state", is_locked(folder) ? "of a job that is running" : "of a job that is not running");
  add_state(read_state(folder / StateFolder::file_name), lines);
  return std::move(lines).text();
}

std::string length_statistics(std::vector<std::int64_t> lengths) {
  if (lengths.empty()) return "  no samples\n";
  std::ranges::sort(lengths);
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const double mean = static_cast<double>(sum) / static_cast<double>(lengths.size());
  return fmt::format("  min {}  p50 {}  p90 {}  p99 {}  max {}  mean {:.1f}  sum {}\n", lengths.front(),
                     quantile(lengths, 0.5), quantile(lengths, 0.9), quantile(lengths, 0.99), lengths.back(),
                     mean, sum) +
         histogram(lengths);
}

}  // namespace evenkeel::cli
