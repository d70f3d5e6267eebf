#include "evenkeel/config/config.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/settings/requirements.hpp"
#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

namespace {

/// Maximum number of tokens in a micro-batch, since cumulative lengths are 32-bit integers.
constexpr std::int64_t most_tokens = std::numeric_limits<std::int32_t>::max();

/// Returns the largest power of two that is at most `places` and at most mesh.max_cp. If mesh.max_cp is not
/// set, the group's tokens must not exceed most_tokens instead.
int max_context_group_size(const MeshSettings& mesh, std::int64_t tokens_per_rank, int places) {
  const std::int64_t most =
      mesh.max_cp ? *mesh.max_cp : std::max<std::int64_t>(1, most_tokens / tokens_per_rank);
  const auto largest = static_cast<std::uint64_t>(std::min<std::int64_t>(most, places));
  return static_cast<int>(std::bit_floor(largest));
}

/// Throws ConfigError at `where` if one of a field's profiles is not in the configuration.
void require_known_profiles(const std::vector<std::string>& profiles, const std::string& where,
                            const Config& config) {
  for (const std::string& name : profiles) {
    try {
      static_cast<void>(config.profile(name));
    } catch (const ConfigError& error) {
      throw ConfigError(where, error.report().message, error.report().hint);
    }
  }
}

void require_power_of_two_max_cp(const MeshSettings& mesh) {
  if (!mesh.max_cp || std::has_single_bit(static_cast<unsigned>(*mesh.max_cp))) return;
  throw ConfigError("mesh.max_cp", "is " + std::to_string(*mesh.max_cp) + ", which is not a power of two",
                    "Set 1, 2, 4, 8, ...");
}

void require_tokens_fit_int32(std::int64_t per_rank, std::int64_t ranks) {
  if (per_rank <= most_tokens / std::max<std::int64_t>(1, ranks)) return;
  throw ConfigError("micro_batch.max_tokens_per_rank",
                    "is " + std::to_string(per_rank) + ", so a micro-batch on " + std::to_string(ranks) +
                        " ranks could exceed the limit of " + std::to_string(most_tokens) + " tokens",
                    "Lower it, mesh.cp or mesh.max_cp");
}

/// If the number of shapes is limited and max_samples is not set, sets max_samples to the cap divided by the
/// alignment, since one shape must be able to hold any micro-batch. Without this limit, a micro-batch could
/// contain more samples if some of them have no tokens.
void set_default_max_samples(PlanSettings& settings) {
  MicroBatchSettings& micro_batch = settings.micro_batch;
  if (!micro_batch.shapes || micro_batch.max_samples) return;
  std::int64_t most = 1;
  for (const int size : settings.group_sizes())
    most = std::max(most, settings.cap(size) / settings.alignment(size));
  micro_batch.max_samples = most;
}

/// Returns the token cap of a micro-batch. The cap is per rank if CP groups vary in size, otherwise per CP
/// group.
std::int64_t cap_of(const MicroBatchKeys& keys, const MeshSettings& mesh, const PlanSettings& settings) {
  const std::optional<std::int64_t>& per_rank = keys.max_tokens_per_rank;
  if (!per_rank && keys.max_tokens == 0) {
    throw ConfigError("micro_batch.max_tokens",
                      "is auto, but max_tokens_per_rank is not set, so micro-batches have no cap",
                      "Set one of them");
  }
  if (!per_rank) return keys.max_tokens;
  require_tokens_fit_int32(*per_rank, settings.largest_group());
  return mesh.flexible_cp ? *per_rank : *per_rank * settings.cp.size;
}

std::int64_t max_predict_ahead(const Config& config) {
  std::int64_t most = config.pack.predict_ahead;
  for (const auto& [name, profile] : config.profiles) most = std::max(most, profile.pack.predict_ahead);
  return most;
}

/// Returns the settings of a pass without its strategy and its cap, which are computed from the result.
PlanSettings settings_of(const Config& config, const Profile& pass, const GridPoint& sizes) {
  PlanSettings settings;
  settings.dp = sizes.dp;
  settings.tp = sizes.tp;
  settings.pp = sizes.pp;
  settings.vpp = config.mesh.vpp;
  settings.cp = {sizes.cp, pass.pack.cp_layout};
  settings.delivery = pass.pack.deliver;
  settings.align = pass.pack.align;
  settings.align_lcm = pass.pack.align_lcm;
  settings.seed = config.batch.seed;
  settings.mini_batches = config.mini_batches;
  settings.mini_batches.shuffle = config.batch.shuffle || config.sources.size() > 1;
  settings.balance = pass.balance;
  settings.micro_batch = pass.micro_batch;
  settings.sharing = config.prefix;
  if (config.prefix != PrefixSharing::none) settings.predict_ahead = max_predict_ahead(config);
  settings.max_path_tokens = config.max_path_tokens;
  settings.schedule = config.segment_schedule;
  settings.max_kept_tokens = config.max_kept_tokens;
  return settings;
}

/// Returns the choices of a pass that decide whether settings are compatible (see Choices). `is_own` is true
/// if the pass uses the configuration's own settings instead of a profile; only such a pass delays outliers.
Choices choices_of(const Config& config, const PlanSettings& settings, const Profile& pass, bool is_own) {
  Choices choices = choices_of(settings);
  choices.balance = pass.balance;
  choices.micro_batch = pass.micro_batch;
  choices.loss = pass.loss.aggregation;
  if (is_own) choices.delay = config.delay;
  choices.flexible_cp = config.mesh.flexible_cp;
  choices.has_max_group_size = config.mesh.max_cp.has_value();
  choices.has_cap_per_rank = pass.micro_batch.max_tokens_per_rank.has_value();
  return choices;
}

/// Rejects `at: token` for a field if some but not all sources are dumps. The values in a dump are already at
/// the rows that predict their tokens, so they must not be shifted again.
void require_same_convention(const Config& config, const std::string& name, const FieldSettings& field) {
  const auto is_dump = [](const auto& source) { return source.second.kind == SourceKind::dump; };
  const auto dumps = std::ranges::count_if(config.sources, is_dump);
  if (field.at != RowConvention::token || dumps == 0 || dumps == std::ssize(config.sources)) return;
  throw ConfigError(
      "fields." + name + ".at",
      "is token, but the dumps among the sources have values at the rows that predict their tokens",
      "Dump the other sources, too, or read the dumps in a separate job");
}

}  // namespace

