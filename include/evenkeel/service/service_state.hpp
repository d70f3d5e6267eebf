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

/// Identifies a source's samples, independent of the names and locations of its files.
struct SourceFingerprint {
  std::string name;          ///< human-readable: source.path, or the kind if there is no path
  std::int64_t samples = 0;  ///< number of samples of the source
  std::int64_t bytes = 0;    ///< total size of its files; 0 for synthetic samples
  std::uint64_t digest = 0;  ///< digest of the files' content, or of the input of synthetic samples
  /// The digest of all bytes of its files, if the digest above covers only some places in them; unset for
  /// files that are too large.
  std::optional<std::uint64_t> whole = std::nullopt;

  friend bool operator==(const SourceFingerprint&, const SourceFingerprint&) = default;
};

/// A profile's measured costs. The times to which they were fitted are not kept: after resuming, costs are
/// fitted again to new times, and these costs are used until then.
struct SavedCost {
  double overhead = 0;            ///< seconds per micro-batch
  double linear = 0;              ///< seconds per token
  double quadratic = 0;           ///< seconds per squared length
  std::int64_t observations = 0;  ///< number of times to which they were fitted
  /// Seconds to pass one token's keys and values to the next rank in groups inside a node, and in larger
  /// ones; unset if they could not be measured.
  std::optional<double> inside_node = std::nullopt;
  std::optional<double> between_nodes = std::nullopt;

  friend bool operator==(const SavedCost&, const SavedCost&) = default;
};

/// A job's position and identity: everything that a service needs to resume as if it had never stopped. A
/// step is a pure function of its number, the configuration and the sources, so a state contains neither
/// samples nor their order: as text, it has at most `max_bytes`, regardless of the size of the source. It
/// does not depend on the mesh: it records the mesh on which it was taken, but a job may resume on another
/// mesh, with the same samples and the same loss in each step.
///
/// A value type. Equal on all ranks when the service's contract guarantees it.
struct ServiceState {
  static constexpr std::size_t max_bytes = std::size_t{64} << 10;

  std::int64_t next_step = 0;           ///< the trainer has received the steps before this one, and no others
  std::string job;                      ///< a unique name of the job; may be empty
  GridPoint mesh{1, 1, 1, 1};           ///< sizes of the mesh on which it was taken
  std::vector<ConfigSetting> settings;  ///< result of list_settings()
  /// Sources of a SampleStream; empty if the trainer supplies samples.
  std::vector<SourceFingerprint> sources;
  /// Digest of the settings that determine which samples, and which parts of them, are used.
  std::uint64_t order = 0;
  std::map<std::string, SavedCost> costs{};  ///< by profile, if measured
  std::vector<PackedShape> shapes{};         ///< shapes chosen so far, with micro_batch.shapes

  friend bool operator==(const ServiceState&, const ServiceState&) = default;
};

/// Returns the state of a job with this configuration before its first step, without sources and name.
[[nodiscard]] ServiceState state_of_new_job(const Config& config);

/// Returns the state as text of at most ServiceState::max_bytes: a JSON object that begins with a checksum
/// of the rest. Throws LimitError if it would be longer, which takes dozens of profiles or hundreds of
/// sources.
[[nodiscard]] std::string to_text(const ServiceState& state);

/// Parses the result of to_text(). `name` is the text's name in errors. Safe for any text; memory is O(text).
/// Throws InputError naming the place for text that is too long, truncated or modified (its checksum
/// differs), from an unknown version, or with an invalid value.
[[nodiscard]] ServiceState parse_state(std::string_view text, std::string_view name);

/// Returns the differences between the jobs of `saved` and `now` that would change a step's samples, cuts or
/// loss, one sentence each: the key or source, both values, and the effect. The mesh, the way tokens are
/// transferred and the names of files do not count, although another mesh has other micro-batches.
[[nodiscard]] std::vector<std::string> differences(const ServiceState& saved, const ServiceState& now);

/// Whether a job may differ from the job of the state from which it resumes.
enum class ChangedJob : std::uint8_t {
  refused,
  accepted,  ///< accepted by a user who has read differences()
};

/// Throws ConfigError that lists all differences(), unless there are none. `name` is the saved state's name
/// in errors.
void require_same_job(const ServiceState& saved, const ServiceState& now, std::string_view name);

}  // namespace evenkeel
