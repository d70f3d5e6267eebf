#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/exchange_words.hpp"
#include "evenkeel/base/grid.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/plan/batch_schedule.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/filter.hpp"
#include "evenkeel/plan/loss.hpp"
#include "evenkeel/plan/outlier_delay.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

struct MeshSettings {
  int tp = 1;
  int cp = 1;
  int pp = 1;
  int vpp = 1;
  std::optional<int> dp;  ///< if unset, all remaining ranks
  RankOrder order;
  bool flexible_cp = false;  ///< each micro-batch has its own CP group, and sizes vary; cp is then 1
  std::optional<int> max_cp = std::nullopt;  ///< maximum size of these groups; if unset, as large as possible

  friend bool operator==(const MeshSettings&, const MeshSettings&) = default;
};

enum class SourceKind : std::uint8_t {
  jsonl,        ///< rollouts, one JSON object per line
  synthetic,    ///< synthetic long-tailed GRPO rollouts
  lengths,      ///< a length table, with synthetic tokens
  megatron,     ///< a Megatron-Core indexed dataset: path.bin and path.idx
  embedded,     ///< the embedding program supplies the samples of every step
  safetensors,  ///< samples in tensors, ragged or padded: .safetensors files
  dump,         ///< a folder written by `evenkeel run --dump`
  stream,       ///< samples that arrive in a buffer while the job trains
};

struct SourceSettings {
  std::optional<SourceKind> kind;  ///< if unset, open_source refuses it; a DataService does not need it
  std::filesystem::path path;      ///< for sources in files: a file, pattern, prefix or folder
  /// Additional files or patterns of jsonl and safetensors, read after `path`; all together are one source.
  std::vector<std::filesystem::path> more_paths{};
  std::uint64_t seed = 1;       ///< seed of synthetic tokens and lengths
  std::int64_t samples = 2048;  ///< number of samples of a synthetic source
  std::int64_t epochs = 1;      ///< number of times the source is read in one epoch of the job
  std::int64_t weight = 1000;   ///< share among several sources, in thousandths of a common unit

  /// Returns `path` followed by `more_paths`.
  [[nodiscard]] std::vector<std::filesystem::path> paths() const {
    std::vector<std::filesystem::path> all{path};
    all.insert(all.end(), more_paths.begin(), more_paths.end());
    return all;
  }
  /// Returns the paths as text for messages: "a.jsonl", or "a.jsonl and 2 more".
  [[nodiscard]] std::string path_text() const {
    return path.string() + (more_paths.empty() ? "" : " and " + std::to_string(more_paths.size()) + " more");
  }

  /// Returns, for a stream, whether `path` is the address of its buffer. Otherwise, `path` is the folder of a
  /// spool or empty, and the job runs the buffer itself.
  [[nodiscard]] bool names_buffer() const noexcept { return is_address(path.native()); }
  [[nodiscard]] static bool is_address(std::string_view text) noexcept {
    return text.starts_with("http://") || text.starts_with("https://");
  }

  friend bool operator==(const SourceSettings&, const SourceSettings&) = default;
};

/// The section `stream`, for source.kind: stream. For rules that are unset, the buffer's rules apply.
struct ArrivalSettings {
  // For the job's own buffer, used if source.path does not name one:
  std::string listen = "127.0.0.1:8710";          ///< address and port of its server
  std::filesystem::path dir;                      ///< folder in which it keeps samples
  std::string store = "lmdb";                     ///< "lmdb", "memory", or the URL of a Redis server
  std::string name = "default";                   ///< name of the buffer in the Redis server
  std::filesystem::path redis_password_file;      ///< file with the password of the Redis server
  std::int64_t capacity = std::int64_t{8} << 30;  ///< in bytes
  // For any buffer:
  std::filesystem::path token_file;        ///< file with the token required by its server
  std::filesystem::path ca_file;           ///< certificates to trust for https
  std::optional<std::int64_t> group_size;  ///< number of samples per group
  std::optional<std::int64_t> min_group;   ///< minimum number of samples of a closed group
  std::optional<double> deadline;          ///< seconds from a group's first sample until the group is closed
  std::optional<double> ticket_deadline;   ///< seconds from the grant until an unused ticket expires
  std::optional<std::int64_t> max_staleness;  ///< number of versions that a sample may be behind
  std::optional<OnStale> on_stale;
  // For the job:
  bool take_over = false;  ///< whether to end a job that is alive at the buffer
  /// Seconds without a new sample, or without a response from the buffer, after which the job ends; if unset,
  /// it never ends for this reason.
  std::optional<double> patience;
  std::int64_t look_ahead = 0;  ///< number of steps; 0: first come, first served
  /// Whether the trainer publishes versions; otherwise, a step's number is its version.
  bool versions_by_trainer = false;
  // For the job's own buffer:
  std::vector<std::string> late_fields = {};  ///< fields that are added to samples after they are stored

