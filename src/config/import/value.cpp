#include "config/import/value.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "config/document.hpp"
#include "config/value.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::config_import {
namespace {

constexpr int deepest = 64;
constexpr std::size_t most_values = 100'000;

/// Turns a YAML document into values, with the line of each.
class Reader {
 public:
  Reader(std::string place, bool is_file) : place_(std::move(place)), is_file_(is_file) {}

  Value read(const YAML::Node& node, const std::string& path = {}, int depth = 0) {
    Value value;
    value.place = place_of(node.Mark());
    if (depth > deepest || ++count_ > most_values) {
      throw ConfigError(value.place, "the file is nested too deeply or too large to be a configuration");
    }
    if (node.IsMap()) return read_map(node, path, std::move(value), depth);
    if (node.IsSequence()) {
      value.kind = Value::Kind::list;
      for (const YAML::Node& item : node) value.items.push_back(read(item, path, depth + 1));
    } else if (node.IsScalar()) {
      value.kind = Value::Kind::scalar;
      value.text = node.Scalar();
      value.quoted = node.Tag() == "!";
    }
    return value;
  }

 private:
  [[nodiscard]] std::string place_of(const YAML::Mark& mark) const {
    return is_file_ && !mark.is_null() ? place_ + ":" + std::to_string(mark.line + 1) : place_;
  }

  Value read_map(const YAML::Node& node, const std::string& path, Value value, int depth) {
    value.kind = Value::Kind::map;
    const auto path_of = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
    const auto where_of = [&](const std::string& key, const YAML::Mark& mark) {
      return place_of(mark) + ": " + path_of(key);
    };
    for (const auto& [key, entry] : config_detail::map_entries(node, where_of)) {
      Value below = read(entry.node, path_of(key), depth + 1);
      below.place = entry.where.substr(0, entry.where.size() - path_of(key).size() - 2);
      value.entries.push_back({key, std::move(below)});
    }
    follow_merge_key(value);
    return value;
  }

  /// YAML 1.1's "<<: *other": what the map does not say itself is as in the other.
  static void follow_merge_key(Value& map) {
    const auto key = std::ranges::find(map.entries, "<<", &Value::Entry::first);
    if (key == map.entries.end()) return;
    const Value from = std::move(key->second);
    map.entries.erase(key);
    Value whole;
    whole.kind = Value::Kind::map;
    whole.place = map.place;
    const auto lay = [&](const Value& other) {
      for (const auto& [name, value] : other.entries) {
        if (whole.find(name) == nullptr) whole.entries.push_back({name, value});
      }
    };
    lay(map);
    lay(from);
    for (const Value& item : from.items) lay(item);
    map = std::move(whole);
  }

  std::string place_;
  bool is_file_;
  std::size_t count_ = 0;
};

YAML::Node to_yaml(const Value& value) {
  YAML::Node node;
  if (value.is_scalar()) node = value.text;
  if (value.is_list()) {
    node = YAML::Node(YAML::NodeType::Sequence);
    for (const Value& item : value.items) node.push_back(to_yaml(item));
  }
  if (value.is_map()) {
    node = YAML::Node(YAML::NodeType::Map);
    for (const auto& [key, entry] : value.entries) node[key] = to_yaml(entry);
  }
  return node;
}

std::optional<std::int64_t> digits_of_base(std::string_view digits, int base, bool negative) {
  std::uint64_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (digits.empty() || result.ec != std::errc{} || result.ptr != digits.data() + digits.size())
    return std::nullopt;
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  const auto magnitude = static_cast<std::int64_t>(number);
  return negative ? -magnitude : magnitude;
}

std::optional<std::int64_t> integer_of(std::string_view text, bool negative) {
  if (text.starts_with("0x") || text.starts_with("0X")) return digits_of_base(text.substr(2), 16, negative);
  if (text.starts_with("0b") || text.starts_with("0B")) return digits_of_base(text.substr(2), 2, negative);
  if (text.starts_with("0o")) return digits_of_base(text.substr(2), 8, negative);
  const bool octal = text.size() > 1 && text.front() == '0';
  return digits_of_base(text, octal ? 8 : 10, negative);
}

/// The sign is taken off; Python allows underscores between digits.
std::pair<std::string, bool> unsigned_text(const Value& value) {
  std::string text = value.text;
  std::erase(text, '_');
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.erase(0, 1);
  return {std::move(text), negative};
}

}  // namespace