Grid Config::grid(int world_size) const {
  if (!mesh.dp) return Grid::fill_dp({mesh.tp, mesh.cp, 0, mesh.pp}, mesh.order, world_size);
  const Grid grid({mesh.tp, mesh.cp, *mesh.dp, mesh.pp}, mesh.order);
  grid.require_world(world_size);
  return grid;
}

Profile Config::profile(std::string_view name) const {
  if (name.empty()) return {balance, micro_batch, pack, loss};
  const auto found = profiles.find(name);
  if (found != profiles.end()) return found->second;
  throw ConfigError("profiles", "there is no profile '" + std::string(name) + "'",
                    profiles.empty() ? "Define it in section profiles"
                                     : "The profiles are: " + join(profiles | std::views::keys));
}

void Config::require_valid_fields() const {
  for (const auto& [name, settings] : fields) {
    require_valid(settings, name, mesh.pp, mesh.vpp);
    require_same_convention(*this, name, settings);
    require_known_profiles(settings.profiles, "fields." + name + ".profiles", *this);
  }
}

PlanSettings Config::plan_settings(const GridPoint& sizes, std::string_view profile_name) const {
  const Profile pass = profile(profile_name);
  PlanSettings settings = settings_of(*this, pass, sizes);
  Choices choices = choices_of(*this, settings, pass, profile_name.empty());
  choices.balance.strategy = resolve_strategy(choices);
  require_compatible(choices);
  require_power_of_two_max_cp(mesh);
  const std::int64_t per_rank = pass.micro_batch.max_tokens_per_rank.value_or(1);
  settings.strategy = strategy_for(choices, max_context_group_size(mesh, per_rank, std::max(1, settings.dp)));
  settings.micro_batch.max_tokens = cap_of(pass.micro_batch, mesh, settings);
  set_default_max_samples(settings);
  return settings;
}

PlanSettings Config::delay_settings(std::int64_t longest) const {
  const Profile pass = profile({});
  const GridPoint meshed{mesh.tp, mesh.cp, mesh.dp.value_or(1), mesh.pp};
  require_compatible(choices_of(*this, settings_of(*this, pass, meshed), pass, true));
  Config own = *this;
  own.mesh = {};
  // Do not reorder: without a pipeline, the order does not matter to ranks that synchronize once per step.
  own.micro_batch.order = MicroBatchOrder::plan;
  GridPoint sizes{1, 1, static_cast<int>(*delay.outliers_per_step), 1};
  while (true) {
    PlanSettings settings = own.plan_settings(sizes);
    const std::int64_t alignment = settings.alignment();
    const bool holds = longest <= settings.cap(settings.cp.size) / alignment * alignment;
    if (holds || !micro_batch.max_tokens_per_rank) return settings;
    sizes.cp *= 2;
  }
}

}  // namespace evenkeel
