#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/value.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::config_detail {
namespace {

// The following helpers read keys whose values are maps with their own fields.

template <class Settings>
struct Field {
  std::string name;
  std::function<void(Settings&, const ConfigValue&)> read;
};

template <class Settings>
Field<Settings> number_field(std::string name, std::int64_t Settings::*member, std::int64_t min,
                             std::int64_t max, IntegerUnit of = IntegerUnit::things) {
  const Integer<std::int64_t> format{min, max, of};
  return {std::move(name),
          [=](Settings& settings, const ConfigValue& value) { settings.*member = format.read(value); }};
}

template <class Settings>
std::vector<std::string> names_of(const std::vector<Field<Settings>>& fields) {
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.name);
  return names;
}

template <class Settings>
Settings read_fields(const ConfigValue& value, const std::vector<Field<Settings>>& fields, Settings settings,
                     const std::vector<std::string_view>& alternatives = {}) {
  if (!value.node.IsMap()) throw_wrong_type(value, "a map");
  const auto where_of = [&](const std::string& name, const YAML::Mark& /*mark*/) {
    return value.where + ": " + name;
  };
  for (const auto& [name, field_value] : entries_of_map(value.node, where_of)) {
    const auto field = std::ranges::find(fields, name, &Field<Settings>::name);
    if (field == fields.end()) {
      std::vector<std::string> valid = names_of(fields);
      valid.insert(valid.end(), alternatives.begin(), alternatives.end());
      throw ConfigError(field_value.where, "unknown key", "Valid keys: " + join(valid));
    }
    field->read(settings, field_value);
  }
  return settings;
}

constexpr std::int64_t largest_size = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t largest_coefficient = (std::int64_t{1} << 62) - 1;

template <class Settings>
Field<Settings> flag_field(std::string name, bool Settings::*member) {
  return {std::move(name),
          [=](Settings& settings, const ConfigValue& value) { settings.*member = Boolean{}.read(value); }};
}

const std::vector<Field<ModelDescription>>& model_fields() {
  using Model = ModelDescription;
  static const std::vector<Field<Model>> fields{
      number_field("hidden_size", &Model::hidden_size, 1, largest_size),
      number_field("layers", &Model::layers, 1, largest_size),
      number_field("heads", &Model::heads, 1, largest_size),
      number_field("kv_heads", &Model::kv_heads, 0, largest_size),
      number_field("head_dim", &Model::head_dim, 0, largest_size),
      number_field("ffn_size", &Model::ffn_size, 0, largest_size),
      number_field("vocab_size", &Model::vocab_size, 0, largest_size),
      number_field("active_experts", &Model::active_experts, 1, largest_size),
      number_field("shared_experts", &Model::shared_experts, 0, largest_size),
      number_field("shared_ffn_size", &Model::shared_ffn_size, 0, largest_size),
      number_field("sliding_window", &Model::sliding_window, 0, largest_size, IntegerUnit::tokens),
      flag_field("backward", &Model::backward)};
  return fields;
}

const std::vector<Field<CostModel>>& coefficient_fields() {
  static const std::vector<Field<CostModel>> fields{
      number_field("linear", &CostModel::linear, 0, largest_coefficient),
      number_field("quadratic", &CostModel::quadratic, 0, largest_coefficient),
      number_field("window", &CostModel::window, 0, largest_size, IntegerUnit::tokens)};
  return fields;
}

CostModel read_model_cost(const ConfigValue& value) {
  const ModelDescription model = read_fields(value, model_fields(), ModelDescription{});
  try {
    return CostModel::from_model(model);
  } catch (const Error& error) {
    // The error's place is "model" or, for a wrong value, "model.KEY". Report the key of the configuration
    // instead.
    const std::string& where = error.report().where;
    const std::size_t dot = where.find('.');
    throw ConfigError(dot == std::string::npos ? value.where : value.where + ": " + where.substr(dot + 1),
                      error.report().message, error.report().hint);
  }
}

