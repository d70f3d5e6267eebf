#include "cli/inspect/inspect_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/text_layout.hpp"
#include "cli/terminal/labelled_lines.hpp"
#include "evenkeel/config/config.hpp"
#include "job/output/run_lock.hpp"
#include "job/output/state_folder.hpp"

namespace evenkeel::cli {
namespace {

namespace fs = std::filesystem;

std::string told(const SourceFingerprint& source) {
  const std::string bytes = source.bytes > 0 ? ", " + number_of(source.bytes, "byte") : "";
  return fmt::format("{}: {}{}, digest {:016x}", source.name, number_of(source.samples, "sample"), bytes,
                     source.digest);
}

std::string told(const SavedCost& cost) {
  std::string text = fmt::format("{:.3g} s a micro-batch, {:.3g} s a token, {:.3g} s a squared length",
                                 cost.overhead, cost.linear, cost.quadratic);
  if (cost.inside_node) text += fmt::format(", {:.3g} s a token and hop inside a node", *cost.inside_node);
  if (cost.between_nodes) text += fmt::format(", {:.3g} s between nodes", *cost.between_nodes);
  return text + ", from " + number_of(cost.observations, "time");
}

std::string told(const PackedShape& shape) {
  return fmt::format("{} rows, {}, max_seqlen {}{}", grouped(shape.rows),
                     number_of(shape.sequences, "sequence"), grouped(shape.max_seqlen),
                     shape.cp > 1 ? fmt::format(", cp {}", shape.cp) : "");
}

/// The settings that are not what they are where nobody says anything.
std::vector<ConfigSetting> changed_settings(const ServiceState& state) {
  const std::vector<ConfigSetting> defaults = list_settings(Config{});
  std::vector<ConfigSetting> changed;
  std::ranges::copy_if(state.settings, std::back_inserter(changed), [&](const ConfigSetting& setting) {
    return std::ranges::find(defaults, setting) == defaults.end();
  });
  return changed;
}

void add_state(const ServiceState& state, LabelledLines& lines) {
  lines.line("next step", std::to_string(state.next_step));
  if (!state.job.empty()) lines.line("job", state.job);
  lines.line("taken on", fmt::format("tp {} x cp {} x dp {} x pp {}", state.mesh.tp, state.mesh.cp,
                                     state.mesh.dp, state.mesh.pp));
  for (const SourceFingerprint& source : state.sources) lines.line("source", told(source));
  for (const auto& [profile, cost] : state.costs)
    lines.line("measured" + (profile.empty() ? "" : " " + profile), told(cost));
  for (const PackedShape& shape : state.shapes) lines.line("shape", told(shape));
  for (const auto& [path, value] : changed_settings(state)) lines.line("setting", path + ": " + value);
}

}  // namespace

bool has_state(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / StateFolder::file_name, ignored);
}

std::string explain_state(const fs::path& file) {
  LabelledLines lines;
  add_state(read_state(file), lines);
  return std::move(lines).text();
}

std::string explain_state_in(const fs::path& folder) {
  LabelledLines lines;
  lines.line("state", is_locked(folder) ? "of a job that is running" : "of a job that is not running");
  add_state(read_state(folder / StateFolder::file_name), lines);
  return std::move(lines).text();
}

}  // namespace evenkeel::cli
