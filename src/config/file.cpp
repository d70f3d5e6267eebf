#include "evenkeel/config/config.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "config/document.hpp"
#include "config/key_sections.hpp"
#include "config/keys.hpp"
#include "config/named_sections.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/micro_batches/shape_choice.hpp"
#include "plan/settings/requirements.hpp"

namespace evenkeel {
namespace {

using config_detail::ConfigValue;
using config_detail::find_key;
using config_detail::is_entry_name;
using config_detail::key_specs;
using config_detail::KeySpec;
using config_detail::named_sections;
using config_detail::NamedPath;
using config_detail::NamedSection;
using config_detail::parse_document;
using config_detail::parse_named_path;
using config_detail::Place;
using config_detail::section_of;

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

/// Returns the hint for a key that is not in the table.
std::string hint_for_unknown(const std::string& path) {
  const auto siblings = paths_of_section(section_of(path));
  if (!siblings.empty()) return "Valid keys: " + join(siblings);
  return "Sections: " + join(section_names());
}

/// Returns the hint for a key that entries of a named section do not have. `has_section` states whether
/// entries have other keys of the key's section.
std::string hint_for_unknown_key(const NamedPath& at, bool has_section) {
  const std::string_view prefix = at.section->key_prefix;
  if (prefix.empty()) return has_section ? hint_for_unknown(at.key) : std::string(at.section->keys);
  std::vector<std::string> keys = paths_of_section(prefix.substr(0, prefix.size() - 1));
  for (std::string& key : keys) key.erase(0, prefix.size());
  return "Valid keys: " + join(keys);
}

/// Returns the named section whose name is `path`, or null.
const NamedSection* find_named_section(std::string_view path) {
  const auto found = std::ranges::find(named_sections(), path, &NamedSection::name);
  return found == named_sections().end() ? nullptr : &*found;
}

/// Throws ConfigError if one map sets the cap with both of its keys. If they are in different files,
/// overrides or profiles, the later one wins, but the keys of a map do not have an order.
void require_at_most_one_cap(std::string_view section,
                             std::span<const std::pair<std::string, ConfigValue>> entries) {
  if (section != "micro_batch" && !section.ends_with(".micro_batch")) return;
  const auto find = [&](std::string_view name) {
    return std::ranges::find(entries, name, &std::pair<std::string, ConfigValue>::first);
  };
  const auto whole = find("max_tokens");
  const auto per_rank = find("max_tokens_per_rank");
  if (whole == entries.end() || per_rank == entries.end()) return;
  if (config_detail::is_word(whole->second.node, "auto") || per_rank->second.node.IsNull()) return;
  throw ConfigError(
      per_rank->second.where, "is given together with max_tokens, but both set the cap",
      "Give one of them: max_tokens counts a micro-batch over its CP group, max_tokens_per_rank on "
      "each rank");
}

/// Builds a configuration from files and overrides. The keys of named entries, such as profiles, are applied
/// last, so that they extend the final settings.
class Loader {
 public:
  /// Applies a file. Returns false if the document is empty (null), true if it is a map, even an empty one.
  bool apply_file(const std::string& yaml, std::string_view name) {
    const Place place = Place::in_file(name);
    const YAML::Node root = parse_document(yaml, place);
    if (root.IsNull()) return false;
    if (!root.IsMap()) config_detail::throw_wrong_type({root, place.name()}, "a map of sections");
    apply_map(root, "", place);
    return true;
  }

  void apply_override(const std::string& text) {
    const Place place = Place::on_command_line(text);
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw ConfigError(place.name(), "has no '='", "Write section.key=value");
    const YAML::Node node = parse_document(text.substr(equals + 1), place);
    const std::string path = text.substr(0, equals);
    if (holds_entries(path) && (node.IsNull() || (node.IsMap() && node.size() == 0)))
      return apply_empty_override(path, {node, place.name()});
    apply_entry(path, {node, place.name()}, place);
  }

