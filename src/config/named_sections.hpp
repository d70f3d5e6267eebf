#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::config_detail {

/// A section whose entries have names of the user's own, each a set of keys of other sections: `profiles`,
/// `sources` and `fields`. An entry begins with what the configuration says of those keys.
struct NamedSection {
  std::string_view name;        ///< "profiles"
  std::string_view entry;       ///< "profile"
  std::string_view key_prefix;  ///< what the paths of keys have before what an entry calls them: "source."
  std::string_view keys;        ///< which keys an entry has, as a sentence

  bool (*has)(std::string_view section);  ///< whether an entry has keys of that section
  void (*add)(Config& config, const std::string& name);
  /// The configuration as an entry changes it.
  Config (*with)(Config config, const std::string& name);
  /// Takes an entry's keys back from that.
  void (*keep)(Config& config, const std::string& name, const Config& changed);
  std::vector<std::string> (*names)(const Config& config);
  void (*clear)(Config& config);  ///< takes all entries away

  /// The key that an entry calls `key`, or nullptr.
  [[nodiscard]] const KeySpec* find(const std::string& key) const;
  /// What an entry calls a key.
  [[nodiscard]] std::string_view key_of(const KeySpec& spec) const {
    return std::string_view(spec.key.path).substr(key_prefix.size());
  }
};

/// "update" and "micro_batch.max_tokens" of "profiles.update.micro_batch.max_tokens"; either may be empty.
struct NamedPath {
  const NamedSection* section;
  std::string name;
  std::string key;
};

[[nodiscard]] const std::vector<NamedSection>& named_sections();

/// Where a path leads among the named sections; nothing for other paths.
[[nodiscard]] std::optional<NamedPath> named_path(const std::string& path);

/// Letters, digits, _ and -, one at least.
[[nodiscard]] bool is_entry_name(std::string_view name);

/// The key of that path, or nullptr.
[[nodiscard]] const KeySpec* find_key(std::string_view path);

}  // namespace evenkeel::config_detail
