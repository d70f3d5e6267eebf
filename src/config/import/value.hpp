#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evenkeel::config_import {

/// A value of a foreign configuration, wherever it came from: one of several files, the command line, a
/// reference, the environment.
struct Value {
  enum class Kind : std::uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;     ///< of a scalar
  bool quoted = false;  ///< a scalar in quotes is a text, whatever it looks like
  std::string place;    ///< "FILE:LINE" or "--override KEY=VALUE", for messages
  std::vector<Value> items;
  struct Entry;
  std::vector<Entry> entries;  ///< of a map, in order

  // Of a value that references were followed for:
  std::string written;  ///< as the file has it; empty where it has no reference
  std::string via;      ///< "follows data.max_response_length"; for the reader
  std::string missing;  ///< why the reference leads nowhere; empty when it does not

  [[nodiscard]] bool is_null() const noexcept { return kind == Kind::null; }
  [[nodiscard]] bool is_scalar() const noexcept { return kind == Kind::scalar; }
  [[nodiscard]] bool is_list() const noexcept { return kind == Kind::list; }
  [[nodiscard]] bool is_map() const noexcept { return kind == Kind::map; }
  /// The entry of a map; null when there is none.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] Value* find(std::string_view key);
};

/// A type of its own: Clang asks a pair for its value before that is complete.
struct Value::Entry {
  std::string first;  ///< its key
  Value second;
};

[[nodiscard]] Value scalar(std::string text, bool quoted = false);

/// The keys that lead to a value from the root; a list's entries are called "0", "1", ...
using Path = std::vector<std::string>;
[[nodiscard]] Path split_path(std::string_view dotted);
[[nodiscard]] std::string dotted(const Path& path);
/// At a path, or at one below it.
[[nodiscard]] bool starts_with(const Path& path, const Path& prefix);

/// The one YAML document in `yaml`. Merge keys (<<) are followed. Throws ConfigError for malformed YAML, a
/// key given twice, and a document that is nested too deeply or too large.
[[nodiscard]] Value read_value(const std::string& yaml, std::string_view file);
/// A value on the command line, in YAML's flow style: 3, [a, b], 'text', {a: 1}.
[[nodiscard]] Value read_flow_value(const std::string& text, const std::string& place);

/// Lays `over` on `under`: maps are joined key by key, all else is replaced.
void merge(Value& under, const Value& over);
/// Lays `value` on the map at `path`, which is made where it is missing. Throws ConfigError when something
/// on the way is no map.
void merge_at(Value& root, const Path& path, const Value& value);

/// The value as YAML, on one line.
[[nodiscard]] std::string one_line(const Value& value);

/// Scalars as PyYAML and OmegaConf read them (YAML 1.1): 1_024, 0x400, "8192", 8e3; yes, On, TRUE. Nothing
/// for any other, and for a number with a fraction where an integer is asked for.
[[nodiscard]] std::optional<std::int64_t> as_integer(const Value& value);
[[nodiscard]] std::optional<double> as_number(const Value& value);
[[nodiscard]] std::optional<bool> as_flag(const Value& value);

}  // namespace evenkeel::config_import
