#include "config/key_sections.hpp"

namespace evenkeel::config_detail {
namespace {

constexpr std::string_view no_layers = "null";
constexpr std::string_view even_layers = "stage";
/// Layers are counted within a row.
constexpr Int64 most_layers = Int64{1} << 20;

}  // namespace

std::string LayersFormat::values() const {
  return std::string(no_layers) + ", " + std::string(even_layers) + ", or [[0, 1], [2, 3], ...]";
}

std::optional<LayerMap> LayersFormat::read(const ConfigValue& value) const {
  if (value.node.IsNull() || plain_text(value.node) == no_layers) return std::nullopt;
  if (is_word(value.node, even_layers)) return LayerMap{};
  const std::string expected = "null, stage or a list of layers for each stage";
  if (!value.node.IsSequence() || value.node.size() == 0) throw_wrong_type(value, expected);
  const Integer<Int64> layer{0, most_layers};
  LayerMap map;
  for (const YAML::Node& stage : value.node) {
    if (!stage.IsSequence()) throw_wrong_type({stage, value.where}, expected);
    std::vector<Int64>& layers = map.stages.emplace_back();
    for (const YAML::Node& entry : stage) layers.push_back(layer.read({entry, value.where}));
  }
  return map;
}

std::string LayersFormat::write(const std::optional<LayerMap>& layers) const {
  if (!layers) return std::string(no_layers);
  if (layers->stages.empty()) return std::string(even_layers);
  std::string text;
  for (const std::vector<Int64>& stage : layers->stages) {
    std::vector<std::string> numbers;
    for (const Int64 layer : stage) numbers.push_back(std::to_string(layer));
    text += (text.empty() ? "[[" : ", [") + join(numbers) + "]";
  }
  return text + "]";
}

Keys field_keys() {
  const auto f = &Config::field;
  const Choice<FieldWidth> widths({{"as-brought", FieldWidth::as_brought}, {"narrow", FieldWidth::narrow}});
  return {
      key("field.layers", f, &FieldSettings::layers, LayersFormat{},
          "null: rows are whole. Else the first dimension of a row counts layers of the model, and each "
          "pipeline stage is handed those that it has: stage gives every virtual stage as many, in order; "
          "a list for each virtual stage names them, part v of pipeline rank s being list v * pp + s."),
      key("field.stage", f, &FieldSettings::stage,
          Choice<FieldStages>(
              {{"last", FieldStages::last}, {"first", FieldStages::first}, {"all", FieldStages::all}}),
          "The pipeline stages that are sent the field, where it is not split by layers."),
      key("field.read_as", f, &FieldSettings::read_as,
          OptionalChoice<LineFormat>{Choice<LineFormat>({{"rows", LineFormat::rows},
                                                         {"text", LineFormat::text},
                                                         {"bytes", LineFormat::bytes},
                                                         {"axes", LineFormat::axes},
                                                         {"runs", LineFormat::runs}})},
          "What JSON lines have under this name: a list of any number of rows, a text, bytes in base64, a "
          "list for each axis with a number a token, or runs of tokens as [value, count]. null: numbers, as "
          "their lists tell; text is left out."),
      key("field.wire", f, &FieldSettings::wire, widths,
          "The type in which integers travel: what samples bring, or the smallest that holds every element "
          "of the step over all ranks, from uint8 and int8 up."),
      key("field.hand_out", f, &FieldSettings::hand_out, widths,
          "The type in which micro-batches have them: what samples bring, or that of the wire, which may be "
          "another one each step."),
      key("field.share", f, &FieldSettings::share,
          Choice<FieldSharing>({{"none", FieldSharing::none}, {"equal", FieldSharing::equal}}),
          "Of rows, text and bytes, none: each sample has its own. equal: values of equal bytes, of samples "
          "that one rank brings, travel to a node once and lie there once, for all its ranks to read."),
      key("field.cut_by", f, &FieldSettings::cut_by, OptionalFieldName{},
          "Of rows, null: each context-parallel rank of a sample has all of them. Else another field of "
          "rows, [rows, 2] of int64, tells each row's tokens, [first, after the last], and a rank is handed "
          "those rows alone that have a token of its chunks, as are pieces of samples that batch.too_long "
          "cuts; "
          "that field is cut so, too."),
      key("field.profiles", f, &FieldSettings::profiles, ProfileNames{},
          "The profiles under which passes are sent the field, such as pixels for a pass of an encoder "
          "alone. "
          "all: every pass. A pass without a profile is sent those fields alone that go to all."),
  };
}

// Read and written by the loader: an entry's value is a map of the keys of field.
Keys named_field_keys() {
  return {{{"fields", "map", "{}", "names, each with any keys of field",
            "Fields that samples bring and that are not sent or handed out as they are brought, such as "
            "fields: {routed_experts: {layers: stage, wire: narrow}}."},
           {},
           {}}};
}

}  // namespace evenkeel::config_detail
