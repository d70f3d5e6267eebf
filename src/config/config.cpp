#include "evenkeel/config/config.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "plan/transfer/layer_split.hpp"

namespace evenkeel {

namespace {

/// Cumulative lengths are 32-bit.
constexpr std::int64_t most_tokens = std::numeric_limits<std::int32_t>::max();

/// The most places, or power of two of them, that there are and, unless it is said, whose micro-batches can
/// be counted.
int largest_group(const MeshSettings& mesh, std::int64_t tokens_per_rank, int places) {
  const std::int64_t most =
      mesh.max_cp ? *mesh.max_cp : std::max<std::int64_t>(1, most_tokens / tokens_per_rank);
  const auto largest = static_cast<std::uint64_t>(std::min<std::int64_t>(most, places));
  return static_cast<int>(mesh.context_sizes == ContextSizes::any ? largest : std::bit_floor(largest));
}

/// What is wrong with `profiles` of a field is told as what is wrong with the configuration's.
void require_known(const std::vector<std::string>& profiles, const Config& config) {
  for (const std::string& name : profiles) static_cast<void>(config.profile(name));
}

void require_sizes_fit(const MeshSettings& mesh) {
  if (!mesh.flexible_cp && mesh.context_sizes == ContextSizes::any)
    throw ConfigError("mesh.context_sizes", "is any, and cp is a number",
                      "Leave it out, or set mesh.cp: flexible");
  if (!mesh.max_cp) return;
  const std::string value = "is " + std::to_string(*mesh.max_cp);
  if (!mesh.flexible_cp)
    throw ConfigError("mesh.max_cp", value + ", and cp is a number",
                      "Leave it out, or set mesh.cp: flexible");
  if (mesh.context_sizes != ContextSizes::any && !std::has_single_bit(static_cast<unsigned>(*mesh.max_cp)))
    throw ConfigError("mesh.max_cp", value + ", which is no power of two",
                      "Set 1, 2, 4, 8, ..., or mesh.context_sizes: any");
}

void require_countable(std::int64_t per_rank, std::int64_t ranks) {
  if (per_rank <= most_tokens / std::max<std::int64_t>(1, ranks)) return;
  throw ConfigError("micro_batch.max_tokens_per_rank",
                    std::to_string(per_rank) + " tokens on each of " + std::to_string(ranks) +
                        " ranks are more than a micro-batch can have, " + std::to_string(most_tokens),
                    "Lower it, or mesh.cp or mesh.max_cp");
}

/// With few shapes one must hold any micro-batch. Only samples without tokens could be more than the cap has
/// alignments.
void limit_samples_to_cap(PlanSettings& settings) {
  MicroBatchSettings& micro_batch = settings.micro_batch;
  if (!micro_batch.shapes || micro_batch.max_samples) return;
  micro_batch.max_samples = std::max<std::int64_t>(1, micro_batch.max_tokens / settings.alignment());
}

/// What depends on how many ranks run a micro-batch together.
void use_group_sizes(const MeshSettings& mesh, PlanSettings& settings) {
  require_sizes_fit(mesh);
  const std::optional<std::int64_t> per_rank = std::exchange(settings.micro_batch.max_tokens_per_rank, {});
  if (!per_rank && settings.micro_batch.max_tokens == 0) {
    throw ConfigError("micro_batch.max_tokens",
                      "is auto, and max_tokens_per_rank is not set: there is no cap", "Set one of them");
  }
  if (!mesh.flexible_cp) {
    if (!per_rank) return;
    require_countable(*per_rank, settings.cp.size);
    settings.micro_batch.max_tokens = *per_rank * settings.cp.size;
    return;
  }
  if (!per_rank) {
    throw ConfigError(
        "micro_batch.max_tokens_per_rank",
        "is not set, and with mesh.cp: flexible it is the cap: a group of any size holds so many "
        "tokens a rank",
        "Set it in place of micro_batch.max_tokens");
  }
  settings.micro_batch.max_tokens = *per_rank;
  settings.flexible =
      FlexibleContext{largest_group(mesh, *per_rank, std::max(1, settings.dp)), mesh.context_sizes};
  require_countable(*per_rank, settings.flexible->max_size);
}

void require_delay_is_whole(const DelaySettings& delay) {
  const std::string unset = "is not set, and batch.delay_outliers is " + std::to_string(delay.steps);
  if (!delay.longer_than) {
    throw ConfigError("batch.outlier_length", unset + ": nothing says which samples are outliers",
                      "Set it to the tokens above which a sample is one");
  }
  if (!delay.companions) {
    throw ConfigError("batch.outlier_companions", unset + ": nothing says how many outliers come together",
                      "Set it to the number of DP ranks");
  }
}

// What a step holds must follow from the configuration and the lengths alone.
void require_delay_fits(const Config& config) {
  const auto refuse = [](const std::string& key, const std::string& why, const std::string& hint) {
    throw ConfigError(key, why, hint);
  };
  if (config.mesh.flexible_cp) {
    refuse("batch.delay_outliers",
           "is for DP ranks that wait for a long sample, and with mesh.cp: flexible a group of its own takes "
           "that",
           "Leave it out, or set mesh.cp to a number");
  }
  if (config.prefix != PrefixSharing::none) {
    refuse("batch.delay_outliers",
           "would part samples that share a prefix: steps are arranged by lengths alone, before samples are "
           "read "
           "and it is known which of them share tokens",
           "Leave it out, or set prefix.share: false");
  }
  if (config.balance.measured) {
    refuse("batch.delay_outliers",
           "goes by what samples cost, and with balance.cost: measured that changes with every run: steps "
           "would hold other samples each time",
           "Set balance.cost to a model");
  }
  if (config.balance.encoder) {
    refuse(
        "batch.delay_outliers",
        "goes by lengths alone, and balance.cost counts the work of an encoder by rows of a field, which are "
        "not known before a step is read",
        "Leave encoder out, or batch.delay_outliers");
  }
  if (!config.balance.speeds.empty()) {
    refuse("batch.delay_outliers",
           "would make what steps hold depend on balance.speeds, and so on the machines of one mesh",
           "Leave one of them out");
  }
}

}  // namespace

Grid Config::grid(int world_size) const {
  if (mesh.data_ranks >= world_size) {
    throw MeshError(
        "mesh.data_ranks",
        std::to_string(mesh.data_ranks) + " of " + std::to_string(world_size) + " ranks leave none to train",
        "Start more ranks, or set fewer aside");
  }
  const int places = world_size - mesh.data_ranks;
  if (!mesh.dp) return Grid::fill_dp({mesh.tp, mesh.cp, 0, mesh.pp}, mesh.order, places);
  const Grid grid({mesh.tp, mesh.cp, *mesh.dp, mesh.pp}, mesh.order);
  grid.require_world(places);
  return grid;
}

Profile Config::profile(std::string_view name) const {
  if (name.empty()) return {balance, micro_batch, pack, loss};
  const auto found = profiles.find(name);
  if (found != profiles.end()) return found->second;
  std::string known;
  for (const auto& entry : profiles) known += (known.empty() ? "" : ", ") + entry.first;
  throw ConfigError("profiles", "there is no profile '" + std::string(name) + "'",
                    known.empty() ? "The configuration has none" : "Profiles: " + known);
}

void Config::require_valid_fields() const {
  for (const auto& [name, settings] : fields) {
    try {
      require_valid(settings, name, mesh.pp, mesh.vpp);
      require_known(settings.profiles, *this);
    } catch (const ConfigError& error) {
      const std::string key = error.report().where.empty() ? "" : "." + error.report().where;
      throw ConfigError("fields." + name + key, error.report().message, error.report().hint);
    }
  }
}

PlanSettings Config::plan_settings(const GridPoint& sizes, std::string_view profile_name) const {
  const Profile chosen = profile(profile_name);
  PlanSettings settings;
  settings.dp = sizes.dp;
  settings.tp = sizes.tp;
  settings.pp = sizes.pp;
  settings.vpp = mesh.vpp;
  settings.cp = {sizes.cp, chosen.pack.cp_layout};
  settings.align = chosen.pack.align;
  settings.align_lcm = chosen.pack.align_lcm;
  settings.seed = batch.seed;
  settings.mini_batches = mini_batches;
  settings.mini_batches.shuffle = batch.shuffle || sources.size() > 1;
  settings.balance = chosen.balance;
  settings.micro_batch = chosen.micro_batch;
  settings.sharing = prefix;
  use_group_sizes(mesh, settings);
  limit_samples_to_cap(settings);
  if (settings.flexible && chosen.loss.aggregation == LossAggregation::mindspeed_rl) {
    throw ConfigError(
        "loss.aggregation",
        "mindspeed-rl weighs a sample by the samples of its rank, and with mesh.cp: flexible the "
        "ranks of a sample have different ones",
        "Choose another aggregation, or set mesh.cp to a number");
  }
  return settings;
}

PlanSettings Config::delay_settings(std::int64_t longest) const {
  require_delay_is_whole(delay);
  require_delay_fits(*this);
  Config own = *this;
  own.mesh = {};
  own.micro_batch.order = MicroBatchOrder::plan;  // none changes when ranks that meet are done
  GridPoint sizes{1, 1, static_cast<int>(*delay.companions), 1};
  while (true) {
    PlanSettings settings = own.plan_settings(sizes);
    const std::int64_t alignment = settings.alignment();
    const bool holds = longest <= settings.cap(settings.cp.size) / alignment * alignment;
    if (holds || !micro_batch.max_tokens_per_rank) return settings;
    sizes.cp *= 2;
  }
}

}  // namespace evenkeel
