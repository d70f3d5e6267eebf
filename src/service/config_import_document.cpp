#include "config_import_document.hpp"

#include <algorithm>
#include <optional>

#include "config_document.hpp"
#include "config_value.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::config_import {
namespace {

constexpr int deepest = 64;
constexpr std::size_t most_keys = 10'000;

YAML::Node parse(const std::string& yaml, std::string_view name) {
  const YAML::Node root = config_detail::parse_document(yaml, config_detail::Place::in_file(name));
  if (!root.IsMap()) config_detail::throw_wrong_type({root, std::string(name)}, "a map of sections");
  return root;
}

std::string one_line(const YAML::Node& node) {
  std::string text;
  if (node.IsScalar()) {
    text = node.Scalar();
  } else if (node.IsNull()) {
    text = "null";
  } else {
    YAML::Emitter emitter;
    emitter << YAML::Flow << node;
    text = emitter.c_str();
  }
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return text;
}

bool holds_maps(const YAML::Node& list) {
  return std::any_of(list.begin(), list.end(), [](const YAML::Node& entry) { return entry.IsMap(); });
}

/// Walks a document down to its leaves.
class Flattener {
 public:
  explicit Flattener(std::string_view name) : name_(name) {}

  void visit(const YAML::Node& node, const std::string& path, const std::string& where, int depth) {
    if (depth > deepest || keys_.size() > most_keys) {
      throw ConfigError(where, "the file is nested too deeply or too large to be a configuration");
    }
    if (node.IsMap() && node.size() > 0) return visit_map(node, path, depth);
    if (node.IsSequence() && holds_maps(node)) return visit_list(node, path, where, depth);
    keys_.push_back({path, where, one_line(node), node, ""});
  }

  [[nodiscard]] std::vector<ForeignKey> keys() && { return std::move(keys_); }

 private:
  void visit_map(const YAML::Node& map, const std::string& path, int depth) {
    const auto path_of = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
    const auto where_of = [&](const std::string& key, const YAML::Mark& mark) {
      return name_ + ":" + std::to_string(mark.line + 1) + ": " + path_of(key);
    };
    for (const auto& [key, value] : config_detail::map_entries(map, where_of)) {
      visit(value.node, path_of(key), value.where, depth + 1);
    }
  }

  void visit_list(const YAML::Node& list, const std::string& path, const std::string& where, int depth) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      visit(list[i], path + "[" + std::to_string(i) + "]", where, depth + 1);
    }
  }

  std::string name_;
  std::vector<ForeignKey> keys_;
};

/// A value that is one reference and nothing else: its target and what stands in for a missing one.
struct Reference {
  std::string target;
  std::string fallback;
  bool has_fallback = false;
};

std::optional<Reference> reference_in(const YAML::Node& node) {
  if (!node.IsScalar()) return std::nullopt;
  std::string_view text = node.Scalar();
  if (!text.starts_with("${") || !text.ends_with('}')) return std::nullopt;
  text = text.substr(2, text.size() - 3);
  constexpr std::string_view select = "oc.select:";
  if (!text.starts_with(select)) return Reference{std::string(text), "", false};
  text.remove_prefix(select.size());
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos) return Reference{std::string(text), "null", true};
  return Reference{std::string(text.substr(0, comma)), std::string(text.substr(comma + 1)), true};
}

void follow_references(ForeignKey& key, const std::vector<ForeignKey>& keys) {
  for (int hop = 0; hop < deepest; ++hop) {
    const auto reference = reference_in(key.value);
    if (!reference) {
      const bool mixed = key.value.IsScalar() && key.value.Scalar().find("${") != std::string::npos;
      if (mixed) key.missing = key.text;
      return;
    }
    const auto target = std::ranges::find(keys, reference->target, &ForeignKey::path);
    if (target == keys.end() && !reference->has_fallback) {
      key.missing = reference->target;
      return;
    }
    // A node is a handle: assigning would change the document, reset only lets go.
    key.value.reset(target != keys.end() ? target->value : YAML::Load(reference->fallback));
  }
  key.missing = key.text;  // references in a circle
}

}  // namespace

std::vector<ForeignKey> read_foreign_keys(const std::string& yaml, std::string_view name) {
  Flattener flattener(name);
  flattener.visit(parse(yaml, name), "", std::string(name), 0);
  const std::vector<ForeignKey> as_written = std::move(flattener).keys();
  std::vector<ForeignKey> keys = as_written;
  for (ForeignKey& key : keys) follow_references(key, as_written);
  return keys;
}

}  // namespace evenkeel::config_import