CostModel read_coefficient_cost(const ConfigValue& value, const std::vector<std::string_view>& alternatives) {
  const CostModel cost = read_fields(value, coefficient_fields(), CostModel{0, 0, 0}, alternatives);
  if (cost.linear == 0 && cost.quadratic == 0)
    throw ConfigError(value.where, "linear and quadratic are both 0", "Set at least one of them above 0");
  return cost;
}

Choice<CostModel> cost_choices(std::vector<std::pair<std::string, CostModel>> more = {}) {
  more.insert(more.begin(), {{"tokens", CostModel::tokens()}, {"flops-7b", CostModel::flops_7b()}});
  return Choice<CostModel>(std::move(more));
}

constexpr std::string_view measured_word = "measured";

constexpr std::string_view model_key = "model";
constexpr std::string_view encoder_key = "encoder";
constexpr std::string_view field_key = "field";

bool has_key(const ConfigValue& value, std::string_view key) {
  return value.node.IsMap() && value.node[std::string(key)].IsDefined();
}

/// Returns the value at a key of a map. Precondition: has_key(value, key).
ConfigValue value_at(const ConfigValue& value, std::string_view key) {
  return {value.node[std::string(key)], value.where + ": " + std::string(key)};
}

/// Reads a cost that is not measured. `alternatives` are the valid keys in place of coefficients.
CostModel read_fixed_cost(const ConfigValue& value,
                          const std::vector<std::string_view>& alternatives = {model_key}) {
  if (value.node.IsScalar()) return cost_choices().read(value);
  if (!value.node.IsMap()) throw_wrong_type(value, "tokens, flops-7b or a map");
  if (!has_key(value, model_key)) return read_coefficient_cost(value, alternatives);
  if (value.node.size() > 1)
    throw ConfigError(value.where, "has model together with other keys", "Leave out the other keys");
  return read_model_cost(value_at(value, model_key));
}

const std::vector<Field<EncoderCost>>& encoder_fields() {
  const auto coefficient = [](std::string name, std::int64_t CostModel::*member) {
    const Integer<std::int64_t> format{0, largest_coefficient};
    return Field<EncoderCost>{std::move(name), [=](EncoderCost& encoder, const ConfigValue& value) {
                                encoder.cost.*member = format.read(value);
                              }};
  };
  static const std::vector<Field<EncoderCost>> fields{
      {"field",
       [](EncoderCost& encoder, const ConfigValue& value) { encoder.field = FieldName{}.read(value); }},
      coefficient("linear", &CostModel::linear),
      coefficient("quadratic", &CostModel::quadratic)};
  return fields;
}

EncoderCost read_encoder(const ConfigValue& value) {
  EncoderCost encoder = read_fields(value, encoder_fields(), EncoderCost{});
  if (encoder.field.empty()) {
    throw ConfigError(value.where, "does not say which field is encoded",
                      "Set field to the name of a field of kind rows");
  }
  if (encoder.cost.linear == 0 && encoder.cost.quadratic == 0)
    throw ConfigError(value.where, "linear and quadratic are both 0", "Set at least one of them above 0");
  return encoder;
}

/// Reads the model's cost for a configuration that also has an encoder's cost: any cost that is not measured,
/// or a description of the model.
CostModel read_model_beside_encoder(const ConfigValue& value) {
  const bool is_description = value.node.IsMap() && !has_key(value, "linear") && !has_key(value, "quadratic");
  return is_description ? read_model_cost(value) : read_fixed_cost(value);
}

/// Reads a cost that is given by a field of the samples.
ConfiguredCost read_cost_of_field(const ConfigValue& value) {
  if (value.node.size() > 1)
    throw ConfigError(value.where, "field cannot be combined with other keys", "Leave out the other keys");
  return {CostModel::tokens(), std::nullopt, std::nullopt, FieldName{}.read(value_at(value, field_key))};
}

