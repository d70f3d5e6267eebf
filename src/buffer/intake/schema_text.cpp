#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "buffer/intake/received_samples.hpp"
#include "evenkeel/base/error.hpp"
#include "stream/event.hpp"

namespace evenkeel {
namespace {

constexpr const char* tensors_word = "safetensors";

constexpr std::array all_formats{LineFormat::rows, LineFormat::text, LineFormat::bytes, LineFormat::axes,
                                 LineFormat::runs};

constexpr const char* same_store_version_hint =
    "Use the same version of Evenkeel for the job, the buffer and its store";

template <typename Value>
Value parse_enum_name(std::span<const Value> all, const std::string& name) {
  const auto found = std::ranges::find_if(all, [&](Value value) { return name_of(value) == name; });
  if (found == all.end())
    throw InputError("fields", "have the unknown type or format '" + name + "'", same_store_version_hint);
  return *found;
}

FieldKind parse_kind(const std::string& name) {
  if (const FieldRule* const rule = find_rule(name)) return rule->kind;
  throw InputError("fields", "have the unknown kind '" + name + "'", same_store_version_hint);
}

std::vector<std::int64_t> parse_extents(const nlohmann::json& list) {
  std::vector<std::int64_t> extents;
  for (const nlohmann::json& extent : list)
    extents.push_back(stream::require_integer(extent, "extent of a field"));
  return extents;
}

}  // namespace

std::string serialize_schema(const JsonlSchema& schema, SampleForm form) {
  nlohmann::json fields = nlohmann::json::array();
  for (const FieldSpec& field : schema.fields) {
    fields.push_back({{"name", field.name},
                      {"dtype", name_of(field.dtype)},
                      {"kind", name_of(field.kind)},
                      {"trailing", field.trailing},
                      {"kind_open", schema.kind_open.contains(field.name)},
                      {"element_open", schema.element_open.contains(field.name)},
                      {"wide_integers", schema.wide_integers.contains(field.name)}});
  }
  nlohmann::json out{{"empty", schema.empty}, {"fields", std::move(fields)}};
  // If the entry "form" is missing, the samples are lines, which was the only form in earlier versions.
  if (form == SampleForm::tensors) out["form"] = tensors_word;
  return out.dump();
}

JsonlSchema parse_schema(const std::string& text) {
  try {
    JsonlSchema schema;
    const nlohmann::json in = nlohmann::json::parse(text);
    schema.empty = in.at("empty");
    for (const nlohmann::json& field : in.at("fields")) {
      const FieldSpec spec{field.at("name"), parse_enum_name<DType>(all_dtypes, field.at("dtype")),
                           parse_kind(field.at("kind")), parse_extents(field.at("trailing"))};
      if (field.at("kind_open").get<bool>()) schema.kind_open.insert(spec.name);
      if (field.at("element_open").get<bool>()) schema.element_open.insert(spec.name);
      if (field.value("wide_integers", false)) schema.wide_integers.emplace(spec.name, 0);
      schema.fields.push_back(spec);
      schema.origins.emplace_back();
    }
    return schema;
  } catch (const nlohmann::json::exception& error) {
    throw InputError("fields", std::string("cannot be read: ") + error.what(), same_store_version_hint);
  }
}

SampleForm parse_sample_form(const std::string& text) {
  const nlohmann::json in = nlohmann::json::parse(text, nullptr, false);
  const bool are_tensors = in.is_object() && in.value("form", nlohmann::json()) == tensors_word;
  return are_tensors ? SampleForm::tensors : SampleForm::lines;
}

std::string serialize_formats(const DeclaredFormats& declared) {
  nlohmann::json formats = nlohmann::json::object();
  for (const auto& [name, format] : declared) formats[name] = name_of(format);
  return formats.dump();
}

DeclaredFormats parse_formats(const std::string& text) {
  try {
    DeclaredFormats declared;
    const nlohmann::json formats = nlohmann::json::parse(text);
    for (const auto& [name, format] : formats.get<std::map<std::string, std::string>>())
      declared.emplace(name, parse_enum_name<LineFormat>(all_formats, format));
    return declared;
  } catch (const nlohmann::json::exception& error) {
    throw InputError("formats of fields", std::string("cannot be read: ") + error.what(),
                     same_store_version_hint);
  }
}

std::string describe_formats(const DeclaredFormats& declared) {
  std::string words;
  for (const auto& [name, format] : declared)
    words += (words.empty() ? "" : ",") + name + "=" + std::string(name_of(format));
  return words.empty() ? "none" : words;
}

}  // namespace evenkeel
