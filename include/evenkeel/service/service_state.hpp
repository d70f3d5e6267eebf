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

/// What tells a source's samples from others, whatever its files are called and wherever they lie.
struct SourceFingerprint {
  std::string name;          ///< for people: what source.path says, or the kind where there is no path
  std::int64_t samples = 0;  ///< of the source
  std::int64_t bytes = 0;    ///< of all its files; 0 where samples are made up
  std::uint64_t digest = 0;  ///< of the files' content, or of what made-up samples are made from
  /// Of all bytes of its files, where the digest above is of places in them alone; none of files that are too
  /// large to be read for it.
  std::optional<std::uint64_t> whole = std::nullopt;

  friend bool operator==(const SourceFingerprint&, const SourceFingerprint&) = default;
};

/// A profile's costs as they were measured. The times behind them are not kept: they are fitted anew from
/// those that come after the stop, and these hold until then.
struct SavedCost {
  double overhead = 0;            ///< seconds a micro-batch
  double linear = 0;              ///< seconds a token
  double quadratic = 0;           ///< seconds a squared length
  std::int64_t observations = 0;  ///< that they were fitted to
  /// Seconds to pass the keys and values of one token on by one rank in groups inside a node, and in larger
  /// ones; unset where no times told them.
  std::optional<double> inside_node = std::nullopt;
  std::optional<double> between_nodes = std::nullopt;

  friend bool operator==(const SavedCost&, const SavedCost&) = default;
};

/// Where a job stands, and what it is: all that a service needs to go on as if it had never stopped. A step
/// is a pure function of its number, the configuration and the sources, so that a state holds no samples and
/// no order: at most `most_bytes` as text, whatever the size of the source. It does not depend on the mesh:
/// the one that it was taken on is told, and another one may go on from it, with the same steps.
///
/// A value. Equal on all ranks where the service's contract says so.
struct ServiceState {
  static constexpr std::size_t most_bytes = std::size_t{64} << 10;

  std::int64_t next_step = 0;           ///< steps before it have been handed to the trainer, from it on none
  std::string job;                      ///< a name that no other job has; empty when nobody gave one
  GridPoint mesh{1, 1, 1, 1};           ///< sizes of the mesh it was taken on
  std::vector<ConfigSetting> settings;  ///< as list_settings() has them
  std::vector<SourceFingerprint> sources;    ///< of a SampleStream; none where the trainer brings samples
  std::uint64_t order = 0;                   ///< a digest of which samples of them are taken, and how whole
  std::map<std::string, SavedCost> costs{};  ///< by profile, where they were measured
  std::vector<PackedShape> shapes{};         ///< with micro_batch.shapes: chosen so far

  friend bool operator==(const ServiceState&, const ServiceState&) = default;
};

/// The state of a job of this configuration before its first step, without sources and a name.
[[nodiscard]] ServiceState state_of_new_job(const Config& config);

/// The state as text of at most ServiceState::most_bytes: a JSON object that begins with a checksum of the
/// rest.
/// Throws LimitError when it would be longer, which takes dozens of profiles or hundreds of sources.
[[nodiscard]] std::string to_text(const ServiceState& state);

/// The state from such text; `name` stands for it in errors. Whatever the text holds, nothing is done but to
/// read it: memory is O(text). Throws InputError that names the place for text that is too long, was cut off
/// or changed (its checksum differs), is of a version that this program does not know, or holds a value that
/// no state has.
[[nodiscard]] ServiceState parse_state(std::string_view text, std::string_view name);

/// In what the job of `now` differs from that of `saved` so that steps would be other ones, a sentence each:
/// the key or source, both values, and what becomes of steps. The mesh, how tokens travel and names of files
/// are no difference. Empty when going on gives what would have come without the stop.
[[nodiscard]] std::vector<std::string> differences(const ServiceState& saved, const ServiceState& now);

/// What becomes of a job that differs from that of the state it goes on from.
enum class ChangedJob : std::uint8_t {
  refused,
  accepted,  ///< by somebody who has read differences()
};

/// Throws ConfigError that lists all differences() unless there are none. `name` stands for the saved state.
void require_same_job(const ServiceState& saved, const ServiceState& now, std::string_view name);

}  // namespace evenkeel