  [[nodiscard]] Config finish() {
    for (const NamedSection& section : named_sections()) {
      for (const std::string& name : section.names(config_)) section.add(config_, name);
    }
    for (const NamedEntry& entry : named_entries_) {
      Config changed = entry.section->config_of_entry(config_, entry.name);
      entry.spec->read(entry.value, changed);
      entry.section->set_entry(config_, entry.name, changed);
    }
    return std::move(config_);
  }

 private:
  struct NamedEntry {
    const NamedSection* section;
    std::string name;
    const KeySpec* spec;
    ConfigValue value;
  };

  /// Returns whether the value of this path is a map of keys or entries. Such a map is merged into the
  /// existing settings.
  static bool holds_entries(const std::string& path) {
    if (const auto named = parse_named_path(path)) {
      const bool is_key = !named->key.empty() && named->section->find(named->key) != nullptr;
      return is_entry_name(named->name) && !is_key &&
             (named->key.empty() || !paths_of_section(named->key).empty());
    }
    const KeySpec* spec = find_key(path);
    return (spec == nullptr || !spec->read) &&
           (find_named_section(path) != nullptr || !paths_of_section(path).empty());
  }

  /// Applies an override whose value is an empty map or null. An empty map removes all entries of a named
  /// section, or all settings of one entry, since merging it would not change anything. Throws ConfigError
  /// for null and for other paths.
  void apply_empty_override(const std::string& path, const ConfigValue& value) {
    const std::optional<NamedPath> named = parse_named_path(path);
    const NamedSection* section = named ? named->section : find_named_section(path);
    const bool is_below_entry = named && !named->key.empty();
    if (section == nullptr || is_below_entry || value.node.IsNull())
      throw ConfigError(value.where, "has no key, so it changes nothing", "Name a key and its value");
    // Copies the remaining entries instead of erasing the others in place, since assigning to a YAML::Node
    // changes the node to which it refers.
    std::vector<NamedEntry> others;
    for (const NamedEntry& entry : named_entries_) {
      if (entry.section != section || (named && entry.name != named->name)) others.push_back(entry);
    }
    named_entries_.swap(others);
    named ? section->add(config_, named->name) : section->clear(config_);
  }

  /// Sets one key, or all keys of a section given as a map. An empty section does not change anything.
  void apply_entry(const std::string& path, const ConfigValue& value, const Place& place) {
    if (const auto named = parse_named_path(path)) return apply_named_entry(*named, path, value, place);
    const KeySpec* spec = find_key(path);
    if (spec != nullptr && spec->read) return spec->read(value, config_);
    if (spec == nullptr && paths_of_section(path).empty())
      throw ConfigError(value.where, "unknown key", hint_for_unknown(path));
    apply_section(path, value, place);
  }

  void apply_named_entry(const NamedPath& at, const std::string& path, const ConfigValue& value,
                         const Place& place) {
    const std::string entry(at.section->entry);
    if (!is_entry_name(at.name))
      throw ConfigError(value.where, "is not a valid name for a " + entry, "Use letters, digits, _ and -");
    at.section->add(config_, at.name);
    if (at.key.empty()) return apply_section(path, value, place);
    if (const KeySpec* spec = at.section->find(at.key))
      return named_entries_.push_back({at.section, at.name, spec, value});
    const bool has_section = at.section->has(section_of(at.key));
    if (has_section && !paths_of_section(at.key).empty()) return apply_section(path, value, place);
    throw ConfigError(value.where, "is not a key of a " + entry, hint_for_unknown_key(at, has_section));
  }

  void apply_section(const std::string& path, const ConfigValue& value, const Place& place) {
    if (value.node.IsNull()) return;
    if (!value.node.IsMap()) {
      const bool has_entries = find_named_section(path) != nullptr;
      config_detail::throw_wrong_type(value, has_entries ? "a map" : "a map of keys");
    }
    apply_map(value.node, path, place);
  }

