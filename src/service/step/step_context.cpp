#include "service/step/step_context.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "plan/micro_batches/shape_choice.hpp"
#include "service/equal_on_ranks.hpp"

namespace evenkeel {
namespace {

// Checks that all ranks have the same configuration, since later communication depends on it, and returns the
// configuration's grid. Throws ConfigError on all ranks if the configurations differ.
Grid make_checked_grid(const Communicator& world, const Config& config) {
  require_ranks_of_one_group(world);
  require_equal_on_ranks(world, run_together(world, [&] { return list_settings(config); }),
                         "Give every rank the same configuration: read it on one rank and broadcast it");
  Grid grid;
  fail_together(world, try_on_replicated_data([&] { grid = config.grid(world.size()); }));
  return grid;
}

Mesh make_mesh(const Communicator& world, const Config& config) {
  return {world, make_checked_grid(world, config), config.mesh.flexible_cp};
}

// Collective: draws a number that identifies this service.
std::uint64_t draw_number(const Communicator& world) {
  std::uint64_t number = 0;
  GuardedWork work;
  if (world.rank() == 0) {
    work([&] {
      std::random_device device;
      number = std::uint64_t{device()} << 32 | device() | 1;
    });
  }
  work.agree(world);
  world.broadcast(number, 0);
  return number;
}

std::vector<int> dp_of_ranks(const Grid& grid) {
  std::vector<int> dp;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) dp.push_back(grid.point_of(WorldRank{rank}).dp);
  return dp;
}

}  // namespace

std::string profile_text(std::string_view profile) {
  return profile.empty() ? std::string() : " under profile '" + std::string(profile) + "'";
}

std::string name_of(const Step& step) {
  return "step " + std::to_string(step.index) +
         (step.profile.empty() ? std::string() : " (profile '" + step.profile + "')");
}

void require_not_moved_from(const Step& step) {
  if (step.record) return;
  throw InputError("step", "is empty: a pass has already consumed it, or it was never made",
                   "Use the step that the pass returned; a pass that fails consumes its step, too");
}

StepContext::StepContext(const Communicator& ranks, const Config& config_of_job, const ServiceState& from)
    : mesh(make_mesh(ranks, config_of_job)) {
  fail_together(world(), try_on_replicated_data([&] {
                  config = config_of_job;
                  dp_of_rank = dp_of_ranks(mesh.grid());
                  collect_cost_fields();
                  times = std::make_unique<TimeReports>(config, mesh.grid().sizes(), from);
                  plan_settings({}).validate();
                  for (const auto& entry : config.profiles) plan_settings(entry.first).validate();
                  config.require_valid_fields();
                  prepare_shapes(from);
                }));
  number = draw_number(world());
  prepare_exchange(world(), transport_settings());
  sends_messages = !moves_without_messages(world(), transport_settings());
}

void StepContext::collect_cost_fields() {
  if (config.balance.cost_field) cost_fields.insert(*config.balance.cost_field);
  for (const auto& [name, profile] : config.profiles)
    if (profile.balance.cost_field) cost_fields.insert(*profile.balance.cost_field);
}

// Uses the shapes of `from` if there are at most micro_batch.shapes of them and they include the first shapes
// for the current settings; otherwise, uses these first shapes. The input is replicated.
void StepContext::prepare_shapes(const ServiceState& from) {
  std::vector<PlanSettings> passes{plan_settings({})};
  for (const auto& entry : config.profiles) {
    passes.push_back(plan_settings(entry.first));
    if (std::ranges::find(passes.begin() + 1, passes.end() - 1, passes.back()) == passes.end() - 1)
      planned_profiles.push_back(entry.first);
  }
  std::vector<PackedShape> shapes = evenkeel::initial_shapes(passes);
  if (shapes.empty()) return;
  const bool goes_on = std::ssize(from.shapes) <= *passes.front().micro_batch.shapes &&
                       std::ranges::all_of(shapes, [&](const PackedShape& shape) {
                         return std::ranges::find(from.shapes, shape) != from.shapes.end();
                       });
  first_shapes = std::make_shared<const std::vector<PackedShape>>(goes_on ? from.shapes : std::move(shapes));
}

PlanSettings StepContext::plan_settings(std::string_view profile) const {
  PlanSettings settings = config.plan_settings(mesh.grid().sizes(), profile);
  settings.dp_of_rank = dp_of_rank;
  settings.node_of_rank.assign(mesh.nodes().begin(), mesh.nodes().end());
  cost_in_use(profile).apply_to(settings.balance);
  return settings;
}

DerivedFieldSettings StepContext::derived_settings(std::string_view profile) const {
  const PackSettings pack = config.profile(profile).pack;
  return {pack.pad_token, pack.label_pad, pack.predict_ahead, pack.padding_mask};
}

TransportSettings StepContext::transport_settings() const noexcept {
  return {config.exchange.path, default_max_message_bytes, config.exchange.tp_copies,
          config.exchange.aggregate};
}

CostInUse StepContext::cost_in_use(std::string_view profile) const {
  if (times->is_measured(profile)) return times->current_cost(profile);
  CostInUse configured;
  configured.model = config.profile(profile).balance.cost;
  return configured;
}

std::uint64_t StepContext::cut_hash(const PlanSettings& settings) const {
  Fnv1a hash;
  const GridPoint sizes = mesh.grid().sizes();
  for (const int size : {sizes.tp, sizes.cp, sizes.dp, sizes.pp}) hash.add(std::int64_t{size});
  hash.add(mesh.grid().order().text());
  hash.add(settings.alignment());
  hash.add(static_cast<std::int64_t>(settings.cp.layout));
  hash.add(static_cast<std::int64_t>(settings.delivery));
  return hash.value();
}

// Compares cut hashes, which cover the settings that determine which rows of a sample each rank holds.
CallKey StepContext::key_of(std::string_view action, const Step& step, std::string_view how) const {
  const StepOrigin& origin = step.record->origin;
  if (origin.cut != cut_hash(plan_settings(step.profile))) {
    throw InputError(name_of(step), "was made by a service with a different mesh or configuration",
                     "Use the service that made it, or one with the same mesh and configuration");
  }
  const std::string text = std::string(action) + " " + name_of(step) + std::string(how);
  return {{origin.service, origin.serial, fnv1a_64(text)}, text};
}

}  // namespace evenkeel
