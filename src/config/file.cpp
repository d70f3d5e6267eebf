#include "evenkeel/config/file.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "config/document.hpp"
#include "config/keys.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using config_detail::ConfigValue;
using config_detail::key_specs;
using config_detail::KeySpec;
using config_detail::parse_document;
using config_detail::Place;
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

/// "update" and "micro_batch.max_tokens" of "profiles.update.micro_batch.max_tokens"; either may be empty.
struct ProfilePath {
  std::string name;
  std::string key;
};

std::optional<ProfilePath> profile_path(const std::string& path) {
  constexpr std::string_view section = "profiles.";
  if (!path.starts_with(section)) return std::nullopt;
  const std::size_t dot = path.find('.', section.size());
  if (dot == std::string::npos) return ProfilePath{path.substr(section.size()), ""};
  return ProfilePath{path.substr(section.size(), dot - section.size()), path.substr(dot + 1)};
}

bool is_profile_name(std::string_view name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !name.empty() && std::ranges::all_of(name, allowed);
}

Config with_settings_of(Config config, const Profile& profile) {
  config.balance = profile.balance;
  config.micro_batch = profile.micro_batch;
  config.pack = profile.pack;
  config.loss = profile.loss;
  return config;
}

/// Puts a configuration together from a file and overrides. What profiles say comes last, so that they start
/// from the final settings.
class Loader {
 public:
  /// Returns whether there is anything in it: a map, be it an empty one.
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
    if (equals == std::string::npos) throw ConfigError(place.name(), "no = in it", "Write section.key=value");
    const YAML::Node node = parse_document(text.substr(equals + 1), place);
    apply_entry(text.substr(0, equals), {node, place.name()}, place);
  }

  [[nodiscard]] Config finish() {
    for (auto& [name, profile] : config_.profiles) profile = config_.profile({});
    for (const ProfileEntry& entry : profile_entries_) {
      Profile& profile = config_.profiles.at(entry.name);
      Config changed = with_settings_of(config_, profile);
      entry.spec->read(entry.value, changed);
      profile = changed.profile({});
    }
    return std::move(config_);
  }

 private:
  struct ProfileEntry {
    std::string name;
    const KeySpec* spec;
    ConfigValue value;
  };

  /// Sets one key, or all keys of a section given as a map. An empty section says nothing.
  void apply_entry(const std::string& path, const ConfigValue& value, const Place& place) {
    if (const auto profile = profile_path(path)) return apply_profile_entry(*profile, path, value, place);
    const KeySpec* spec = find_key(path);
    if (spec != nullptr && spec->read) return spec->read(value, config_);
    if (spec == nullptr && paths_of_section(path).empty())
      throw ConfigError(value.where, "unknown key", hint_for_unknown(path));
    apply_section(path, value, place);
  }

  void apply_profile_entry(const ProfilePath& at, const std::string& path, const ConfigValue& value,
                           const Place& place) {
    if (!is_profile_name(at.name)) {
      throw ConfigError(value.where, "is not a name for a profile", "Use letters, digits, _ and -");
    }
    config_.profiles.try_emplace(at.name);
    const bool known = at.key.empty() || config_detail::is_profile_section(section_of(at.key));
    const KeySpec* spec = find_key(at.key);
    if (!known || (spec == nullptr && !at.key.empty() && paths_of_section(at.key).empty())) {
      throw ConfigError(
          value.where, "unknown key of a profile",
          known ? hint_for_unknown(at.key) : "A profile has keys of balance, micro_batch, pack and loss");
    }
    if (spec == nullptr) return apply_section(path, value, place);
    profile_entries_.push_back({at.name, spec, value});
  }

  void apply_section(const std::string& path, const ConfigValue& value, const Place& place) {
    if (value.node.IsNull()) return;
    if (!value.node.IsMap()) {
      config_detail::throw_wrong_type(value, path == "profiles" ? "a map" : "a map of keys");
    }
    apply_map(value.node, path, place);
  }

  void apply_map(const YAML::Node& map, const std::string& section, const Place& place) {
    const auto path_of = [&](const std::string& name) {
      return section.empty() ? name : section + "." + name;
    };
    const auto where_of = [&](const std::string& name, const YAML::Mark& mark) {
      return place.of_key(mark, path_of(name));
    };
    for (const auto& [name, value] : config_detail::map_entries(map, where_of)) {
      apply_entry(path_of(name), value, place);
    }
  }

  Config config_;
  std::vector<ProfileEntry> profile_entries_;
};

