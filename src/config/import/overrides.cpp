#include "config/import/overrides.hpp"

#include <algorithm>

#include "evenkeel/base/error.hpp"

namespace evenkeel::config_import {
namespace {

const std::string expected = "expected Hydra's KEY=VALUE, +KEY=VALUE, ++KEY=VALUE or ~KEY";

/// A comma outside brackets, quotes and references asks Hydra for several jobs.
bool is_sweep(const std::string& text) {
  int open = 0;
  for (const char c : text) {
    if (c == '{' || c == '[' || c == '(') ++open;
    if (c == '}' || c == ']' || c == ')') --open;
    if (c == ',' && open == 0) return true;
  }
  return false;
}

/// Hydra's dictionaries need no blank behind a colon, YAML's do.
std::string with_blanks(const std::string& text) {
  std::string spaced;
  for (std::size_t i = 0; i < text.size(); ++i) {
    spaced += text[i];
    const bool is_key = text[i] == ':' && i + 1 < text.size() && text[i + 1] != ' ' && text[i + 1] != '/';
    if (is_key) spaced += ' ';
  }
  return spaced;
}

Value value_of(const std::string& text, const std::string& place) {
  Value value;
  if (text.empty()) {
    value = scalar("", true);
  } else if (text.starts_with('{') || text.starts_with('[')) {
    value = read_flow_value(text.find("${") == std::string::npos ? with_blanks(text) : text, place);
  } else if (text.starts_with('\'') || text.starts_with('"')) {
    if (text.size() < 2 || text.back() != text.front()) throw ConfigError(place, "a quote is not closed");
    value = scalar(text.substr(1, text.size() - 2), true);
  } else if (is_sweep(text)) {
    throw ConfigError(place, "gives several values", "Put a text with a comma in quotes");
  } else if (text != "null") {
    value = scalar(text);
  }
  value.place = place;
  return value;
}

/// The section a key stands in; null when there is none.
Value* parent_of(Value& root, const Path& path) {
  Value* at = &root;
  for (std::size_t i = 0; i + 1 < path.size() && at != nullptr; ++i) at = at->find(path[i]);
  return at != nullptr && at->is_map() ? at : nullptr;
}

/// A part that is not here may have the key, or all the sections around it.
bool may_be_lost(const Path& path, const std::vector<LostPart>& lost) {
  return std::ranges::any_of(lost, [&](const LostPart& part) {
    return starts_with(path, part.package) || starts_with(part.package, path);
  });
}

}  // namespace

Override parse_override(const std::string& text) {
  Override change;
  change.place = "--override " + text;
  std::string rest = text;
  const auto take = [&](std::string_view prefix, Override::Kind kind) {
    if (change.kind != Override::Kind::change || !rest.starts_with(prefix)) return;
    change.kind = kind;
    rest.erase(0, prefix.size());
  };
  take("++", Override::Kind::force);
  take("+", Override::Kind::add);
  take("~", Override::Kind::remove);
  const std::size_t equals = rest.find('=');
  change.key = rest.substr(0, equals);
  const bool has_value = equals != std::string::npos;
  const Path path = split_path(change.key);
  const bool is_path = !path.empty() && std::ranges::none_of(path, &std::string::empty);
  if (!is_path || (!has_value && change.kind != Override::Kind::remove))
    throw ConfigError(change.place, expected);
  if (has_value) change.value = value_of(rest.substr(equals + 1), change.place);
  return change;
}

void apply_override(Value& root, const Override& change, const std::vector<LostPart>& lost) {
  const Path path = split_path(change.key);
  Value* parent = parent_of(root, path);
  Value* known = parent == nullptr ? nullptr : parent->find(path.back());
  const bool may_be_elsewhere = may_be_lost(path, lost);
  if (change.kind == Override::Kind::remove) {
    if (known == nullptr && !may_be_elsewhere)
      throw ConfigError(change.place, "there is no key " + change.key + " to remove");
    if (known != nullptr)
      std::erase_if(parent->entries, [&](const auto& entry) { return entry.first == path.back(); });
    return;
  }
  if (change.kind == Override::Kind::change && known == nullptr && !may_be_elsewhere) {
    throw ConfigError(change.place, "the configuration has no key " + change.key,
                      "To add it, write +" + change.key + "=...");
  }
  if (change.kind == Override::Kind::add && known != nullptr && !(known->is_map() && change.value.is_map())) {
    throw ConfigError(change.place, "the configuration has " + change.key + " already",
                      "To change it, leave out the +");
  }
  merge_at(root, path, change.value);
}

}  // namespace evenkeel::config_import
