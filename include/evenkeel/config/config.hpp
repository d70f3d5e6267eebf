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
  std::optional<int> dp;  ///< unset: all remaining ranks
  RankOrder order;
  bool flexible_cp = false;                  ///< each micro-batch has a group of its own size; cp is then 1
  std::optional<int> max_cp = std::nullopt;  ///< the largest of these groups; unset: all places

  friend bool operator==(const MeshSettings&, const MeshSettings&) = default;
};

enum class SourceKind : std::uint8_t {
  jsonl,        ///< rollouts, one JSON object a line
  synthetic,    ///< made-up long-tailed GRPO rollouts
  lengths,      ///< a length table, with made-up tokens
  megatron,     ///< a Megatron-Core indexed dataset: path.bin and path.idx
  embedded,     ///< the embedding program pushes its samples every step
  safetensors,  ///< samples in tensors, ragged or padded: .safetensors files
  dump,         ///< what `evenkeel run --dump` wrote to a folder
  stream,       ///< samples that arrive in a buffer while the job trains
};

struct SourceSettings {
  std::optional<SourceKind> kind;  ///< unset: open_source refuses that, a DataService needs none
  std::filesystem::path path;      ///< of sources in files: file, pattern, prefix or folder
  /// Further files or patterns of jsonl and safetensors, read after `path`, all as one source.
  std::vector<std::filesystem::path> more_paths{};
  std::uint64_t seed = 1;       ///< of synthetic tokens and lengths
  std::int64_t samples = 2048;  ///< how many a synthetic source has
  std::int64_t epochs = 1;      ///< how often it is read in one epoch of the job
  std::int64_t weight = 1000;   ///< its share among several sources, in thousandths of any one unit

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

  /// Of a stream: whether `path` is the address of its buffer. Otherwise it is the folder of a spool, or
  /// empty, and the job has the buffer itself.
  [[nodiscard]] bool names_buffer() const noexcept { return is_address(path.native()); }
  [[nodiscard]] static bool is_address(std::string_view text) noexcept {
    return text.starts_with("http://") || text.starts_with("https://");
  }

  friend bool operator==(const SourceSettings&, const SourceSettings&) = default;
};

/// The section `stream`, for source.kind: stream. Rules that are unset are the buffer's own.
struct ArrivalSettings {
  // A buffer of the job's own, where source.path names none.
  std::string listen = "127.0.0.1:8710";          ///< address and port of its door
  std::filesystem::path dir;                      ///< that it keeps samples in
  std::string store = "lmdb";                     ///< or memory, or the URL of a Redis
  std::string name = "default";                   ///< of the buffer in a Redis
  std::filesystem::path redis_password_file;      ///< with the password of the Redis
  std::int64_t capacity = std::int64_t{8} << 30;  ///< bytes
  // Any buffer.
  std::filesystem::path token_file;           ///< with the token that its door asks for
  std::filesystem::path ca_file;              ///< certificates to trust for https
  std::optional<std::int64_t> group_size;     ///< samples of a group
  std::optional<std::int64_t> min_group;      ///< fewest samples of a group that was closed
  std::optional<double> deadline;             ///< seconds after its first sample, then a group is closed
  std::optional<double> ticket_deadline;      ///< seconds after it was granted, then an unused ticket expires
  std::optional<std::int64_t> max_staleness;  ///< versions that a sample may be behind
  std::optional<OnStale> on_stale;
  // The job.
  bool take_over = false;            ///< ends a job that is alive at the buffer
  std::optional<double> patience;    ///< seconds without any sample, then the job ends
  std::int64_t look_ahead = 0;       ///< steps; 0: first come, first served
  bool versions_by_trainer = false;  ///< it publishes them; otherwise a version is a step's number

  friend bool operator==(const ArrivalSettings&, const ArrivalSettings&) = default;
};

/// What the weights of several sources are shares of.
enum class MixBy : std::uint8_t { samples, tokens };

struct PackSettings {
  CpLayout cp_layout = CpLayout::zigzag;
  std::optional<std::int64_t> align;  ///< unset: what tp and cp need
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
  std::int64_t prefetch = 1;  ///< steps made ahead of the trainer (see Steps)

  friend bool operator==(const ExchangeSettings&, const ExchangeSettings&) = default;
};

struct JobWatchdogSettings {
  std::int64_t seconds = 60;  ///< within which a job that cannot continue ends (see Watchdog); 0: never

  friend bool operator==(const JobWatchdogSettings&, const JobWatchdogSettings&) = default;
};

