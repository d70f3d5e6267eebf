#include "plan/transfer/carried_fields.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/transfer/layer_split.hpp"
#include "plan/transfer/row_cuts.hpp"

namespace evenkeel {
namespace {

CarriedField as_it_is(const FieldSpec& spec, std::size_t source) {
  return {spec, spec.dtype, spec.dtype, source, {}, false, {}, false, {}, {}};
}

/// The smallest type that holds the range, if it is smaller than what is brought.
DType narrowest(DType brought, const IntegerRange& range) {
  for (const DType dtype :
       {DType::uint8, DType::int8, DType::uint16, DType::int16, DType::uint32, DType::int32}) {
    if (size_of(dtype) < size_of(brought) && range_of(dtype).contains(range)) return dtype;
  }
  return brought;
}

DType wire_of(const FieldSpec& spec, const FieldSettings& settings, const FieldWays& ways) {
  if (settings.wire == FieldWidth::as_brought) return spec.dtype;
  if (!is_integer(spec.dtype)) {
    throw InputError(
        "field '" + spec.name + "'",
        "has elements of " + std::string(name_of(spec.dtype)) + ", and only integers can be narrowed",
        "Set fields." + spec.name + ".wire: as-brought");
  }
  if (!travels_narrow(settings, ways.sends_messages)) return spec.dtype;
  const auto range = ways.ranges.find(spec.name);
  EVENKEEL_PRECONDITION(cheap, range != ways.ranges.end(), spec.name);
  return narrowest(spec.dtype, range->second);
}

/// Rows that samples count travel as they are brought.
void require_uncounted(const FieldSpec& spec, const FieldSettings& settings) {
  if (!is_counted(spec.kind) || (!settings.layers && settings.wire == FieldWidth::as_brought)) return;
  const std::string key = "fields." + spec.name + (settings.layers ? ".layers: null" : ".wire: as-brought");
  throw InputError(
      "field '" + spec.name + "'",
      "is of " + std::string(name_of(spec.kind)) +
          ", of which each sample has its own number of rows: these are neither split by layers nor narrowed",
      "Set " + key);
}

/// Only such values are compared.
void require_counted(const FieldSpec& spec) {
  if (is_counted(spec.kind)) return;
  throw InputError(
      "field '" + spec.name + "'",
      "has one row a " + std::string(name_of(spec.kind)) + ", and share: equal is for rows, text and bytes",
      "Set fields." + spec.name + ".share: none");
}

/// Only routes are numbers of experts, as many as a row may choose from.
void require_routes(const FieldSpec& spec, std::int64_t experts) {
  const std::string hint = "Set fields." + spec.name + ".spread_pads: 0";
  const auto refuse = [&](const std::string& why) {
    throw InputError("field '" + spec.name + "'",
                     why + ", and its pads are to be spread over " + std::to_string(experts) + " experts",
                     hint);
  };
  if (!spec.rule().is_per_token()) refuse("has one row a " + std::string(name_of(spec.kind)));
  if (!is_integer(spec.dtype)) refuse("has elements of " + std::string(name_of(spec.dtype)));
  if (!range_of(spec.dtype).contains({0, experts - 1}))
    refuse("has elements of " + std::string(name_of(spec.dtype)) + ", which cannot number them");
  if (!spec.trailing.empty() && spec.trailing.back() > experts)
    refuse("has " + std::to_string(spec.trailing.back()) + " different experts a row");
}

CarriedField& field_of_ranges(std::vector<CarriedField>& carried, const CarriedField& cut,
                              const std::string& name) {
  const std::string where = "field '" + cut.name() + "'";
  const std::string hint =
      "Bring [first token, after the last] of each row as a field with that name, or set fields." +
      cut.name() + ".cut_by: null";
  if (!cut.spec.rule().is_cut_by_ranges) {
    throw InputError(where,
                     "has one value a " + std::string(name_of(cut.spec.kind)) + ", and cut_by is for rows",
                     "Set fields." + cut.name() + ".cut_by: null");
  }
  const auto found = std::ranges::find(carried, name, &CarriedField::name);
  if (found == carried.end()) {
    throw InputError(where, "is cut by '" + name + "', which samples do not bring", hint);
  }
  if (!has_form_of_ranges(found->spec)) {
    throw InputError("field '" + name + "'", "cuts '" + cut.name() + "', which is not rows [2] of int64",
                     hint);
  }
  if (found->shares_equal) {
    throw InputError("field '" + name + "'", "cuts '" + cut.name() + "', and has share: equal",
                     "Set fields." + name + ".share: none");
  }
  if (found->profiles != cut.profiles) {
    throw InputError("field '" + name + "'",
                     "cuts '" + cut.name() + "', and has other profiles than that field",
                     "Set fields." + name + ".profiles and fields." + cut.name() + ".profiles alike");
  }
  return *found;
}

/// What cuts a field is cut by itself, and by nothing else.
void cut_with_tokens(std::vector<CarriedField>& carried, const NamedFields& settings) {
  for (CarriedField& field : carried) {
    const auto found = settings.find(field.name());
    if (found == settings.end() || found->second.cut_by.empty()) continue;
    const std::string& by = found->second.cut_by;
    CarriedField& ranges = field_of_ranges(carried, field, by);
    const auto of_ranges = settings.find(by);
    if (of_ranges != settings.end() && !of_ranges->second.cut_by.empty() && of_ranges->second.cut_by != by) {
      throw InputError("field '" + by + "'",
                       "cuts '" + field.name() + "', and has cut_by: '" + of_ranges->second.cut_by + "'",
                       "Set fields." + by + ".cut_by: null");
    }
    field.cut_by = by;
    ranges.cut_by = by;
  }
}

/// The field once for each pipeline stage.
void add_layered(CarriedField whole, const LayerMap& map, const FieldWays& ways,
                 std::vector<CarriedField>& carried) {
  const std::string where = "field '" + whole.name() + "'";
  if (whole.spec.trailing.empty()) {
    throw InputError(where, "has one element a row, and layers need rows of [layers, ...]",
                     "Bring rows of that shape, or set fields." + whole.name() + ".layers: null");
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

bool travels_narrow(const FieldSettings& settings, bool sends_messages) noexcept {
  return settings.wire == FieldWidth::narrow && (sends_messages || settings.hand_out == FieldWidth::narrow);
}

std::vector<CarriedField> carried_fields(std::span<const FieldSpec> brought, const FieldWays& ways) {
  std::vector<CarriedField> carried;
  for (std::size_t f = 0; f < brought.size(); ++f) {
    CarriedField field = as_it_is(brought[f], f);
    const auto found = ways.settings.find(field.name());
    if (found == ways.settings.end()) {
      carried.push_back(std::move(field));
      continue;
    }
    const FieldSettings& settings = found->second;
    require_uncounted(field.spec, settings);
    field.shares_equal = settings.share == FieldSharing::equal;
    if (field.shares_equal) require_counted(field.spec);
    if (settings.stage == FieldStages::first) field.stage = 0;
    field.to_all_stages = settings.stage == FieldStages::all;
    field.profiles = settings.profiles;
    field.spread_pads = settings.spread_pads;
    if (field.spread_pads > 0) require_routes(brought[f], field.spread_pads);
    field.spec.dtype = wire_of(brought[f], settings, ways);
    if (settings.hand_out == FieldWidth::narrow) field.handed_out = field.spec.dtype;
    if (settings.layers) {
      add_layered(std::move(field), *settings.layers, ways, carried);
    } else {
      carried.push_back(std::move(field));
    }
  }
  cut_with_tokens(carried, ways.settings);
  return carried;
}

std::vector<CarriedField> fields_under(std::string_view profile, std::span<const CarriedField> fields) {
  std::vector<CarriedField> sent;
  std::ranges::copy_if(fields, std::back_inserter(sent), [&](const CarriedField& field) {
    return field.profiles.empty() || std::ranges::find(field.profiles, profile) != field.profiles.end();
  });
  return sent;
}

std::vector<FieldSpec> handed_out_fields(std::span<const CarriedField> carried) {
  std::vector<FieldSpec> fields;
  for (const CarriedField& field : carried) fields.emplace_back(field.spec).dtype = field.handed_out;
  return fields;
}

bool changes_field(const CarriedField& field) noexcept {
  return field.layers.has_value() || field.spec.dtype != field.brought || !field.cut_by.empty();
}

}  // namespace evenkeel
