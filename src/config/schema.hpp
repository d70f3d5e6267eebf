#pragma once

#include <span>
#include <string>
#include <string_view>

namespace evenkeel {

/// Description of a configuration key for readers. Loading, checking, dumping and the reference page all use
/// the table behind these keys, so they cannot disagree.
struct ConfigKey {
  std::string path;           ///< full name, such as "micro_batch.max_tokens"
  std::string type;           ///< kind of value, such as "integer", "integer or auto" or "choice"
  std::string default_value;  ///< default value as YAML text
  std::string values;         ///< allowed values: a range or a list of words
  std::string meaning;        ///< plain sentences, including what the key requires of other keys
};

/// Returns all keys, section by section, in the order of the reference page. They live as long as the
/// program.
[[nodiscard]] std::span<const ConfigKey> config_keys();

/// Returns the keys as plain text, as `evenkeel config schema` prints them. `chosen` is a key, a section, or
/// empty for all keys. Throws ConfigError that lists the sections if there is no such key or section.
[[nodiscard]] std::string config_schema_text(std::string_view chosen = {});

/// Returns the keys as a Markdown page. The file docs/configuration.md must be identical to this page.
[[nodiscard]] std::string config_reference_markdown();

}  // namespace evenkeel
