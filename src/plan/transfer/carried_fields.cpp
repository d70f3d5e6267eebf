#include "plan/transfer/carried_fields.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "pack/sample_fields.hpp"
#include "plan/settings/requirements.hpp"
#include "plan/transfer/row_cuts.hpp"

namespace evenkeel {
namespace {

/// Built-in fields, from which other tensors are derived. They must have certain kinds, types and shapes.
constexpr std::array<std::string_view, 6> own_fields{input_ids_field,    labels_field,
                                                     position_ids_field, loss_mask_field,
                                                     loss_weights_field, prediction_rows_field};

void require_valid(const LayerMap& map, const std::string& where, int pp, int vpp) {
  if (map.stages.empty()) return;
  if (std::ssize(map.stages) != std::int64_t{pp} * vpp) {
    throw ConfigError(where,
                      "lists layers for " + format_plain_count(std::ssize(map.stages), "stage") +
                          ", but the mesh has pp " + std::to_string(pp) + " x vpp " + std::to_string(vpp),
                      "Give one list for each virtual stage");
  }
  for (std::size_t stage = 0; stage < map.stages.size(); ++stage) {
    std::vector<std::int64_t> layers = map.stages[stage];
    std::ranges::sort(layers);
    const auto twice = std::ranges::adjacent_find(layers);
    if (twice == layers.end()) continue;
    throw ConfigError(
        where, "lists layer " + std::to_string(*twice) + " more than once for stage " + std::to_string(stage),
        "Name each layer of a stage once");
  }
}

std::vector<std::vector<std::int64_t>> split_layers_evenly(std::int64_t layers, int pp, int vpp,
                                                           const std::string& where) {
  const std::int64_t stages = std::int64_t{pp} * vpp;
  if (layers % stages != 0) {
    throw InputError(where,
                     "has " + format_plain_count(layers, "layer") +
                         ", which cannot be divided evenly among pp " + std::to_string(pp) + " x vpp " +
                         std::to_string(vpp) + " stages",
                     "List the layers of each stage: layers: [[0, 1, ...], ...]");
  }
  std::vector<std::vector<std::int64_t>> of_stages(static_cast<std::size_t>(stages));
  for (std::int64_t layer = 0; layer < layers; ++layer)
    of_stages[static_cast<std::size_t>(layer / (layers / stages))].push_back(layer);
  return of_stages;
}

/// Returns whether the only effect of the settings is to describe how samples store the values of tokens.
bool describes_samples_only(const FieldSettings& field, std::string_view name) {
  FieldSettings others = field;
  others.read_as.reset();
  if (name == labels_field || name == loss_mask_field) others.at.reset();
  return others == FieldSettings{} &&
         (!field.read_as || field.read_as == LineFormat::axes || field.read_as == LineFormat::runs);
}

void require_all_named(const LayerMap& map, std::int64_t layers, const std::string& where) {
  std::set<std::int64_t> named;
  for (const std::vector<std::int64_t>& stage : map.stages) named.insert(stage.begin(), stage.end());
  const std::string has =
      "has " + format_plain_count(layers, "layer") + ", but the list under its key 'layers' ";
  if (!named.empty() && *named.rbegin() >= layers)
    throw InputError(where, has + "contains layer " + std::to_string(*named.rbegin()),
                     "Number layers from 0 to " + std::to_string(layers - 1));
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (!named.contains(layer))
      throw InputError(where, has + "does not contain layer " + std::to_string(layer),
                       "Add layer " + std::to_string(layer) + " to the list of a stage");
  }
}

CarriedField unchanged_field(const FieldSpec& spec, std::size_t source) {
  return {spec, spec.dtype, spec.dtype, source, {}, false, {}, false, {}, {}};
}

/// Returns the smallest type that holds the range if it is smaller than `brought`, otherwise `brought`.
DType narrowest_dtype(DType brought, const IntegerRange& range) {
  for (const DType dtype :
       {DType::uint8, DType::int8, DType::uint16, DType::int16, DType::uint32, DType::int32}) {
    if (size_of(dtype) < size_of(brought) && range_of(dtype).contains(range)) return dtype;
  }
  return brought;
}

DType transfer_type_of(const FieldSpec& spec, const FieldSettings& settings, const FieldRouting& ways) {
  if (settings.wire_dtype == FieldWidth::original) return spec.dtype;
  if (!is_integer(spec.dtype)) {
    throw InputError(
        "field '" + spec.name + "'",
        "has elements of " + std::string(name_of(spec.dtype)) + ", but only integers can be narrowed",
        "Set fields." + spec.name + ".wire_dtype: original" +
            (settings.dtype == FieldWidth::narrow ? " and fields." + spec.name + ".dtype: original" : ""));
  }
  if (!is_sent_narrow(settings, ways.sends_messages)) return spec.dtype;
  const auto range = ways.ranges.find(spec.name);
  EVENKEEL_PRECONDITION(cheap, range != ways.ranges.end(), spec.name);
  return narrowest_dtype(spec.dtype, range->second);
}

/// Throws InputError if the settings narrow a counted field or split it by layers.
void require_counted_unchanged(const FieldSpec& spec, const FieldSettings& settings) {
  if (!is_counted(spec.kind) || (!settings.layers && settings.wire_dtype == FieldWidth::original)) return;
  const std::string key =
      "fields." + spec.name + (settings.layers ? ".layers: null" : ".wire_dtype: original");
  throw InputError(
      "field '" + spec.name + "'",
      "is of kind " + std::string(name_of(spec.kind)) +
          ", so each sample has its own number of rows; such fields cannot be split by layers or narrowed",
      "Set " + key +
          (!settings.layers && settings.dtype == FieldWidth::narrow
               ? " and fields." + spec.name + ".dtype: original"
               : ""));
}

/// Throws InputError if the field is not counted. Equal values can only be shared in counted fields.
void require_counted(const FieldSpec& spec) {
  if (is_counted(spec.kind)) return;
  throw InputError("field '" + spec.name + "'",
                   "has one row per " + std::string(name_of(spec.kind)) +
                       ", but share: equal is only for rows, text and bytes",
                   "Set fields." + spec.name + ".share: none");
}

/// Throws InputError unless the field can hold routes, that is, expert numbers below `experts`: one row per
/// token, an integer type that can hold every number, and at most `experts` elements in the last dimension.
void require_route_field(const FieldSpec& spec, std::int64_t experts) {
  const std::string hint = "Set fields." + spec.name + ".spread_pads: 0";
  const auto reject = [&](const std::string& why) {
    throw InputError(
        "field '" + spec.name + "'",
        why + ", but spread_pads distributes its pad rows over " + std::to_string(experts) + " experts",
        hint);
  };
  if (!spec.rule().is_per_token()) reject("is of kind " + std::string(name_of(spec.kind)) + ", not token");
  if (!is_integer(spec.dtype))
    reject("has elements of " + std::string(name_of(spec.dtype)) + ", not integers");
  if (!range_of(spec.dtype).contains({0, experts - 1}))
    reject("has elements of " + std::string(name_of(spec.dtype)) +
           ", which cannot represent the number of every expert");
  if (!spec.trailing.empty() && spec.trailing.back() > experts)
    reject("has " + std::to_string(spec.trailing.back()) + " experts per row");
}

CarriedField& field_of_ranges(std::vector<CarriedField>& carried, const CarriedField& cut,
                              const std::string& name) {
  const std::string where = "field '" + cut.name() + "'";
  const std::string hint =
      "Provide '" + name +
      "' with the range of tokens of each row, as [first, after the last], or set fields." + cut.name() +
      ".cut_by: null";
  if (!cut.spec.rule().is_cut_by_ranges) {
    throw InputError(
        where, "is of kind " + std::string(name_of(cut.spec.kind)) + ", but cut_by is only for kind rows",
        "Set fields." + cut.name() + ".cut_by: null");
  }
  const auto found = std::ranges::find(carried, name, &CarriedField::name);
  if (found == carried.end()) {
    throw InputError(where, "is cut by '" + name + "', which was not provided with it", hint);
  }
  const std::string named = "is named by fields." + cut.name() + ".cut_by";
  if (!has_form_of_ranges(found->spec)) {
    throw InputError(
        "field '" + name + "'",
        named + ", but is " + description_of(found->spec) + "; it must be int64 rows of shape [2]",
        "Provide [first token, after the last] per row (in JSON Lines, also set fields." + name +
            ".read_as: rows), or set fields." + cut.name() + ".cut_by: null");
  }
  if (found->shares_equal) {
    throw InputError("field '" + name + "'", named + ", but has share: equal",
                     "Set fields." + name + ".share: none");
  }
  if (found->profiles != cut.profiles) {
    throw InputError(
        "field '" + name + "'", named + ", but the two fields have different profiles",
        "Set fields." + name + ".profiles and fields." + cut.name() + ".profiles to the same list");
  }
  return *found;
}

/// Sets `cut_by` of each cut field and of the field that cuts it. Throws InputError if a cutting field is
/// itself cut by another field.
void set_cut_by(std::vector<CarriedField>& carried, const NamedFields& settings) {
  for (CarriedField& field : carried) {
    const auto found = settings.find(field.name());
    if (found == settings.end() || found->second.cut_by.empty()) continue;
    const std::string& by = found->second.cut_by;
    CarriedField& ranges = field_of_ranges(carried, field, by);
    const auto of_ranges = settings.find(by);
    if (of_ranges != settings.end() && !of_ranges->second.cut_by.empty() && of_ranges->second.cut_by != by) {
      throw InputError("fields." + by + ".cut_by",
                       "is '" + of_ranges->second.cut_by + "', but fields." + field.name() + ".cut_by is '" +
                           by + "', and a field that others are cut by cannot be cut itself",
                       "Set fields." + by + ".cut_by: null");
    }
    field.cut_by = by;
    ranges.cut_by = by;
  }
}

/// Appends the field once per pipeline stage, each with that stage's layers.
void add_field_per_stage(CarriedField whole, const LayerMap& map, const FieldRouting& ways,
                         std::vector<CarriedField>& carried) {
  const std::string where = "field '" + whole.name() + "'";
  if (whole.spec.trailing.empty()) {
    throw InputError(where,
                     "has one element per row, but splitting by layers requires rows of shape [layers, ...]",
                     "Provide rows of that shape, or set fields." + whole.name() + ".layers: null");
  }
  const auto of_ranks = layers_of_ranks(map, whole.spec.trailing.front(), ways.pp, ways.vpp, where);
  for (int stage = 0; stage < ways.pp; ++stage) {
    CarriedField& part = carried.emplace_back(whole);
    part.stage = stage;
    part.layers = of_ranks[static_cast<std::size_t>(stage)];
    part.spec.trailing.front() = std::ssize(*part.layers);
  }
}

}  // namespace