void require_valid_plan(const Config& config, const std::string& profile, const std::string& file) {
  const MeshSettings& mesh = config.mesh;
  const auto speeds = static_cast<int>(std::ssize(config.profile(profile).balance.speeds));
  const int dp = mesh.dp.value_or(std::max(1, speeds));
  const std::string of_profile = profile.empty() ? "" : "profiles." + profile + ".";
  try {
    config.plan_settings({mesh.tp, mesh.cp, dp, mesh.pp}, profile).validate();
  } catch (const Error& error) {
    throw ConfigError(file + of_profile + error.report().where, error.report().message, error.report().hint);
  }
}

/// Checks that need more than one key. The size of dp matters to speeds alone, which tell it while dp is
/// auto.
void require_consistent(const Config& config, std::string_view name) {
  const std::string file = std::string(name) + ": ";
  const std::optional<SourceKind> kind = config.source.kind;
  const bool reads_file = kind && kind != SourceKind::synthetic && kind != SourceKind::embedded;
  if (reads_file && config.source.path.empty()) {
    throw ConfigError(file + "source.path", "is missing",
                      "All kinds of source.kind but synthetic and embedded read files");
  }
  require_valid_plan(config, {}, file);
  for (const auto& entry : config.profiles) require_valid_plan(config, entry.first, file);
}

Config finished(Loader loader, std::string_view name, std::span<const std::string> overrides) {
  for (const std::string& text : overrides) loader.apply_override(text);
  Config config = loader.finish();
  require_consistent(config, name);
  return config;
}

/// A file that the shell opened and names by its number, as <(...) does.
bool is_open_file(const std::filesystem::path& file) {
  const std::string name = file.string();
  return name.starts_with("/dev/fd/") || name.starts_with("/proc/self/fd/");
}

constexpr const char* hint_for_open_file =
    "A launcher such as mpirun does not hand the shell's <(...) on to its ranks. Write the configuration to "
    "a "
    "file, or send it to standard input: mpirun ... run /dev/stdin < FILE";

std::string system_message(int error) {
  return error == 0 ? "unknown reason" : std::generic_category().message(error);
}

/// A key's value as YAML. Throws ConfigError that names `path` when no word stands for the value.
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

/// Each profile's keys that differ from the configuration's own.
std::string profiles_to_yaml(const Config& config) {
  if (config.profiles.empty()) return "";
  std::string text = "profiles:\n";
  for (const auto& [name, profile] : config.profiles) {
    const Config changed = with_settings_of(config, profile);
    text += "  " + name + ":\n";
    std::string_view section;
    for (const KeySpec& spec : key_specs()) {
      if (!spec.write || value_of(spec, changed) == value_of(spec, config)) continue;
      const std::string& path = spec.key.path;
      if (section_of(path) != section) {
        section = section_of(path);
        text += "    " + std::string(section) + ":\n";
      }
      text += "      " + path.substr(section.size() + 1) + ": " + value_of(spec, changed) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string read_config_text(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) throw IoError(file.string(), "is a folder, not a file");
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw IoError(file.string(), "cannot open the configuration: " + system_message(errno),
                  is_open_file(file) ? hint_for_open_file : "");
  }
  // Also of a device or a pipe that never ends, no more is read than tells that it is too large.
  std::string text(config_detail::most_document_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw IoError(file.string(), "cannot read the configuration");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > config_detail::most_document_bytes) {
    throw IoError(file.string(),
                  "is larger than a configuration can be, " +
                      std::to_string(config_detail::most_document_bytes) + " bytes",
                  "Is it the right file?");
  }
  return text;
}

Config parse_config(const std::string& yaml, std::string_view name, std::span<const std::string> overrides) {
  Loader loader;
  loader.apply_file(yaml, name);
  return finished(std::move(loader), name, overrides);
}

Config load_config(const std::filesystem::path& file, std::span<const std::string> overrides) {
  const std::string name = file.string();
  Loader loader;
  if (!loader.apply_file(read_config_text(file), name)) {
    throw ConfigError(
        name, "holds no key: it is empty, or only comments",
        "Is it the right file, or a pipe that was read before? Write {} into it for all defaults");
  }
  return finished(std::move(loader), name, overrides);
}

std::string to_yaml(const Config& config) {
  std::string text;
  std::string_view section;
  for (const KeySpec& spec : key_specs()) {
    const std::string& path = spec.key.path;
    if (path == "profiles") text += profiles_to_yaml(config);
    if (!spec.write) continue;
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
  for (const auto& [name, profile] : config.profiles) {
    const Config of_profile = with_settings_of(config, profile);
    for (const KeySpec& spec : key_specs()) {
      if (!spec.write || !config_detail::is_profile_section(section_of(spec.key.path))) continue;
      const std::string path = "profiles." + name + "." + spec.key.path;
      settings.push_back({path, value_of(spec, path, of_profile)});
    }
  }
  return settings;
}

}  // namespace evenkeel
