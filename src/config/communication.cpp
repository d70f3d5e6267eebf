#include "config/fields.hpp"
#include "config/value.hpp"

namespace evenkeel::config_detail {
namespace {

constexpr std::int64_t largest_cost = (std::int64_t{1} << 40) - 1;
constexpr std::int64_t most_ranks = 1 << 20;

/// CommunicationSettings::overlap is in thousandths.
Decimal overlap_format() {
  constexpr std::int64_t parts = 1000;
  return {parts, 0, parts};
}

Field<CommunicationSettings> optional_number(std::string name,
                                             std::optional<std::int64_t> CommunicationSettings::*member,
                                             Integer<std::int64_t> format) {
  return {std::move(name), [=](CommunicationSettings& settings, const ConfigValue& value) {
            settings.*member = OptionalInteger<std::int64_t>{"auto", format}.read(value);
          }};
}

const std::vector<Field<CommunicationSettings>>& communication_fields() {
  using Settings = CommunicationSettings;
  static const std::vector<Field<Settings>> fields{
      optional_number("inside_node", &Settings::inside_node, {0, largest_cost}),
      optional_number("between_nodes", &Settings::between_nodes, {0, largest_cost}),
      optional_number("ranks_per_node", &Settings::ranks_per_node, {1, most_ranks}),
      {"overlap", [](Settings& settings, const ConfigValue& value) {
         settings.overlap = overlap_format().read(value);
       }}};
  return fields;
}

constexpr std::string_view default_word = "auto";

}  // namespace

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
