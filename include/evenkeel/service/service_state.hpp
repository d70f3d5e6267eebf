#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel {

/// What identifies a source's samples, whatever its files are called and wherever they are.
struct SourceFingerprint {
  std::string name;          ///< for people: source.path, or the kind if there is no path
  std::int64_t samples = 0;  ///< of the source
  std::int64_t bytes = 0;    ///< of all its files; 0 if samples are made up
  std::uint64_t digest = 0;  ///< of the files' content, or of the input of made-up samples
  /// The digest of all bytes of its files, if the one above covers only places in them; unset for files that
  /// are too large for that.
  std::optional<std::uint64_t> whole = std::nullopt;

  friend bool operator==(const SourceFingerprint&, const SourceFingerprint&) = default;
};

/// A profile's measured costs. The times behind them are not kept: costs are fitted again from the times that
/// come after resuming, and these are used until then.
struct SavedCost {
  double overhead = 0;            ///< seconds a micro-batch
  double linear = 0;              ///< seconds a token
  double quadratic = 0;           ///< seconds a squared length
  std::int64_t observations = 0;  ///< that they were fitted to
  /// Seconds to pass one token's keys and values to the next rank in groups inside a node, and in larger
  /// ones; unset if they could not be measured.
  std::optional<double> inside_node = std::nullopt;
  std::optional<double> between_nodes = std::nullopt;

  friend bool operator==(const SavedCost&, const SavedCost&) = default;
};

/// A job's position and identity: all that a service needs to resume as if it had never stopped. A step is a
/// pure function of its number, the configuration and the sources, so a state holds no samples and no order:
/// at most `most_bytes` as text, whatever the size of the source. It does not depend on the mesh: it records
/// the one that it was taken on, and may be resumed on another one, with the same steps.
///
/// A value type. Equal on all ranks if the service's contract says so.
struct ServiceState {
  static constexpr std::size_t most_bytes = std::size_t{64} << 10;

  std::int64_t next_step = 0;                ///< the trainer has received the steps before it, and no others
  std::string job;                           ///< a name that no other job has; may be empty
  GridPoint mesh{1, 1, 1, 1};                ///< sizes of the mesh it was taken on
  std::vector<ConfigSetting> settings;       ///< as list_settings() has them
  std::vector<SourceFingerprint> sources;    ///< of a SampleStream; empty if the trainer brings samples
  std::uint64_t order = 0;                   ///< a digest of which samples and parts of them are taken
  std::map<std::string, SavedCost> costs{};  ///< by profile, if they were measured
  std::vector<PackedShape> shapes{};         ///< with micro_batch.shapes: chosen so far

  friend bool operator==(const ServiceState&, const ServiceState&) = default;
};

/// The state of a job of this configuration before its first step, without sources and a name.
[[nodiscard]] ServiceState state_of_new_job(const Config& config);

/// The state as text of at most ServiceState::most_bytes: a JSON object that begins with a checksum of
/// the rest. Throws LimitError if it would be longer, which takes dozens of profiles or hundreds of
/// sources.
[[nodiscard]] std::string to_text(const ServiceState& state);

/// The state from such text; `name` stands for it in errors. Safe for any text; memory
/// is O(text). Throws InputError that names the place for text that is too long,
/// truncated or modified (its checksum differs), from an unknown version, or with an
/// invalid value.
[[nodiscard]] ServiceState parse_state(std::string_view text, std::string_view name);

/// The differences between the jobs of `saved` and `now` that would change steps, a sentence each: the key or
/// source, both values, and what would happen to steps. The mesh, how tokens travel and names of files do not
/// count. Empty if resuming gives the same steps as without the stop.
[[nodiscard]] std::vector<std::string> differences(const ServiceState& saved, const ServiceState& now);

/// What happens to a job that differs from that of the state it resumes from.
enum class ChangedJob : std::uint8_t {
  refused,
  accepted,  ///< by a user who has read differences()
};

/// Throws ConfigError that lists all differences() unless there are none. `name` stands for the saved state.
void require_same_job(const ServiceState& saved, const ServiceState& now, std::string_view name);

}  // namespace evenkeel
