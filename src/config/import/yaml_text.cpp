#include <algorithm>
#include <tuple>

#include "config/import/settings.hpp"
#include "config/schema.hpp"

namespace evenkeel::config_import {
namespace {

struct Line {
  std::string text;
  std::string comment;
};

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The place of a path's section on the reference page.
std::ptrdiff_t section_rank(const std::string& path) {
  const std::string section = path.substr(0, path.find('.'));
  return std::ranges::find_if(config_keys(),
                              [&](const ConfigKey& key) { return parts_of(key.path).front() == section; }) -
         config_keys().begin();
}

/// The map around a setting: "profiles.ref.micro_batch".
std::string section_of(const Setting& setting) {
  return setting.path.substr(0, setting.path.rfind('.'));
}
/// The profile, or else the section: "profiles.ref", "mesh".
std::string group_of(const Setting& setting) {
  const std::size_t dot = setting.path.find('.');
  return setting.path.substr(0,
                             setting.path.starts_with("profiles.") ? setting.path.find('.', dot + 1) : dot);
}

/// Sections in the order of the reference page, profiles and their sections as they first appear: each map is
/// written once.
void order(std::vector<Setting>& settings) {
  const std::vector<Setting> as_set = settings;
  const auto first = [&](auto of, const Setting& setting) {
    return std::ranges::find(as_set, of(setting), of) - as_set.begin();
  };
  std::ranges::stable_sort(settings, {}, [&](const Setting& setting) {
    return std::tuple(section_rank(setting.path), first(group_of, setting), first(section_of, setting));
  });
}

std::vector<Line> lines_of(std::vector<Setting> settings) {
  order(settings);
  std::vector<Line> lines;
  std::vector<std::string> open;  // the maps around the line before
  for (const Setting& setting : settings) {
    std::vector<std::string> parts = parts_of(setting.path);
    const std::string key = std::move(parts.back());
    parts.pop_back();
    std::size_t depth = static_cast<std::size_t>(std::ranges::mismatch(open, parts).in2 - parts.begin());
    for (; depth < parts.size(); ++depth)
      lines.push_back({std::string(2 * depth, ' ') + parts[depth] + ":", ""});
    lines.push_back({std::string(2 * depth, ' ') + key + ": " + setting.value, setting.origin});
    open = std::move(parts);
  }
  return lines;
}

}  // namespace

std::string settings_yaml(const SystemTable& table, const std::vector<Setting>& settings) {
  const std::vector<Line> lines = lines_of(settings);
  std::size_t width = 0;
  for (const Line& line : lines) width = std::max(width, line.comment.empty() ? 0 : line.text.size());
  std::string yaml = "# Imported from a " + table.title +
                     " configuration. Where samples come from is not in it and has to be set:\n"
                     "# source: {kind: jsonl, path: rollouts.jsonl}\n";
  for (const Line& line : lines) {
    yaml += line.text;
    if (!line.comment.empty()) yaml += std::string(width - line.text.size(), ' ') + "  # " + line.comment;
    yaml += '\n';
  }
  return yaml;
}

}  // namespace evenkeel::config_import
