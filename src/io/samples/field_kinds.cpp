#include "io/samples/field_kinds.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

#include "io/jsonl/json_text.hpp"

namespace evenkeel {

std::string text_of(const FieldKinds& kinds) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, kind] : kinds) object[name] = std::string(name_of(kind));
  return object.dump();
}

// Not with the library that writes it, which ends the process where memory runs out.
FieldKinds parsed_kinds(const std::string& text) {
  FieldKinds kinds;
  if (text.empty()) return kinds;
  const JsonText json(text);
  if (!json.object()) return kinds;
  for (const auto [name, value] : *json.object()) {
    std::string_view word;
    if (value.get(word)) continue;
    if (const FieldRule* const rule = find_rule(word)) kinds.emplace(name, rule->kind);
  }
  return kinds;
}

}  // namespace evenkeel
