#include "evenkeel/config/config.hpp"

#include <string>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

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
  return settings;
}

}  // namespace evenkeel