  friend bool operator==(const ArrivalSettings&, const ArrivalSettings&) = default;
};

/// The unit in which the weights of several sources are measured.
enum class MixBy : std::uint8_t { samples, tokens };

struct PackSettings {
  Delivery deliver = Delivery::packed;
  CpLayout cp_layout = CpLayout::zigzag;
  std::optional<std::int64_t> align;  ///< if unset, the alignment that tp and cp need
  std::int64_t align_lcm = 1;
  std::int64_t pad_token = 0;
  std::int64_t label_pad = -100;
  std::int64_t predict_ahead = 0;  ///< see DerivedFieldSettings
  bool padding_mask = false;

  friend bool operator==(const PackSettings&, const PackSettings&) = default;
};

struct ExchangeSettings {
  ExchangePath path = ExchangePath::automatic;
  TensorParallelCopies tp_copies = TensorParallelCopies::own;
  NodeAggregation aggregate = NodeAggregation::automatic;
  std::int64_t prefetch = 1;  ///< number of steps made ahead of the trainer (see Steps)

  friend bool operator==(const ExchangeSettings&, const ExchangeSettings&) = default;
};

struct JobWatchdogSettings {
  std::int64_t seconds = 60;  ///< time limit for ending a job that cannot continue (see Watchdog); 0: never

  friend bool operator==(const JobWatchdogSettings&, const JobWatchdogSettings&) = default;
};

/// The settings of one kind of pass over a step's samples, such as computing log-probs or updating. Which
/// samples share a mini-batch is a property of the step and the same for all passes.
struct Profile {
  BalanceKeys balance;
  MicroBatchKeys micro_batch;
  PackSettings pack;
  LossSettings loss;

  friend bool operator==(const Profile&, const Profile&) = default;
};

/// A job's configuration: every key of the YAML file (docs/configuration.md), with defaults filled in. A
/// value type; the ranks of a job parse the text that rank 0 read.
struct Config {
  MeshSettings mesh;
  SourceSettings source;
  /// Several sources: complete settings by name, with overrides applied. If there are any, `source` itself is
  /// not used as a source.
  std::map<std::string, SourceSettings, std::less<>> sources;
  ArrivalSettings stream;
  MixBy mix = MixBy::samples;
  FilterSettings filter;
  ScheduleSettings batch;
  DelaySettings delay;
  FieldSettings field;
  /// Settings of the samples' fields, by name, with overrides of `field` applied. Fields without settings are
  /// sent and delivered unchanged.
  NamedFields fields;
  /// `shuffle` is not used: plan_settings() sets it to batch.shuffle or, with several sources, to true, so
  /// that mini-batches mix the sources.
  MiniBatchSettings mini_batches;
  BalanceKeys balance;
  MicroBatchKeys micro_batch;
  PackSettings pack;
  PrefixSharing prefix = PrefixSharing::none;                  ///< the key prefix.share
  std::optional<std::int64_t> max_path_tokens;                 ///< the key prefix.max_path_tokens
  SegmentSchedule segment_schedule = SegmentSchedule::packed;  ///< the key prefix.schedule
  std::optional<std::int64_t> max_kept_tokens;                 ///< the key prefix.max_kept_tokens
  LossSettings loss;
  /// Complete settings by name, with overrides applied.
  std::map<std::string, Profile, std::less<>> profiles;
  ExchangeSettings exchange;
  JobWatchdogSettings watchdog;  ///< used by `evenkeel run`; other programs decide themselves

