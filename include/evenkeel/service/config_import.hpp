#pragma once

#include <cstdint>
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

/// What one key of the foreign file became.
struct ImportedKey {
  std::string foreign;                ///< "rl_config.use_dynamic_bsz"
  std::string value;                  ///< as the file has it, on one line
  std::vector<std::string> evenkeel;  ///< "micro_batch.mode: packed"; none when nothing has to be set
  std::string note;                   ///< what a reader should know; for an unused key, why. May be empty

  friend bool operator==(const ImportedKey&, const ImportedKey&) = default;
};

struct ImportedConfig {
  ForeignSystem system = ForeignSystem::mindspeed_rl;
  std::string yaml;                 ///< the Evenkeel configuration, with a comment a key where it came from
  std::vector<ImportedKey> keys;    ///< those that were understood, in the file's order
  std::vector<ImportedKey> unused;  ///< the others, in the file's order: together all keys of the file

  friend bool operator==(const ImportedConfig&, const ImportedConfig&) = default;
};

struct ImportOptions {
  std::optional<ForeignSystem> from;  ///< unset: told from the file's keys
  bool preset = false;                ///< set balance.preset too, for the foreign system's own partitions
};

/// Turns a MindSpeed-RL, ROLL or verl configuration into an Evenkeel one. Only what the file says is set;
/// references such as ${data.train_batch_size} are followed. The stages of a step become profiles, and the
/// training stage also the job's own micro_batch settings. Whether the result suits a job (a cap below the
/// alignment, say) is for parse_config to tell.
///
/// Pure and deterministic. `name` stands for the file in messages. Throws ConfigError for malformed YAML, for
/// a file that is no map, of no recognisable system or without any key that is understood, and for a key
/// whose value has the wrong type or range.
[[nodiscard]] ImportedConfig import_config(const std::string& yaml, std::string_view name,
                                           const ImportOptions& options = {});

/// What became of each key, as a table for a terminal: foreign key, value, what it became, note; then the
/// keys that were not used, with the reason.
[[nodiscard]] std::string import_table(const ImportedConfig& imported);

}  // namespace evenkeel
