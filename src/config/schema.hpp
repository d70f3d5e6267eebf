#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace evenkeel {

/// What a reader needs to know about one configuration key. Loading, checking, dumping and the reference
/// page all come from the table behind these, so none of them can disagree.
struct ConfigKey {
  std::string path;           ///< "micro_batch.max_tokens"
  std::string type;           ///< "integer", "integer or auto", "word", ...
  std::string default_value;  ///< as YAML text
  std::string values;         ///< the range, or the words allowed, and those this version does not have yet
  std::string meaning;        ///< plain sentences, and what it needs of other keys
};

/// Every key, section by section, in the order of the reference page. Lives as long as the program.
[[nodiscard]] std::span<const ConfigKey> config_keys();

/// The keys as plain text: what `evenkeel config schema` prints. `chosen` names one key or a section; empty:
/// all keys. Throws ConfigError that lists the sections if there is no such key or section.
[[nodiscard]] std::string config_schema_text(std::string_view chosen = {});

/// The keys as a Markdown page: docs/configuration.md, byte for byte.
[[nodiscard]] std::string config_reference_markdown();

}  // namespace evenkeel