  /// Returns the grid over `world_size` ranks. Throws MeshError if it does not fit.
  [[nodiscard]] Grid grid(int world_size) const;
  /// Returns the profile with this name; the empty name means the configuration's own settings. Throws
  /// ConfigError that lists the existing names.
  [[nodiscard]] Profile profile(std::string_view name) const;
  /// Throws ConfigError naming the key if settings of a field conflict with each other, the mesh's pipeline
  /// or the kinds of the sources, or name a profile that does not exist.
  void require_valid_fields() const;
  /// Returns the settings for planning a pass on a grid of these sizes. Throws ConfigError if the profile
  /// does not exist, the cap is missing or too large, or settings conflict.
  [[nodiscard]] PlanSettings plan_settings(const GridPoint& sizes, std::string_view profile = {}) const;
  /// Returns the settings of plans for delaying outliers (OutlierDelay::plan): a pass with the
  /// configuration's own settings over `delay.outliers_per_step` DP ranks, without tp and pp. If the cap is
  /// given per rank, the smallest power of two of ranks whose cap holds a sample of `longest` tokens is used,
  /// as for choosing a fixed cp. Throws ConfigError if a setting that the delay needs is missing, or one that
  /// it excludes is set. Precondition: delay.is_on().
  [[nodiscard]] PlanSettings delay_settings(std::int64_t longest) const;

  friend bool operator==(const Config&, const Config&) = default;
};

/// Reads a configuration: the defaults, then the file, then `overrides` in order. An override is
/// "section.key=value" (as with --set on the command line); the value is parsed as YAML. Does not use MPI.
///
/// The file is read once, from beginning to end, so it may be a pipe. Throws IoError if it cannot be read or
/// has more than 1 MiB, and ConfigError if it does not contain any key (use `{}` for all defaults) or is
/// invalid (see parse_config()).
[[nodiscard]] Config load_config(const std::filesystem::path& file,
                                 std::span<const std::string> overrides = {});

/// One of several texts that make up a configuration.
struct ConfigText {
  std::string yaml;
  std::string name;  ///< the file's name in messages; if empty, errors give only the key instead of a line
};

/// Same as the other load_config(), but for the text of a file that has already been read. One rank of a job
/// reads and broadcasts the text, and every rank parses it, so all ranks throw the same ConfigError.
[[nodiscard]] Config load_config(const ConfigText& file, std::span<const std::string> overrides = {});

/// Same as load_config(), but for YAML text, which need not contain any key. `name` is the file's name in
/// messages. Deterministic.
///
/// Throws ConfigError for the first error: malformed YAML; a key that is unknown, repeated or of the wrong
/// type; a value that is out of range, not allowed or not available in this version; or settings that
/// conflict. `where` is "NAME:LINE: key", "NAME:LINE:COLUMN" for malformed YAML, "NAME: key" for a conflict,
/// or "--set key=value".
[[nodiscard]] Config parse_config(const std::string& yaml, std::string_view name,
                                  std::span<const std::string> overrides = {});

/// Returns the defaults, overridden by these texts in order, then by `overrides`. The entries of profiles,
/// sources and fields are still applied last, so they start from the final settings. Used by programs that
/// have their own settings in addition to a file. Throws ConfigError like the other parse_config().
[[nodiscard]] Config parse_config(std::span<const ConfigText> texts,
                                  std::span<const std::string> overrides = {});

/// Returns the text of a configuration file, Evenkeel's or another system's. Throws IoError naming it if it
/// cannot be read or has more than 1 MiB.
[[nodiscard]] std::string read_config_text(const std::filesystem::path& file);

/// Returns the configuration as YAML, with one line per key; parse_config() of it returns an equal
/// configuration. Entries of profiles, sources and fields have only the keys that differ from the
/// configuration's own. A cost made from a model is written as its coefficients. Here and below, throws
/// ConfigError naming the key if a value cannot be written.
[[nodiscard]] std::string to_yaml(const Config& config);

/// A key of a configuration, and its value as YAML.
struct ConfigSetting {
  std::string path;  ///< "micro_batch.max_tokens", or "profiles.NAME.micro_batch.max_tokens"
  std::string value;

  friend bool operator==(const ConfigSetting&, const ConfigSetting&) = default;
};

/// Returns every key of Config, in the order of the reference page, then all keys of each entry of sources,
/// fields and profiles. Two lists are equal if and only if the configurations are equivalent.
[[nodiscard]] std::vector<ConfigSetting> list_settings(const Config& config);

}  // namespace evenkeel
