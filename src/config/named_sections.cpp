#include "config/named_sections.hpp"

#include <algorithm>
#include <cctype>

namespace evenkeel::config_detail {
namespace {

template <typename Map>
std::vector<std::string> names_in(const Map& map) {
  std::vector<std::string> names;
  for (const auto& entry : map) names.push_back(entry.first);
  return names;
}

Config with_profile(Config config, const std::string& name) {
  const Profile profile = config.profiles.at(name);
  config.balance = profile.balance;
  config.micro_batch = profile.micro_batch;
  config.pack = profile.pack;
  config.loss = profile.loss;
  return config;
}

NamedSection make_profiles_section() {
  return {.name = "profiles",
          .entry = "profile",
          .key_prefix = "",
          .keys = "A profile has keys of balance, micro_batch, pack and loss",
          .has = is_profile_section,
          .add = [](Config& config, const std::string& name) { config.profiles[name] = config.profile({}); },
          .config_of_entry = with_profile,
          .set_entry = [](Config& config, const std::string& name,
                          const Config& changed) { config.profiles[name] = changed.profile({}); },
          .names = [](const Config& config) { return names_in(config.profiles); },
          .clear = [](Config& config) { config.profiles.clear(); }};
}

NamedSection make_sources_section() {
  return {.name = "sources",
          .entry = "source",
          .key_prefix = "source.",
          .has = [](std::string_view section) { return section == "source"; },
          .add = [](Config& config, const std::string& name) { config.sources[name] = config.source; },
          .config_of_entry =
              [](Config config, const std::string& name) {
                config.source = config.sources.at(name);
                return config;
              },
          .set_entry = [](Config& config, const std::string& name,
                          const Config& changed) { config.sources[name] = changed.source; },
          .names = [](const Config& config) { return names_in(config.sources); },
          .clear = [](Config& config) { config.sources.clear(); }};
}

NamedSection make_fields_section() {
  return {.name = "fields",
          .entry = "field",
          .key_prefix = "field.",
          .has = [](std::string_view section) { return section == "field"; },
          .add = [](Config& config, const std::string& name) { config.fields[name] = config.field; },
          .config_of_entry =
              [](Config config, const std::string& name) {
                config.field = config.fields.at(name);
                return config;
              },
          .set_entry = [](Config& config, const std::string& name,
                          const Config& changed) { config.fields[name] = changed.field; },
          .names = [](const Config& config) { return names_in(config.fields); },
          .clear = [](Config& config) { config.fields.clear(); }};
}

}  // namespace

const KeySpec* NamedSection::find(const std::string& key) const {
  const KeySpec* const spec = find_key(std::string(key_prefix) + key);
  return spec != nullptr && has(section_of(spec->key.path)) ? spec : nullptr;
}

const std::vector<NamedSection>& named_sections() {
  static const std::vector<NamedSection> sections{make_sources_section(), make_fields_section(),
                                                  make_profiles_section()};
  return sections;
}

std::optional<NamedPath> parse_named_path(const std::string& path) {
  for (const NamedSection& section : named_sections()) {
    const std::string prefix = std::string(section.name) + ".";
    if (!path.starts_with(prefix)) continue;
    const std::size_t dot = path.find('.', prefix.size());
    if (dot == std::string::npos) return NamedPath{&section, path.substr(prefix.size()), ""};
    return NamedPath{&section, path.substr(prefix.size(), dot - prefix.size()), path.substr(dot + 1)};
  }
  return std::nullopt;
}

bool is_entry_name(std::string_view name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !name.empty() && std::ranges::all_of(name, allowed);
}

const KeySpec* find_key(std::string_view path) {
  for (const KeySpec& spec : key_specs()) {
    if (spec.key.path == path) return &spec;
  }
  return nullptr;
}

}  // namespace evenkeel::config_detail