  void apply_map(const YAML::Node& map, const std::string& section, const Place& place) {
    const auto path_of = [&](const std::string& name) {
      return section.empty() ? name : section + "." + name;
    };
    const auto where_of = [&](const std::string& name, const YAML::Mark& mark) {
      return place.describe_key_position(mark, path_of(name));
    };
    const auto entries = config_detail::entries_of_map(map, where_of);
    require_at_most_one_cap(section, entries);
    for (const auto& [name, value] : entries) apply_entry(path_of(name), value, place);
  }

  Config config_;
  std::vector<NamedEntry> named_entries_;
};

void require_valid_plan(const Config& config, const std::string& profile, const std::string& file) {
  const MeshSettings& mesh = config.mesh;
  const auto speeds = static_cast<int>(std::ssize(config.profile(profile).balance.speeds));
  const int dp = mesh.dp.value_or(std::max({1, speeds, mesh.max_cp.value_or(1)}));
  try {
    config.plan_settings({mesh.tp, mesh.cp, dp, mesh.pp}, profile).validate();
  } catch (const Error& error) {
    const std::string& key = error.report().where;
    const bool is_key_of_profile = config_detail::is_profile_section(section_of(key));
    const std::string where = profile.empty()     ? key
                              : is_key_of_profile ? "profiles." + profile + "." + key
                                                  : key + " with profile " + profile;
    throw ConfigError(file + where, error.report().message, error.report().hint);
  }
}

/// Throws ConfigError if the passes cannot use the same shapes, as micro_batch.shapes requires.
void require_valid_shapes(const Config& config, const std::string& file) {
  const MeshSettings& mesh = config.mesh;
  const GridPoint sizes{mesh.tp, mesh.cp, mesh.dp.value_or(1), mesh.pp};
  std::vector<PlanSettings> passes{config.plan_settings(sizes)};
  for (const auto& entry : config.profiles) passes.push_back(config.plan_settings(sizes, entry.first));
  try {
    static_cast<void>(initial_shapes(passes));
  } catch (const Error& error) {
    throw ConfigError(file + error.report().where, error.report().message, error.report().hint);
  }
}

void require_valid_path(const SourceSettings& source, const std::string& where) {
  const bool reads_file = source.kind && source.kind != SourceKind::synthetic &&
                          source.kind != SourceKind::embedded && source.kind != SourceKind::stream;
  if (reads_file && source.path.empty()) {
    throw ConfigError(where + ".path", "is missing",
                      "Set it to the file or folder to read; for megatron, without .bin and .idx");
  }
  const bool reads_several = source.kind == SourceKind::jsonl || source.kind == SourceKind::safetensors;
  if (!source.more_paths.empty() && !reads_several) {
    throw ConfigError(where + ".path", "is a list, but only jsonl and safetensors read several files",
                      source.kind == SourceKind::stream
                          ? "Name one spool folder, or the address of one buffer"
                          : "Name one path, or make each path its own source in section sources");
  }
}

void require_valid_sources(const Config& config, const std::string& file) {
  if (config.sources.empty()) return require_valid_path(config.source, file + "source");
  if (!config.source.path.empty()) {
    throw ConfigError(file + "source.path", "is set together with sources, which replace it",
                      "Make it the path of one of the sources, or leave sources out");
  }
  for (const auto& [name, source] : config.sources) {
    const std::string where = file + "sources." + name;
    if (!source.kind || source.kind == SourceKind::embedded || source.kind == SourceKind::stream) {
      const std::string word = source.kind == SourceKind::stream ? "stream" : "embedded";
      throw ConfigError(where + ".kind",
                        source.kind ? "is " + word + ", which section sources cannot contain" : "is not set",
                        "Set it to jsonl, synthetic, lengths, megatron, safetensors or dump");
    }
    require_valid_path(source, where);
  }
}

void require_valid_delay(const Config& config, const std::string& file) {
  if (!config.delay.is_on()) return;
  Choices choices;
  choices.delay = config.delay;
  choices.are_samples_read =
      !config.sources.empty() || config.source.kind.value_or(SourceKind::embedded) != SourceKind::embedded;
  try {
    require_compatible(choices);
    config.delay_settings(1).validate();
  } catch (const Error& error) {
    throw ConfigError(file + error.report().where, error.report().message, error.report().hint);
  }
}

/// Returns whether a source of the job may contain JSON Lines.
bool may_read_lines(const Config& config) {
  const auto may_be_lines = [](const SourceSettings& source) {
    const SourceKind kind = source.kind.value_or(SourceKind::jsonl);
    return kind == SourceKind::jsonl || kind == SourceKind::stream;
  };
  if (config.sources.empty()) return may_be_lines(config.source);
  return std::ranges::any_of(config.sources, [&](const auto& entry) { return may_be_lines(entry.second); });
}

void require_valid_fields(const Config& config, const std::string& file) {
  if (config.fields.empty() && config.field != FieldSettings{}) {
    throw ConfigError(file + "field", "has settings for fields, but the section fields does not list any",
                      "Name them: fields: {NAME: {}}");
  }
  try {
    for (const auto& [name, field] : config.fields) {
      Choices choices;
      choices.field = field;
      choices.field_name = name;
      choices.are_lines_read = may_read_lines(config);
      require_compatible(choices);
    }
    config.require_valid_fields();
  } catch (const ConfigError& error) {
    throw ConfigError(file + error.report().where, error.report().message, error.report().hint);
  }
}

/// Throws ConfigError if keys conflict with each other. While mesh.dp is auto, plans are checked with the
/// smallest dp that balance.speeds and mesh.max_cp permit.
void require_consistent(const Config& config, std::string_view name) {
  const std::string file = name.empty() ? "" : std::string(name) + ": ";
  require_valid_sources(config, file);
  config_detail::require_valid_stream(config, file);
  require_valid_fields(config, file);
  require_valid_delay(config, file);
  require_valid_plan(config, {}, file);
  for (const auto& entry : config.profiles) require_valid_plan(config, entry.first, file);
  require_valid_shapes(config, file);
}

Config finish_loading(Loader loader, std::string_view name, std::span<const std::string> overrides) {
  for (const std::string& text : overrides) loader.apply_override(text);
  Config config = loader.finish();
  require_consistent(config, name);
  return config;
}

/// Returns whether the shell has opened the file and passes its descriptor as a name, as with <(...).
bool is_descriptor_path(const std::filesystem::path& file) {
  const std::string name = file.string();
  return name.starts_with("/dev/fd/") || name.starts_with("/proc/self/fd/");
}

constexpr const char* hint_for_open_file =
    "A launcher such as mpirun does not pass the shell's <(...) on to its ranks. Write the configuration to "
    "a "
    "file, or send it to standard input: mpirun ... run /dev/stdin < FILE";

std::string system_message(int error) {
  return error == 0 ? "unknown reason" : std::generic_category().message(error);
}

/// Returns a key's value as YAML. Throws ConfigError naming `path` if the value cannot be expressed.
std::string value_of(const KeySpec& spec, const std::string& path, const Config& config) {
  try {
    return spec.write(config);
  } catch (const ConfigError& error) {
    throw ConfigError(path, error.report().message, error.report().hint);
  }
}

std::string value_of(const KeySpec& spec, const Config& config) {
  return value_of(spec, spec.key.path, config);
}

bool is_key_different(const KeySpec& spec, const NamedSection& named, const Config& changed,
                      const Config& config) {
  return spec.write && named.has(section_of(spec.key.path)) &&
         value_of(spec, changed) != value_of(spec, config);
}

bool is_any_key_different(const NamedSection& named, const Config& changed, const Config& config) {
  return std::ranges::any_of(
      key_specs(), [&](const KeySpec& spec) { return is_key_different(spec, named, changed, config); });
}

/// Returns the entries of a section as YAML, with the keys that differ from the configuration's own.
std::string entries_to_yaml(const NamedSection& named, const Config& config) {
  const std::vector<std::string> names = named.names(config);
  if (names.empty()) return "";
  std::string text = std::string(named.name) + ":\n";
  for (const std::string& name : names) {
    const Config changed = named.config_of_entry(config, name);
    text += "  " + name + ":" + (is_any_key_different(named, changed, config) ? "\n" : " {}\n");
    std::string_view section;
    for (const KeySpec& spec : key_specs()) {
      if (!is_key_different(spec, named, changed, config)) continue;
      const std::string_view key = named.key_of(spec);
      const bool is_below = named.key_prefix.empty();
      if (is_below && section_of(key) != section) text += "    " + std::string(section_of(key)) + ":\n";
      section = section_of(key);
      text += is_below ? "      " + std::string(key.substr(section.size() + 1)) : "    " + std::string(key);
      text += ": " + value_of(spec, changed) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string read_config_text(const std::filesystem::path& file) {
  constexpr std::size_t max_bytes = std::size_t{1} << 20;
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw IoError(file.string(), "is a folder, not a file", "Name a YAML file");
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw IoError(file.string(), "cannot open the configuration: " + system_message(errno),
                  is_descriptor_path(file) ? hint_for_open_file : "Check the path and its permissions");
  }
  // Read at most one byte beyond the limit, even from a device or pipe that never ends.
  std::string text(max_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw IoError(file.string(), "cannot read the configuration: " + system_message(errno));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > max_bytes) {
    throw IoError(file.string(),
                  "is larger than " + std::to_string(max_bytes) + " bytes, the limit for a configuration",
                  "Check that it is the right file");
  }
  return text;
}

Config parse_config(const std::string& yaml, std::string_view name, std::span<const std::string> overrides) {
  Loader loader;
  loader.apply_file(yaml, name);
  return finish_loading(std::move(loader), name, overrides);
}

Config parse_config(std::span<const ConfigText> texts, std::span<const std::string> overrides) {
  Loader loader;
  for (const ConfigText& text : texts) loader.apply_file(text.yaml, text.name);
  return finish_loading(std::move(loader), texts.empty() ? "" : texts.back().name, overrides);
}

Config load_config(const std::filesystem::path& file, std::span<const std::string> overrides) {
  return load_config(ConfigText{read_config_text(file), file.string()}, overrides);
}

Config load_config(const ConfigText& file, std::span<const std::string> overrides) {
  Loader loader;
  if (!loader.apply_file(file.yaml, file.name)) {
    throw ConfigError(
        file.name, "contains no keys: it is empty or has only comments",
        "Check that it is the right file; a pipe can be read only once. To use all defaults, put {} in it");
  }
  return finish_loading(std::move(loader), file.name, overrides);
}

std::string to_yaml(const Config& config) {
  std::string text;
  std::string_view section;
  for (const KeySpec& spec : key_specs()) {
    const std::string& path = spec.key.path;
    if (!spec.write) {
      if (const auto* named = find_named_section(path)) text += entries_to_yaml(*named, config);
      continue;
    }
    if (section_of(path) != section) {
      section = section_of(path);
      text += std::string(section) + ":\n";
    }
    text += "  " + path.substr(section.size() + 1) + ": " + value_of(spec, config) + "\n";
  }
  return text;
}

std::vector<ConfigSetting> list_settings(const Config& config) {
  std::vector<ConfigSetting> settings;
  for (const KeySpec& spec : key_specs()) {
    if (spec.write) settings.push_back({spec.key.path, value_of(spec, config)});
  }
  for (const NamedSection& named : named_sections()) {
    for (const std::string& name : named.names(config)) {
      const Config of_entry = named.config_of_entry(config, name);
      for (const KeySpec& spec : key_specs()) {
        if (!spec.write || !named.has(section_of(spec.key.path))) continue;
        std::string path = std::string(named.name) + "." + name + ".";
        path += named.key_of(spec);
        settings.push_back({path, value_of(spec, path, of_entry)});
      }
    }
  }
  return settings;
}

}  // namespace evenkeel