ConfiguredCost read_cost_with_encoder(const ConfigValue& value) {
  if (value.node.size() != 2 || !has_key(value, model_key)) {
    throw ConfigError(value.where, "a cost with an encoder must have exactly the keys model and encoder",
                      "Write {model: ..., encoder: {field: NAME, linear: ...}}");
  }
  const ConfigValue model = value_at(value, model_key);
  ConfiguredCost cost = has_key(model, field_key)
                            ? read_cost_of_field(model)
                            : ConfiguredCost{read_model_beside_encoder(model), std::nullopt, std::nullopt};
  cost.encoder = read_encoder(value_at(value, encoder_key));
  return cost;
}

const std::vector<Field<ConfiguredCost>>& measured_fields() {
  const auto of_measured = [](std::string name, std::int64_t MeasuredCost::*member,
                              Integer<std::int64_t> format) {
    return Field<ConfiguredCost>{std::move(name), [=](ConfiguredCost& cost, const ConfigValue& value) {
                                   (*cost.measured).*member = format.read(value);
                                 }};
  };
  constexpr std::int64_t max_steps = 1 << 20;
  constexpr std::int64_t fewest_times = 16;  // minimum number of measured times for a fit
  constexpr std::int64_t max_times = 1 << 20;
  static const std::vector<Field<ConfiguredCost>> fields{
      {"initial",
       [](ConfiguredCost& cost, const ConfigValue& value) { cost.model = read_fixed_cost(value); }},
      of_measured("every", &MeasuredCost::every, {1, max_steps}),
      of_measured("window", &MeasuredCost::window, {fewest_times, max_times})};
  return fields;
}

std::string write_fixed_cost(const CostModel& cost) {
  if (cost == CostModel::tokens() || cost == CostModel::flops_7b()) return cost_choices().write(cost);
  const std::string window = cost.window == 0 ? "" : ", window: " + std::to_string(cost.window);
  return "{linear: " + std::to_string(cost.linear) + ", quadratic: " + std::to_string(cost.quadratic) +
         window + "}";
}

constexpr std::int64_t largest_cost = (std::int64_t{1} << 40) - 1;
constexpr std::int64_t max_ranks = 1 << 20;

/// Returns the format of CommunicationSettings::overlap, which is in thousandths.
Decimal overlap_format() {
  constexpr std::int64_t parts = 1000;
  return {parts, 0, parts};
}

Field<CommunicationSettings> optional_number_field(std::string name,
                                                   std::optional<std::int64_t> CommunicationSettings::*member,
                                                   Integer<std::int64_t> format) {
  return {std::move(name), [=](CommunicationSettings& settings, const ConfigValue& value) {
            settings.*member = OptionalInteger<std::int64_t>{"auto", format}.read(value);
          }};
}

const std::vector<Field<CommunicationSettings>>& communication_fields() {
  using Settings = CommunicationSettings;
  static const std::vector<Field<Settings>> fields{
      optional_number_field("inside_node", &Settings::inside_node, {0, largest_cost}),
      optional_number_field("between_nodes", &Settings::between_nodes, {0, largest_cost}),
      optional_number_field("ranks_per_node", &Settings::ranks_per_node, {1, max_ranks}),
      {"overlap", [](Settings& settings, const ConfigValue& value) {
         settings.overlap = overlap_format().read(value);
       }}};
  return fields;
}

constexpr std::string_view default_word = "auto";

}  // namespace

std::string CostFormat::values() const {
  return cost_choices().values() + ", {model: {" + join(names_of(model_fields())) + "}}, {" +
         join(names_of(coefficient_fields())) + "}, {model: ..., encoder: {" +
         join(names_of(encoder_fields())) + "}}, {field: NAME}, measured, or {measured: {" +
         join(names_of(measured_fields())) + "}}";
}

