#include "config/key_sections.hpp"

namespace evenkeel::config_detail {
namespace {

constexpr std::string_view no_layers = "null";
constexpr std::string_view even_layers = "stage";
/// Layers are counted within a row.
constexpr Int64 most_layers = Int64{1} << 20;
constexpr Int64 most_experts = Int64{1} << 20;

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
          "null: rows are whole. Otherwise the first dimension of a row is layers of the model, and each "
          "pipeline stage gets its own: stage splits them evenly over the virtual stages, in order; or a "
          "list for each virtual stage, with list v * pp + s for part v of pipeline rank s."),
      key("field.stage", f, &FieldSettings::stage,
          Choice<FieldStages>(
              {{"last", FieldStages::last}, {"first", FieldStages::first}, {"all", FieldStages::all}}),
          "The pipeline stages that get the field, if it is not split by layers."),
      key("field.read_as", f, &FieldSettings::read_as,
          OptionalChoice<LineFormat>{Choice<LineFormat>({{"rows", LineFormat::rows},
                                                         {"text", LineFormat::text},
                                                         {"bytes", LineFormat::bytes},
                                                         {"axes", LineFormat::axes},
                                                         {"runs", LineFormat::runs}})},
          "How JSON Lines write the field: a list of any number of rows, a text, bytes in base64, a "
          "list for each axis with a number a token, or runs of tokens as [value, count]. null: numbers, as "
          "their lists show; text is left out."),
      key("field.at", f, &FieldSettings::at,
          OptionalChoice<RowConvention>{Choice<RowConvention>({{"token", RowConvention::token},
                                                               {"next", RowConvention::next},
                                                               {"response", RowConvention::response}})},
          "Where samples have the value of a token, which steps have at the row that predicts it. token: at "
          "the token. next: at the row that predicts it. response: at its place in the response. null: rows "
          "are delivered where they are; labels and loss_mask with one value per token are then refused."),
      key("field.wire", f, &FieldSettings::wire, widths,
          "The type in which integers travel: as samples bring them, or the smallest type that holds every "
          "element of the step over all ranks, from uint8 and int8 up."),
      key("field.hand_out", f, &FieldSettings::hand_out, widths,
          "The type in micro-batches: as samples bring them, or that of wire, which may change from step to "
          "step."),
      key("field.share", f, &FieldSettings::share,
          Choice<FieldSharing>({{"none", FieldSharing::none}, {"equal", FieldSharing::equal}}),
          "For rows, text and bytes. none: each sample has its own. equal: values with equal bytes, of "
          "samples that one rank brings, are sent to a node once and stored there once, for all its ranks."),
      key("field.cut_by", f, &FieldSettings::cut_by, OptionalFieldName{},
          "For rows. null: each context-parallel rank of a sample has all of them. Otherwise another field "
          "of rows, [rows, 2] of int64, has each row's tokens, [first, after the last], and a rank gets only "
          "the rows with a token in its chunks, as do pieces of samples that batch.too_long cuts; that field "
          "is cut in the same way."),
      key("field.spread_pads", f, &FieldSettings::spread_pads, Integer<Int64>{0, most_experts},
          "For routes, whose elements are numbers of experts: pad rows are routed to this many experts in "
          "turn, so that none gets all of them; each context-parallel rank starts at a different expert. 0: "
          "they are zeros."),
      key("field.profiles", f, &FieldSettings::profiles, ProfileNames{},
          "The profiles whose passes get the field, such as pixels for an encoder's pass. "
          "all: every pass. A pass without a profile gets only fields that go to all."),
  };
}

// Read and written by the loader: an entry's value is a map of the keys of field.
Keys named_field_keys() {
  return {{{"fields", "map", "{}", "names, each with any keys of field",
            "Fields that samples bring and that are not delivered unchanged, such as fields: "
            "{routed_experts: {layers: stage, wire: narrow}}."},
           {},
           {}}};
}

}  // namespace evenkeel::config_detail
