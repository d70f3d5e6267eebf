#include "source/dumped_layers.hpp"

#include <simdjson.h>

#include <optional>
#include <set>

#include "evenkeel/base/error.hpp"
#include "io/json_text.hpp"
#include "service/derived_names.hpp"

namespace evenkeel {
namespace {

/// None where the value is no list of layers that names each once.
std::optional<std::vector<std::int64_t>> layers_in(const simdjson::dom::element& value) {
  simdjson::dom::array list;
  if (value.get(list)) return std::nullopt;
  std::vector<std::int64_t> layers;
  std::set<std::int64_t> named;
  for (const simdjson::dom::element item : list) {
    std::int64_t layer = -1;
    if (item.get(layer) || layer < 0 || !named.insert(layer).second) return std::nullopt;
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace

DumpedLayers layers_told_by(const TensorFile& file) {
  DumpedLayers told;
  const auto text = file.metadata().find(std::string(layers_name));
  if (text == file.metadata().end()) return told;
  const auto refuse = [&](const std::string& what) {
    throw InputError(file.path(), "has metadata " + std::string(layers_name) + " that are " + what,
                     "Is it a file of evenkeel run --dump, as the run wrote it?");
  };
  const JsonText json(text->second);
  if (!json.object()) refuse("no JSON object");
  for (const auto [name, value] : *json.object()) {
    std::optional<std::vector<std::int64_t>> layers = layers_in(value);
    if (!layers) refuse("no list of layers for '" + std::string(name) + "'");
    if (!told.emplace(name, *std::move(layers)).second) refuse("given twice for '" + std::string(name) + "'");
  }
  return told;
}

bool count_up(const std::vector<std::int64_t>& layers) noexcept {
  std::int64_t next = 0;
  for (const std::int64_t layer : layers) {
    if (layer != next++) return false;
  }
  return true;
}

}  // namespace evenkeel