/// The settings of one kind of pass over a step's samples, such as computing log-probs or updating. Which
/// samples share a mini-batch belongs to the step, and is the same for all passes.
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
  /// Several sources: complete settings by name, with overrides applied; `source` itself is then not a
  /// source.
  std::map<std::string, SourceSettings, std::less<>> sources;
  ArrivalSettings stream;
  MixBy mix = MixBy::samples;
  FilterSettings filter;
  ScheduleSettings batch;
  DelaySettings delay;
  FieldSettings field;
  /// Settings of fields that samples bring, by name, with overrides of `field` applied. Other fields are sent
  /// and delivered unchanged.
  NamedFields fields;
  /// `shuffle` follows batch.shuffle, and is on with several sources, so that mini-batches mix
  /// them.
  MiniBatchSettings mini_batches;
  BalanceKeys balance;
  MicroBatchKeys micro_batch;
  PackSettings pack;
  PrefixSharing prefix = PrefixSharing::none;                  ///< the key prefix.share
  std::optional<std::int64_t> max_path_tokens;                 ///< the key prefix.max_path_tokens
  SegmentSchedule segment_schedule = SegmentSchedule::packed;  ///< the key prefix.schedule
  std::optional<std::int64_t> max_kept_tokens;                 ///< the key prefix.max_kept_tokens
  LossSettings loss;
  std::map<std::string, Profile, std::less<>> profiles;  ///< complete settings by name, overrides applied
  ExchangeSettings exchange;
  JobWatchdogSettings watchdog;  ///< of `evenkeel run`; other programs decide themselves

  /// The grid over `world_size` ranks. Throws MeshError if it does not fit.
  [[nodiscard]] Grid grid(int world_size) const;
  /// The profile of that name; the empty name means the configuration's own settings. Throws ConfigError that
  /// lists the existing names.
  [[nodiscard]] Profile profile(std::string_view name) const;
  /// Throws ConfigError that names the key if settings of a field conflict with each other, the mesh's
  /// pipeline or the existing profiles.
  void require_valid_fields() const;
  /// The settings for planning a pass on a grid of these sizes. Throws as profile() does.
  [[nodiscard]] PlanSettings plan_settings(const GridPoint& sizes, std::string_view profile = {}) const;
  /// The plan for delaying outliers (OutlierDelay::plan): a pass with the configuration's own settings
  /// over `delay.companions` DP ranks, without tp and pp. If the cap is given per rank, the smallest power
  /// of two of ranks whose cap holds a sample of `longest` tokens is used, as for choosing a fixed cp.
  /// Throws ConfigError if the delay lacks a setting, or excludes one that is set. Precondition:
  /// delay.is_on().
  [[nodiscard]] PlanSettings delay_settings(std::int64_t longest) const;

  friend bool operator==(const Config&, const Config&) = default;
};

/// Reads a configuration: the defaults, then the file, then `overrides` in order. An override is
/// "section.key=value", its value read as YAML (the command line's --set). No MPI.
///
/// The file is read once, from beginning to end, so that it may be a pipe. Throws IoError if it cannot be
/// read or has more than 1 MiB, ConfigError if it has no key at all (use `{}` for all defaults), otherwise as
/// parse_config.
[[nodiscard]] Config load_config(const std::filesystem::path& file,
                                 std::span<const std::string> overrides = {});

/// One of several texts that make up a configuration.
struct ConfigText {
  std::string yaml;
  std::string
      name;  ///< stands for a file in messages; empty: there are no lines, and `where` is only the key
};

/// The same for the text of a file that has been read: one rank of a job reads and broadcasts it, and every
/// rank parses it, so that all throw the same ConfigError.
[[nodiscard]] Config load_config(const ConfigText& file, std::span<const std::string> overrides = {});

/// The same from YAML text, which may hold no key; `name` stands for the file in messages. Deterministic.
///
/// Throws ConfigError for the first error: malformed YAML, a key that is unknown, repeated or of the wrong
/// type, a value out of range, not among the allowed ones or not available in this version, or settings that
/// conflict. `where` is "NAME:LINE: key" or "--set key=value".
[[nodiscard]] Config parse_config(const std::string& yaml, std::string_view name,
                                  std::span<const std::string> overrides = {});

/// The defaults, then these texts in order, then `overrides`: later ones override earlier ones. Profiles are
/// still applied last, so that they start from the final settings. For programs that have settings of their
/// own in addition to a file. Throws as above.
[[nodiscard]] Config parse_config(std::span<const ConfigText> texts,
                                  std::span<const std::string> overrides = {});

/// The text of a configuration file, Evenkeel's or another system's. Throws IoError that names it if it
/// cannot be read or has more than 1 MiB.
[[nodiscard]] std::string read_config_text(const std::filesystem::path& file);

/// The configuration as YAML, one line a key; parse_config returns an equal one. Keys that have only one
/// value in this version are left out. A cost made from a model is written as its two coefficients. Throws
/// ConfigError that names the key if a value cannot be written; so below.
[[nodiscard]] std::string to_yaml(const Config& config);

/// One key of a configuration and its value as YAML.
struct ConfigSetting {
  std::string path;  ///< "micro_batch.max_tokens", or "profiles.NAME.micro_batch.max_tokens"
  std::string value;

  friend bool operator==(const ConfigSetting&, const ConfigSetting&) = default;
};

/// Every key of Config, in the order of the reference page, then all keys of each profile: two lists are
/// equal exactly if the configurations mean the same.
[[nodiscard]] std::vector<ConfigSetting> list_settings(const Config& config);

}  // namespace evenkeel