const Value* Value::find(std::string_view key) const {
  const auto entry = std::ranges::find(entries, key, &Value::Entry::first);
  return entry == entries.end() ? nullptr : &entry->second;
}

Value* Value::find(std::string_view key) {
  const auto entry = std::ranges::find(entries, key, &Value::Entry::first);
  return entry == entries.end() ? nullptr : &entry->second;
}

Value scalar(std::string text, bool quoted) {
  Value value;
  value.kind = Value::Kind::scalar;
  value.text = std::move(text);
  value.quoted = quoted;
  return value;
}

Path split_path(std::string_view text) {
  Path path;
  if (text.empty()) return path;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    path.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return path;
}

std::string dotted(const Path& path) {
  std::string text;
  for (const std::string& part : path) text += (text.empty() ? "" : ".") + part;
  return text;
}

bool starts_with(const Path& path, const Path& prefix) {
  return prefix.size() <= path.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

Value read_value(const std::string& yaml, std::string_view file) {
  const auto place = config_detail::Place::in_file(file);
  return Reader(std::string(file), true).read(config_detail::parse_document(yaml, place));
}

Value read_flow_value(const std::string& text, const std::string& place) {
  try {
    return Reader(place, false).read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    throw ConfigError(place, "malformed value: " + error.msg);
  }
}

void merge(Value& under, const Value& over) {
  if (!under.is_map() || !over.is_map()) {
    under = over;
    return;
  }
  for (const auto& [key, value] : over.entries) {
    if (Value* known = under.find(key)) {
      merge(*known, value);
    } else {
      under.entries.push_back({key, value});
    }
  }
}

void merge_at(Value& root, const Path& path, const Value& value) {
  Value* at = &root;
  for (const std::string& part : path) {
    if (at->is_null()) at->kind = Value::Kind::map;
    if (!at->is_map()) throw ConfigError(value.place, dotted(path) + ": " + part + " is below no section");
    if (at->find(part) == nullptr) {
      at->entries.push_back({part, Value{}});
      at->entries.back().second.place = value.place;
    }
    at = at->find(part);
  }
  merge(*at, value);
}

std::string one_line(const Value& value) {
  std::string text = "null";
  if (value.is_scalar()) {
    text = value.text;
  } else if (!value.is_null()) {
    YAML::Emitter emitter;
    emitter << YAML::Flow << to_yaml(value);
    text = emitter.c_str();
  }
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return text;
}

std::optional<std::int64_t> as_integer(const Value& value) {
  if (!value.is_scalar()) return std::nullopt;
  const auto [text, negative] = unsigned_text(value);
  if (const auto integer = integer_of(text, negative)) return integer;
  const auto number = as_number(value);
  constexpr double most = 9007199254740992.0;  // 2^53: beyond it a double skips integers
  if (!number || std::floor(*number) != *number || std::fabs(*number) > most) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::optional<double> as_number(const Value& value) {
  if (!value.is_scalar()) return std::nullopt;
  const auto [text, negative] = unsigned_text(value);
  if (const auto integer = integer_of(text, negative)) return static_cast<double>(*integer);
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || result.ec != std::errc{} || result.ptr != text.data() + text.size() ||
      !std::isfinite(number)) {
    return std::nullopt;
  }
  return negative ? -number : number;
}

std::optional<bool> as_flag(const Value& value) {
  if (!value.is_scalar()) return std::nullopt;
  static const std::vector<std::pair<std::string, bool>> words{
      {"true", true}, {"yes", true}, {"on", true}, {"false", false}, {"no", false}, {"off", false}};
  for (const auto& [word, flag] : words) {
    std::string capital = word;
    capital.front() = static_cast<char>(capital.front() - 'a' + 'A');
    std::string upper = word;
    std::ranges::transform(upper, upper.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
    if (value.text == word || value.text == capital || value.text == upper) return flag;
  }
  return std::nullopt;
}

}  // namespace evenkeel::config_import
