#include "cli/inspect_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/printable.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/config/config.hpp"
#include "job/run_lock.hpp"
#include "job/state_folder.hpp"

namespace evenkeel::cli {
namespace {

namespace fs = std::filesystem;

/// Lines of a name and a value.
class Lines {
 public:
  explicit Lines(std::size_t width) : width_(width) {}

  void add(const std::string& name, const std::string& value) {
    constexpr std::size_t column = 17;
    text_ += labelled("  " + name, printable(value), column, width_);
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::size_t width_;
  std::string text_;
};

std::string told(const SourceFingerprint& source) {
  const std::string bytes = source.bytes > 0 ? ", " + number_of(source.bytes, "byte") : "";
  return fmt::format("{}: {}{}, digest {:016x}", source.name, number_of(source.samples, "sample"), bytes,
                     source.digest);
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

void add_state(const ServiceState& state, Lines& lines) {
  lines.add("next step", std::to_string(state.next_step));
  if (!state.job.empty()) lines.add("job", state.job);
  lines.add("taken on", fmt::format("tp {} x cp {} x dp {} x pp {}", state.mesh.tp, state.mesh.cp,
                                    state.mesh.dp, state.mesh.pp));
  for (const SourceFingerprint& source : state.sources) lines.add("source", told(source));
  for (const auto& [profile, cost] : state.costs) {
    lines.add("measured" + (profile.empty() ? "" : " " + profile),
              fmt::format("{:.3g} s a micro-batch, {:.3g} s a token, {:.3g} s a squared length, from {}",
                          cost.overhead, cost.linear, cost.quadratic, number_of(cost.observations, "time")));
  }
  for (const auto& [path, value] : changed_settings(state)) lines.add("setting", path + ": " + value);
}

}  // namespace

bool is_state_file(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name == StateFolder::file_name || name == StateFolder::previous_name) return true;
  constexpr std::string_view begin = "{\n \"checksum\": \"";
  std::string text(begin.size(), '\0');
  std::ifstream(path, std::ios::binary).read(text.data(), static_cast<std::streamsize>(text.size()));
  return text == begin;
}

bool has_state(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / StateFolder::file_name, ignored);
}

std::string explain_state(const fs::path& file, std::size_t width) {
  Lines lines(width);
  add_state(read_state(file), lines);
  return std::move(lines).text();
}

std::string explain_state_in(const fs::path& folder, std::size_t width) {
  Lines lines(width);
  lines.add("state", is_locked(folder) ? "of a job that is running" : "of a job that is not running");
  add_state(read_state(folder / StateFolder::file_name), lines);
  return std::move(lines).text();
}

}  // namespace evenkeel::cli
