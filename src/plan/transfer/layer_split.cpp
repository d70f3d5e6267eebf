#include "plan/transfer/layer_split.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "plan/settings/requirements.hpp"

namespace evenkeel {
namespace {

/// What tensors are completed with has one form.
constexpr std::array<std::string_view, 6> own_fields{input_ids_field,    labels_field,
                                                     position_ids_field, loss_mask_field,
                                                     loss_weights_field, prediction_rows_field};

void require_valid(const LayerMap& map, const std::string& where, int pp, int vpp) {
  if (map.stages.empty()) return;
  if (std::ssize(map.stages) != std::int64_t{pp} * vpp) {
    throw ConfigError(where,
                      "lists layers for " + std::to_string(map.stages.size()) + " stages, and mesh has pp " +
                          std::to_string(pp) + " x vpp " + std::to_string(vpp),
                      "Give one list for each virtual stage");
  }
  for (std::size_t stage = 0; stage < map.stages.size(); ++stage) {
    const std::vector<std::int64_t>& layers = map.stages[stage];
    if (std::set(layers.begin(), layers.end()).size() == layers.size()) continue;
    throw ConfigError(where, "names a layer of stage " + std::to_string(stage) + " twice", "Name each once");
  }
}

std::vector<std::vector<std::int64_t>> even_stages(std::int64_t layers, int pp, int vpp,
                                                   const std::string& where) {
  const std::int64_t stages = std::int64_t{pp} * vpp;
  if (layers % stages != 0) {
    throw InputError(where,
                     "has " + std::to_string(layers) + " layers, which pp " + std::to_string(pp) + " x vpp " +
                         std::to_string(vpp) + " stages cannot evenly share",
                     "List them for each stage: layers: [[0, 1, ...], ...]");
  }
  std::vector<std::vector<std::int64_t>> of_stages(static_cast<std::size_t>(stages));
  for (std::int64_t layer = 0; layer < layers; ++layer)
    of_stages[static_cast<std::size_t>(layer / (layers / stages))].push_back(layer);
  return of_stages;
}

/// Returns whether the settings only say how samples write values of tokens.
bool is_about_samples_alone(const FieldSettings& field, std::string_view name) {
  FieldSettings others = field;
  others.read_as.reset();
  if (name == labels_field || name == loss_mask_field) others.at.reset();
  return others == FieldSettings{} &&
         (!field.read_as || field.read_as == LineFormat::axes || field.read_as == LineFormat::runs);
}

void require_all_named(const LayerMap& map, std::int64_t layers, const std::string& where) {
  std::set<std::int64_t> named;
  for (const std::vector<std::int64_t>& stage : map.stages) named.insert(stage.begin(), stage.end());
  const std::string has = "has " + std::to_string(layers) + " layers, and the layers of its stages ";
  if (!named.empty() && *named.rbegin() >= layers)
    throw InputError(where, has + "name layer " + std::to_string(*named.rbegin()),
                     "Layers are numbered from 0");
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (!named.contains(layer))
      throw InputError(where, has + "leave out layer " + std::to_string(layer),
                       "Give it to a stage, or bring the field without it");
  }
}

}  // namespace

void require_valid(const FieldSettings& field, const std::string& name, int pp, int vpp) {
  const std::string where = "fields." + name;
  if (!is_about_samples_alone(field, name) && std::ranges::find(own_fields, name) != own_fields.end()) {
    throw ConfigError(where, "is a built-in field, which is delivered unchanged",
                      "Leave out all settings except read_as: axes or runs, and at for labels and loss_mask");
  }
  Choices choices;
  choices.field = field;
  choices.field_name = name;
  require_together(choices);
  if (field.layers) require_valid(*field.layers, where + ".layers", pp, vpp);
}

std::vector<std::vector<std::int64_t>> layers_of_ranks(const LayerMap& map, std::int64_t layers, int pp,
                                                       int vpp, const std::string& where) {
  EVENKEEL_PRECONDITION(cheap, map.stages.empty() || std::ssize(map.stages) == std::int64_t{pp} * vpp,
                        map.stages.size(), pp, vpp);
  if (!map.stages.empty()) require_all_named(map, layers, where);
  const std::vector<std::vector<std::int64_t>> stages =
      map.stages.empty() ? even_stages(layers, pp, vpp, where) : map.stages;
  std::vector<std::vector<std::int64_t>> ranks(static_cast<std::size_t>(pp));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<std::int64_t>& of_rank = ranks[stage % ranks.size()];
    of_rank.insert(of_rank.end(), stages[stage].begin(), stages[stage].end());
  }
  return ranks;
}

}  // namespace evenkeel
