#include "evenkeel/service/config_file.hpp"

#include <fstream>
#include <sstream>
#include <vector>

#include "config_keys.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using config_detail::ConfigValue;
using config_detail::key_specs;
using config_detail::KeySpec;
using config_detail::section_of;

const KeySpec* find_key(std::string_view path) {
  for (const KeySpec& spec : key_specs()) {
    if (spec.key.path == path) return &spec;
  }
  return nullptr;
}

std::vector<std::string> paths_of_section(std::string_view section) {
  std::vector<std::string> paths;
  for (const KeySpec& spec : key_specs()) {
    const std::string& path = spec.key.path;
    if (path.size() > section.size() && section_of(path) == section) paths.push_back(path);
  }
  return paths;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const KeySpec& spec : key_specs()) {
    const std::string name(section_of(spec.key.path));
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

/// What to say about a key that is not in the table.
std::string hint_for_unknown(const std::string& path) {
  std::vector<std::string> candidates = section_names();
  for (const KeySpec& spec : key_specs()) candidates.push_back(spec.key.path);
  if (const auto meant = config_detail::nearest_key(path, candidates)) return "Did you mean " + *meant + "?";
  const auto siblings = paths_of_section(section_of(path));
  if (!siblings.empty()) return "Keys there: " + config_detail::join(siblings);
  return "Sections: " + config_detail::join(section_names());
}

/// Where a key stands, for messages: in a file, with its line; or on the command line, as it was written.
class Place {
 public:
  static Place in_file(std::string_view name) { return Place(std::string(name), true); }
  static Place on_command_line(const std::string& text) { return Place("--set " + text, false); }

  [[nodiscard]] std::string of_key(const YAML::Mark& mark, const std::string& path) const {
    return is_file_ ? of_line(mark) + ": " + path : name_;
  }
  [[nodiscard]] std::string of_syntax_error(const YAML::Mark& mark) const {
    return is_file_ && !mark.is_null() ? of_line(mark) + ":" + std::to_string(mark.column + 1) : name_;
  }
  /// For what no single line is to blame for.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  Place(std::string name, bool is_file) : name_(std::move(name)), is_file_(is_file) {}
  [[nodiscard]] std::string of_line(const YAML::Mark& mark) const {
    return name_ + ":" + std::to_string(mark.line + 1);
  }

  std::string name_;
  bool is_file_;
};

YAML::Node parse_document(const std::string& text, const Place& place) {
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text);
  } catch (const YAML::Exception& error) {
    throw ConfigError(place.of_syntax_error(error.mark), "malformed YAML: " + error.msg);
  }
  if (documents.size() > 1) throw ConfigError(place.name(), "expected one YAML document, found several");
  return documents.empty() ? YAML::Node() : documents.front();
}

void apply_map(const YAML::Node& map, const std::string& section, const Place& place, Config& config);

/// Sets one key, or all keys of a section given as a map. An empty section says nothing.
void apply_entry(const std::string& path, const ConfigValue& value, const Place& place, Config& config) {
  if (const KeySpec* spec = find_key(path)) return spec->read(value, config);
  if (paths_of_section(path).empty()) throw ConfigError(value.where, "unknown key", hint_for_unknown(path));
  if (value.node.IsNull()) return;
  if (!value.node.IsMap()) config_detail::throw_wrong_type(value, "a map of keys");
  apply_map(value.node, path, place, config);
}

void apply_map(const YAML::Node& map, const std::string& section, const Place& place, Config& config) {
  const auto path_of = [&](const std::string& name) { return section.empty() ? name : section + "." + name; };
  const auto where_of = [&](const std::string& name, const YAML::Mark& mark) {
    return place.of_key(mark, path_of(name));
  };
  for (const auto& [name, value] : config_detail::map_entries(map, where_of)) {
    apply_entry(path_of(name), value, place, config);
  }
}

void apply_file(const std::string& yaml, std::string_view name, Config& config) {
  const Place place = Place::in_file(name);
  const YAML::Node root = parse_document(yaml, place);
  if (root.IsNull()) return;
  if (!root.IsMap()) config_detail::throw_wrong_type({root, place.name()}, "a map of sections");
  apply_map(root, "", place, config);
}

void apply_override(const std::string& text, Config& config) {
  const Place place = Place::on_command_line(text);
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) throw ConfigError(place.name(), "no = in it", "Write section.key=value");
  const YAML::Node node = parse_document(text.substr(equals + 1), place);
  apply_entry(text.substr(0, equals), {node, place.name()}, place, config);
}

/// Checks that need more than one key. The size of dp does not matter to them.
void require_consistent(const Config& config, std::string_view name) {
  const std::string file = std::string(name) + ": ";
  const bool reads_file =
      config.source.kind == SourceKind::jsonl || config.source.kind == SourceKind::lengths;
  if (reads_file && config.source.path.empty()) {
    throw ConfigError(file + "source.path", "is missing",
                      "The kinds jsonl and lengths of source.kind read a file");
  }
  const MeshConfig& mesh = config.mesh;
  try {
    config.plan_settings({mesh.tp, mesh.cp, mesh.dp.value_or(1), mesh.pp}).validate();
  } catch (const Error& error) {
    throw ConfigError(file + error.report().where, error.report().message, error.report().hint);
  }
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) throw IoError(file.string(), "is a folder, not a file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw IoError(file.string(), "cannot open the configuration");
  std::ostringstream text;
  text << stream.rdbuf();
  if (stream.bad()) throw IoError(file.string(), "cannot read the configuration");
  return text.str();
}

}  // namespace

Config parse_config(const std::string& yaml, std::string_view name, std::span<const std::string> overrides) {
  Config config;
  apply_file(yaml, name, config);
  for (const std::string& text : overrides) apply_override(text, config);
  require_consistent(config, name);
  return config;
}

Config load_config(const std::filesystem::path& file, std::span<const std::string> overrides) {
  return parse_config(read_text(file), file.string(), overrides);
}

std::string to_yaml(const Config& config) {
  std::string text;
  std::string_view section;
  for (const KeySpec& spec : key_specs()) {
    if (!spec.write) continue;
    const std::string& path = spec.key.path;
    if (section_of(path) != section) {
      section = section_of(path);
      text += std::string(section) + ":\n";
    }
    text += "  " + path.substr(section.size() + 1) + ": " + spec.write(config) + "\n";
  }
  return text;
}

}  // namespace evenkeel
