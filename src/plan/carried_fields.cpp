#include "plan/carried_fields.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/layer_columns.hpp"
#include "plan/layer_split.hpp"

namespace evenkeel {
namespace {

CarriedField as_it_is(const FieldSpec& spec, std::size_t source) {
  return {spec, spec.name, spec.dtype, spec.dtype, source, {}, false, {}};
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
        "has elements of " + std::string(name_of(spec.dtype)) + ", and only integers are narrowed",
        "Set fields." + spec.name + ".wire: as-brought");
  }
  const auto range = ways.ranges.find(spec.name);
  EVENKEEL_PRECONDITION(cheap, range != ways.ranges.end(), spec.name);
  return narrowest(spec.dtype, range->second);
}

/// Rows that samples count travel as they are brought.
void require_uncounted(const FieldSpec& spec, const FieldSettings& settings) {
  if (!is_counted(spec.kind) || (!settings.layers && settings.wire == FieldWidth::as_brought)) return;
  const std::string key = "fields." + spec.name + (settings.layers ? ".layers: null" : ".wire: as-brought");
  throw InputError("field '" + spec.name + "'",
                   "is of " + std::string(name_of(spec.kind)) +
                       ", which samples count: such rows are neither split by layers nor narrowed",
                   "Set " + key);
}

/// The field once for each pipeline stage.
void add_layered(CarriedField whole, const LayerMap& map, const FieldWays& ways,
                 std::vector<CarriedField>& carried) {
  const std::string where = "field '" + whole.name + "'";
  if (whole.spec.trailing.empty()) {
    throw InputError(where, "has one element a row, and its rows are to be [layers, ...]",
                     "Bring rows of that shape, or set fields." + whole.name + ".layers: null");
  }
  const auto of_ranks = layers_of_ranks(map, whole.spec.trailing.front(), ways.pp, ways.vpp, where);
  for (int stage = 0; stage < ways.pp; ++stage) {
    CarriedField& part = carried.emplace_back(whole);
    part.stage = stage;
    part.layers = of_ranks[static_cast<std::size_t>(stage)];
    part.spec.trailing.front() = std::ssize(*part.layers);
    part.spec.name += " (stage " + std::to_string(stage) + ")";
  }
}

/// The columns that travel in place of one that is brought.
std::vector<Column> columns_for(const Column& source, std::span<const CarriedField* const> parts) {
  std::vector<Column> columns;
  columns.reserve(parts.size());
  std::vector<LayerPart> targets;
  for (const CarriedField* const part : parts) {
    columns.push_back(Column::unwritten(part->spec, source.rows()));
    targets.push_back({part->layers, &columns.back()});
  }
  copy_layers(source, targets);
  return columns;
}

}  // namespace

std::vector<CarriedField> carried_fields(std::span<const FieldSpec> brought, const FieldWays& ways) {
  std::vector<CarriedField> carried;
  for (std::size_t f = 0; f < brought.size(); ++f) {
    CarriedField field = as_it_is(brought[f], f);
    const auto found = ways.settings.find(field.name);
    if (found == ways.settings.end()) {
      carried.push_back(std::move(field));
      continue;
    }
    const FieldSettings& settings = found->second;
    require_uncounted(field.spec, settings);
    if (settings.stage == FieldStages::first) field.stage = 0;
    field.to_all_stages = settings.stage == FieldStages::all;
    field.spec.dtype = wire_of(brought[f], settings, ways);
    if (settings.hand_out == FieldWidth::narrow) field.handed_out = field.spec.dtype;
    if (settings.layers) {
      add_layered(std::move(field), *settings.layers, ways, carried);
    } else {
      carried.push_back(std::move(field));
    }
  }
  return carried;
}

RaggedBatch carry(RaggedBatch samples, std::span<const CarriedField> carried) {
  if (!changes_fields(carried)) return samples;
  RaggedBatch result({samples.samples().begin(), samples.samples().end()});
  for (Column& column : samples.fields()) {
    std::vector<const CarriedField*> parts;
    for (const CarriedField& field : carried) {
      if (field.name == column.spec().name) parts.push_back(&field);
    }
    if (parts.size() == 1 && !changes_field(*parts.front())) {
      result.add_field(std::move(column));
      continue;
    }
    for (Column& part : columns_for(column, parts)) result.add_field(std::move(part));
    column = Column();
  }
  return result;
}

std::vector<FieldSpec> handed_out_fields(std::span<const CarriedField> carried) {
  std::vector<FieldSpec> fields;
  for (const CarriedField& field : carried)
    fields.push_back({field.name, field.handed_out, field.spec.kind, field.spec.trailing});
  return fields;
}

bool changes_field(const CarriedField& field) noexcept {
  return field.layers.has_value() || field.spec.dtype != field.brought;
}

bool changes_fields(std::span<const CarriedField> carried) noexcept {
  return std::ranges::any_of(carried, changes_field);
}

}  // namespace evenkeel
