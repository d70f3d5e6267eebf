#include "evenkeel/service/config.hpp"

namespace evenkeel {

Grid Config::grid(int world_size) const {
  if (!mesh.dp) return Grid::fill_dp({mesh.tp, mesh.cp, 0, mesh.pp}, mesh.order, world_size);
  const Grid grid({mesh.tp, mesh.cp, *mesh.dp, mesh.pp}, mesh.order);
  grid.require_world(world_size);
  return grid;
}

PlanSettings Config::plan_settings(const GridPoint& sizes) const {
  PlanSettings settings;
  settings.dp = sizes.dp;
  settings.tp = sizes.tp;
  settings.pp = sizes.pp;
  settings.vpp = mesh.vpp;
  settings.cp = {sizes.cp, pack.cp_layout};
  settings.align = pack.align;
  settings.align_lcm = pack.align_lcm;
  settings.balance = balance;
  settings.micro_batch = micro_batch;
  return settings;
}

}  // namespace evenkeel
