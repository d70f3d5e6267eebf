#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::config_detail {

/// A section whose entries have user-defined names and consist of keys of other sections: `profiles`,
/// `sources` and `fields`. The keys of an entry default to the configuration's own values.
struct NamedSection {
  std::string_view name;        ///< path of the section, such as "profiles"
  std::string_view entry;       ///< name of an entry in messages, such as "profile"
  std::string_view key_prefix;  ///< prefix that an entry's keys omit, such as "source."; may be empty
  std::string_view keys{};  ///< a sentence that lists the sections of an entry's keys, if they have several

  bool (*has)(std::string_view section);  ///< whether entries may have keys of this section
  /// Adds an entry with the configuration's own values, or resets an existing entry to them.
  void (*add)(Config& config, const std::string& name);
  /// Returns the configuration with its keys replaced by those of an entry.
  Config (*config_of_entry)(Config config, const std::string& name);
  /// Sets the keys of an entry to the values in the configuration `changed`.
  void (*set_entry)(Config& config, const std::string& name, const Config& changed);
  std::vector<std::string> (*names)(const Config& config);
  void (*clear)(Config& config);  ///< removes all entries

  /// Returns the key whose name within an entry is `key`, or null.
  [[nodiscard]] const KeySpec* find(const std::string& key) const;
  /// Returns the name of a key within an entry.
  [[nodiscard]] std::string_view key_of(const KeySpec& spec) const {
    return std::string_view(spec.key.path).substr(key_prefix.size());
  }
};

/// The parts of a path such as "profiles.update.micro_batch.max_tokens": `name` is "update" and `key` is
/// "micro_batch.max_tokens". Either may be empty.
struct NamedPath {
  const NamedSection* section;
  std::string name;
  std::string key;
};

[[nodiscard]] const std::vector<NamedSection>& named_sections();

/// Returns the parts of a path if it is in a named section, otherwise nullopt.
[[nodiscard]] std::optional<NamedPath> parse_named_path(const std::string& path);

/// Returns whether a name is not empty and consists of letters, digits, _ and -.
[[nodiscard]] bool is_entry_name(std::string_view name);

/// Returns the key with this path, or null.
[[nodiscard]] const KeySpec* find_key(std::string_view path);

}  // namespace evenkeel::config_detail