ConfiguredCost CostFormat::read(const ConfigValue& value) const {
  if (is_word(value.node, measured_word)) return {CostModel::tokens(), MeasuredCost{}, std::nullopt};
  if (value.node.IsScalar())
    return {cost_choices({{std::string(measured_word), {}}}).read(value), std::nullopt, std::nullopt};
  if (!value.node.IsMap()) throw_wrong_type(value, "tokens, flops-7b, measured or a map");
  if (has_key(value, encoder_key)) return read_cost_with_encoder(value);
  if (has_key(value, field_key)) return read_cost_of_field(value);
  if (!has_key(value, measured_word)) {
    return {read_fixed_cost(value, {model_key, encoder_key, field_key, measured_word}), std::nullopt,
            std::nullopt};
  }
  if (value.node.size() > 1)
    throw ConfigError(value.where, "measured cannot be combined with other keys", "Leave out the other keys");
  return read_fields(value_at(value, measured_word), measured_fields(),
                     ConfiguredCost{CostModel::tokens(), MeasuredCost{}, std::nullopt});
}

std::string CostFormat::write(const ConfiguredCost& cost) const {
  const std::string model =
      cost.field ? "{field: " + FieldName{}.write(*cost.field) + "}" : write_fixed_cost(cost.model);
  if (cost.encoder) {
    return "{model: " + model + ", encoder: {field: " + FieldName{}.write(cost.encoder->field) +
           ", linear: " + std::to_string(cost.encoder->cost.linear) +
           ", quadratic: " + std::to_string(cost.encoder->cost.quadratic) + "}}";
  }
  if (!cost.measured) return model;
  return "{measured: {initial: " + write_fixed_cost(cost.model) +
         ", every: " + std::to_string(cost.measured->every) +
         ", window: " + std::to_string(cost.measured->window) + "}}";
}

RowCapsFormat::value_type RowCapsFormat::read(const ConfigValue& value) const {
  if (value.node.IsNull() || plain_text(value.node) == "null") return {};
  if (!value.node.IsMap() || value.node.size() == 0)
    throw_wrong_type(value, "a map such as {patches: 16384}, or null");
  const Integer<std::int64_t> rows{1, largest_size};
  value_type caps;
  const auto where_of = [&](const std::string& name, const YAML::Mark& /*mark*/) {
    return value.where + ": " + name;
  };
  for (const auto& [name, entry] : entries_of_map(value.node, where_of))
    caps[FieldName{}.read({YAML::Node(name), value.where})] = rows.read(entry);
  return caps;
}

std::string RowCapsFormat::write(const value_type& caps) const {
  if (caps.empty()) return "null";
  std::vector<std::string> parts;
  for (const auto& [field, rows] : caps)
    parts.push_back(FieldName{}.write(field) + ": " + std::to_string(rows));
  return "{" + join(parts) + "}";
}

std::string CommunicationFormat::values() const {
  return std::string(default_word) + ", or {" + join(names_of(communication_fields())) + "}";
}

CommunicationSettings CommunicationFormat::read(const ConfigValue& value) const {
  if (is_word(value.node, default_word)) return {};
  if (!value.node.IsMap()) throw_wrong_type(value, "auto or a map");
  return read_fields(value, communication_fields(), CommunicationSettings{});
}

std::string CommunicationFormat::write(const CommunicationSettings& settings) const {
  if (settings == CommunicationSettings{}) return std::string(default_word);
  std::vector<std::string> parts;
  const auto add = [&](const std::string& name, const std::optional<std::int64_t>& number) {
    if (number) parts.push_back(name + ": " + std::to_string(*number));
  };
  add("inside_node", settings.inside_node);
  add("between_nodes", settings.between_nodes);
  add("ranks_per_node", settings.ranks_per_node);
  parts.push_back("overlap: " + overlap_format().write(settings.overlap));
  return "{" + join(parts) + "}";
}

}  // namespace evenkeel::config_detail