void require_valid(const FieldSettings& field, const std::string& name, int pp, int vpp) {
  const std::string where = "fields." + name;
  if (!describes_samples_only(field, name) && std::ranges::find(own_fields, name) != own_fields.end()) {
    throw ConfigError(where, "is a built-in field, which is delivered unchanged",
                      "Leave out all settings except read_as: axes or runs, and at for labels and loss_mask");
  }
  Choices choices;
  choices.field = field;
  choices.field_name = name;
  require_compatible(choices);
  if (field.layers) require_valid(*field.layers, where + ".layers", pp, vpp);
}

std::vector<std::vector<std::int64_t>> layers_of_ranks(const LayerMap& map, std::int64_t layers, int pp,
                                                       int vpp, const std::string& where) {
  EVENKEEL_PRECONDITION(cheap, map.stages.empty() || std::ssize(map.stages) == std::int64_t{pp} * vpp,
                        map.stages.size(), pp, vpp);
  if (!map.stages.empty()) require_all_named(map, layers, where);
  const std::vector<std::vector<std::int64_t>> stages =
      map.stages.empty() ? split_layers_evenly(layers, pp, vpp, where) : map.stages;
  std::vector<std::vector<std::int64_t>> ranks(static_cast<std::size_t>(pp));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<std::int64_t>& of_rank = ranks[stage % ranks.size()];
    of_rank.insert(of_rank.end(), stages[stage].begin(), stages[stage].end());
  }
  return ranks;
}

