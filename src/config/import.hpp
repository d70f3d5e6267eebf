#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// A training system whose YAML configuration can be turned into Evenkeel's.
enum class ForeignSystem : std::uint8_t { mindspeed_rl, roll, verl };

/// Its word on the command line and in balance.preset: "mindspeed-rl", "roll", "verl".
[[nodiscard]] std::string_view to_string(ForeignSystem system);
/// The system of such a word; nothing for any other.
[[nodiscard]] std::optional<ForeignSystem> foreign_system(std::string_view word);

/// What one key of the foreign configuration became.
struct ImportedKey {
  std::string foreign;                ///< "rl_config.use_dynamic_bsz"
  std::string value;                  ///< on one line; of an understood key, what its references stand for
  std::vector<std::string> evenkeel;  ///< "micro_batch.mode: packed"; none when nothing has to be set
  std::string note;                   ///< what a reader should know; for an unused key, why. May be empty

  friend bool operator==(const ImportedKey&, const ImportedKey&) = default;
};

/// Something that decides memory, batches, the mesh or the loss and that the import could not find, or could
/// not carry over as it is.
struct MissingSetting {
  std::string foreign;                ///< the key that says it there, or would: "critic.use_dynamic_bsz"
  std::string value;                  ///< as the file has it; empty when no file has the key
  std::vector<std::string> evenkeel;  ///< what would be used: "micro_batch.max_tokens: 8192"
  std::string why;

  friend bool operator==(const MissingSetting&, const MissingSetting&) = default;
};

struct ImportedConfig {
  ForeignSystem system = ForeignSystem::mindspeed_rl;
  std::string yaml;                 ///< the Evenkeel configuration, with a comment a key where it came from
  std::vector<ImportedKey> keys;    ///< those that were understood, in the file's order
  std::vector<ImportedKey> unused;  ///< the others, in the file's order: together all keys of the file
  std::vector<MissingSetting> missing;  ///< not empty: `yaml` would train differently
  std::vector<std::string> files;       ///< read besides the first, as defaults lists name them
  std::vector<std::string> lost_files;  ///< that they name and that are not found, each with its entry

  friend bool operator==(const ImportedConfig&, const ImportedConfig&) = default;
};

struct ImportSettings {
  std::optional<ForeignSystem> from;  ///< unset: told from the file's keys
  bool preset = false;                ///< set balance.preset too, for the foreign system's own partitions
  /// Laid on the configuration in this order, in Hydra's words: "a.b=1", "+a.b=1", "++a.b=1", "~a.b", and
  /// "group=option" for an entry of its defaults list.
  std::vector<std::string> overrides;
  /// What ${oc.env:NAME} stands for.
  std::map<std::string, std::string> environment;
  /// The text of another file, nothing when there is none; asked for what defaults lists name, beside the
  /// first file and in its hydra.searchpath. Unset: no other file is there.
  std::function<std::optional<std::string>(const std::filesystem::path&)> read_file;
};

/// Turns a MindSpeed-RL, ROLL or verl configuration into an Evenkeel one: their RL, SFT and DPO files.
/// Defaults lists are put together as Hydra does, overrides laid on, and OmegaConf's references followed.
/// Only what the files say is set, and the defaults of theirs that docs/coming-from-*.md names. The stages of
/// a step become profiles, and the training stage also the job's own micro_batch settings. What decides
/// memory, batches, the mesh or the loss is right in `yaml` or listed in `missing`. Whether the result suits
/// a job (a cap below the alignment, say) is for parse_config to tell.
///
/// Pure and deterministic: it looks at its arguments only. `name` is the file's path, for messages and for
/// where other files are looked for. Throws ConfigError for malformed YAML, for a file that is no map, of no
/// recognisable system or without any key that is understood, for a key whose value has the wrong type or
/// range, and for an override that Hydra would refuse.
[[nodiscard]] ImportedConfig import_config(const std::string& yaml, std::string_view name,
                                           const ImportSettings& options = {});

/// What became of each key, as a table for a terminal: foreign key, value, what it became, note; then the
/// keys that were not used, with the reason; then what is missing, and what Evenkeel would use. Text from the
/// files is made printable(). Lines have at most `width` characters, longer words left aside.
[[nodiscard]] std::string import_table(const ImportedConfig& imported, std::size_t width = 1 << 20);

}  // namespace evenkeel
