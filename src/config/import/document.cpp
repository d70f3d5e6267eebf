#include "config/import/document.hpp"

#include <algorithm>

#include "config/import/compose.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::config_import {
namespace {

constexpr std::size_t most_keys = 10'000;

bool holds_maps(const Value& list) {
  return std::ranges::any_of(list.items, &Value::is_map);
}

/// Walks a configuration down to its leaves.
class Flattener {
 public:
  void visit(const Value& value, const std::string& path) {
    if (keys_.size() > most_keys) {
      throw ConfigError(value.place, "the file is nested too deeply or too large to be a configuration");
    }
    if (value.is_map() && !value.entries.empty()) {
      for (const auto& [key, entry] : value.entries) visit(entry, path.empty() ? key : path + "." + key);
    } else if (value.is_list() && holds_maps(value)) {
      for (std::size_t i = 0; i < value.items.size(); ++i)
        visit(value.items[i], path + "[" + std::to_string(i) + "]");
    } else {
      add(value, path);
    }
  }

  [[nodiscard]] std::vector<ForeignKey> keys() && { return std::move(keys_); }

 private:
  void add(const Value& value, const std::string& path) {
    const std::string text = one_line(value);
    const std::string written = value.written.empty() ? text : one_line(scalar(value.written));
    keys_.push_back({path, value.place + ": " + path, text, written, value});
  }

  std::vector<ForeignKey> keys_;
};

}  // namespace

Document read_document(const std::string& yaml, std::string_view name, const ImportSettings& options) {
  std::vector<Override> overrides;
  for (const std::string& text : options.overrides) overrides.push_back(parse_override(text));
  Composition made = compose(yaml, std::filesystem::path(name), overrides, options.read_file);
  const Value whole = References(made.root, options.environment, made.lost).follow_all();
  Flattener flattener;
  for (const auto& [key, value] : whole.entries) flattener.visit(value, key);
  return {std::move(flattener).keys(), std::move(made.files), std::move(made.lost)};
}

}  // namespace evenkeel::config_import