bool is_sent_narrow(const FieldSettings& settings, bool sends_messages) noexcept {
  return settings.wire_dtype == FieldWidth::narrow &&
         (sends_messages || settings.dtype == FieldWidth::narrow);
}

std::vector<CarriedField> carried_fields(std::span<const FieldSpec> brought, const FieldRouting& ways) {
  std::vector<CarriedField> carried;
  for (std::size_t f = 0; f < brought.size(); ++f) {
    CarriedField field = unchanged_field(brought[f], f);
    const auto found = ways.settings.find(field.name());
    if (found == ways.settings.end()) {
      carried.push_back(std::move(field));
      continue;
    }
    const FieldSettings& settings = found->second;
    require_counted_unchanged(field.spec, settings);
    field.shares_equal = settings.share == FieldSharing::equal;
    if (field.shares_equal) require_counted(field.spec);
    if (settings.stage == FieldStages::first) field.stage = 0;
    field.to_all_stages = settings.stage == FieldStages::all;
    field.profiles = settings.profiles;
    field.spread_pads = settings.spread_pads;
    if (field.spread_pads > 0) require_route_field(brought[f], field.spread_pads);
    field.spec.dtype = transfer_type_of(brought[f], settings, ways);
    if (settings.dtype == FieldWidth::narrow) field.delivered_dtype = field.spec.dtype;
    if (settings.layers) {
      add_field_per_stage(std::move(field), *settings.layers, ways, carried);
    } else {
      carried.push_back(std::move(field));
    }
  }
  set_cut_by(carried, ways.settings);
  return carried;
}

std::vector<CarriedField> fields_for_profile(std::string_view profile, std::span<const CarriedField> fields) {
  std::vector<CarriedField> sent;
  std::ranges::copy_if(fields, std::back_inserter(sent), [&](const CarriedField& field) {
    return field.profiles.empty() || std::ranges::find(field.profiles, profile) != field.profiles.end();
  });
  return sent;
}

std::vector<FieldSpec> delivered_fields(std::span<const CarriedField> carried) {
  std::vector<FieldSpec> fields;
  for (const CarriedField& field : carried) fields.emplace_back(field.spec).dtype = field.delivered_dtype;
  return fields;
}

bool is_field_changed(const CarriedField& field) noexcept {
  return field.layers.has_value() || field.spec.dtype != field.supplied_dtype || !field.cut_by.empty();
}

}  // namespace evenkeel
