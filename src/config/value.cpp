#include "config/value.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>

#include "base/text/host_port.hpp"
#include "base/text/parse_number.hpp"
#include "base/text/units.hpp"
#include "config/document.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::config_detail {

std::string describe(const YAML::Node& node) {
  if (node.IsNull()) return "null";
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return node.size() == 0 ? "an empty list" : "a list";
  if (const auto text = plain_text(node)) return shorten(*text);
  return "the quoted text \"" + shorten(node.Scalar()) + "\"";
}

std::vector<std::pair<std::string, ConfigValue>> entries_of_map(
    const YAML::Node& map,
    const std::function<std::string(const std::string& name, const YAML::Mark& mark)>& where_of) {
  std::vector<std::pair<std::string, ConfigValue>> entries;
  std::set<std::string> seen;
  for (const auto& entry : map) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const std::string where = where_of(shorten(name), entry.first.Mark());
    if (!entry.first.IsScalar()) throw_wrong_type({entry.first, where}, "a word as the key");
    if (!seen.insert(name).second) throw ConfigError(where, "the key is given twice", "Remove one of them");
    entries.emplace_back(name, ConfigValue{entry.second, where});
  }
  return entries;
}

void throw_wrong_type(const ConfigValue& value, std::string_view expected) {
  throw ConfigError(value.where, "expected " + std::string(expected) + ", found " + describe(value.node));
}

void throw_out_of_range(const ConfigValue& value, const std::string& range) {
  throw ConfigError(value.where, describe(value.node) + " is out of range; allowed: " + range);
}

void throw_not_allowed(const ConfigValue& value, std::span<const std::string> allowed) {
  throw ConfigError(value.where, describe(value.node) + " is not one of: " + join(allowed));
}

std::optional<std::string> plain_text(const YAML::Node& node) {
  if (!node.IsScalar() || node.Tag() != "?") return std::nullopt;
  return node.Scalar();
}

std::optional<std::string> expand_token_unit(const YAML::Node& node) {
  const auto tokens = node.IsScalar() ? parse_tokens(node.Scalar()) : std::nullopt;
  return tokens ? std::to_string(*tokens) : plain_text(node);
}

bool is_integer_text(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool Boolean::read(const ConfigValue& value) const {
  const auto text = plain_text(value.node);
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  throw_wrong_type(value, "true or false");
}

std::int64_t Decimal::read(const ConfigValue& value) const {
  const auto text = plain_text(value.node);
  const std::optional<double> number = text ? parse_as<double>(*text) : std::nullopt;
  if (!number || !std::isfinite(*number)) throw_wrong_type(value, "a number");
  const double parts = std::round(*number * static_cast<double>(scale));
  if (parts < static_cast<double>(min) || parts > static_cast<double>(max))
    throw_out_of_range(value, values());
  return static_cast<std::int64_t>(parts);
}

std::string Decimal::write(std::int64_t parts) const {
  std::string decimals = std::to_string(scale + parts % scale).substr(1);
  decimals.erase(decimals.find_last_not_of('0') + 1);
  return std::to_string(parts / scale) + (decimals.empty() ? "" : "." + decimals);
}

std::vector<std::int64_t> DecimalList::read(const ConfigValue& value) const {
  if (is_word(value.node, word)) return {};
  if (!value.node.IsSequence() || value.node.size() == 0)
    throw_wrong_type(value, "a list of numbers, or the word " + word);
  std::vector<std::int64_t> numbers;
  for (const YAML::Node& entry : value.node) numbers.push_back(number.read({entry, value.where}));
  return numbers;
}

std::string DecimalList::write(const std::vector<std::int64_t>& numbers) const {
  if (numbers.empty()) return word;
  std::string text;
  for (const std::int64_t parts : numbers) text += (text.empty() ? "[" : ", ") + number.write(parts);
  return text + "]";
}

std::string Address::read(const ConfigValue& value) const {
  const std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
  if (!parse_host_port(text))
    throw_wrong_type(value, "an address with a port from 0 to 65535, such as 127.0.0.1:8710");
  return text;
}

std::string StoreName::read(const ConfigValue& value) const {
  const std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
  const bool is_redis = text.starts_with("redis://") || text.starts_with("redis+unix://");
  if (text != "lmdb" && text != "memory" && !is_redis) throw_wrong_type(value, values());
  return text;
}

std::string StoreName::write(const std::string& store) const {
  return store.find(':') == std::string::npos ? store : quote_yaml(store);
}

std::string BufferName::read(const ConfigValue& value) const {
  const std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
  const auto is_allowed = [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (text.empty() || text.size() > 100 || !std::ranges::all_of(text, is_allowed))
    throw_wrong_type(value, values());
  return text;
}

std::int64_t ByteCount::read(const ConfigValue& value) const {
  // A number with a unit may be quoted, since JSON requires quotes in this case; other numbers may not.
  const bool is_quoted_number =
      !plain_text(value.node) && value.node.IsScalar() && is_integer_text(value.node.Scalar());
  const auto bytes =
      value.node.IsScalar() && !is_quoted_number ? parse_bytes(value.node.Scalar()) : std::nullopt;
  if (!bytes) throw_wrong_type(value, "a number of bytes (" + values() + "), such as 8GiB or 1000000000");
  if (*bytes < min || *bytes > max) throw_out_of_range(value, values());
  return *bytes;
}

std::string ByteCount::write(std::int64_t bytes) const {
  return format_with_unit(bytes);
}

OptionalSeconds::value_type OptionalSeconds::read(const ConfigValue& value) const {
  constexpr double year = 366 * 86400;
  if (word == "null" ? value.node.IsNull() || plain_text(value.node) == word : is_word(value.node, word))
    return std::nullopt;
  const auto text = plain_text(value.node);
  const std::optional<double> seconds = text ? parse_as<double>(*text) : std::nullopt;
  if (!seconds || !std::isfinite(*seconds)) throw_wrong_type(value, "a number of seconds or " + word);
  if (*seconds < 0 || *seconds > year) throw_out_of_range(value, values());
  return seconds;
}

std::string OptionalSeconds::write(const value_type& seconds) const {
  if (!seconds) return word;
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), *seconds).ptr;
  return {text.data(), end};
}

std::string quote_yaml(const std::string& text) {
  YAML::Emitter emitter;
  emitter << YAML::DoubleQuoted << text;
  std::string quoted = emitter.c_str();
  // yaml-cpp does not escape DEL.
  for (std::size_t at = 0; (at = quoted.find('\x7f', at)) != std::string::npos;)
    quoted.replace(at, 1, "\\x7F");
  return quoted;
}

std::filesystem::path FilePath::read(const ConfigValue& value) const {
  if (value.node.IsNull()) return {};
  if (!value.node.IsScalar()) throw_wrong_type(value, "a path");
  // The system would ignore everything from the NUL byte on, and open a different file.
  if (value.node.Scalar().find('\0') != std::string::npos)
    throw ConfigError(value.where, "contains a NUL byte, which a path cannot have", "Remove it");
  return value.node.Scalar();
}

std::string FilePath::write(const std::filesystem::path& path) const {
  return path.empty() ? "null" : quote_yaml(path.string());
}

SourcePaths::value_type SourcePaths::read(const ConfigValue& value) const {
  if (!value.node.IsSequence()) {
    const std::filesystem::path path = FilePath{}.read(value);
    return path.empty() ? value_type{} : value_type{path};
  }
  value_type paths;
  for (const YAML::Node& entry : value.node) {
    if (!entry.IsScalar() || entry.Scalar().empty()) {
      throw ConfigError(value.where, "expected a list of files; entry " + std::to_string(paths.size()) +
                                         " is " + describe(entry));
    }
    const std::filesystem::path path = FilePath{}.read({entry, value.where});
    if (SourceSettings::is_address(path.native())) {
      throw ConfigError(
          value.where, "is a list that contains a buffer's address, which must be given alone, not in a list",
          "Give one address: servers that share a buffer over Redis (evenkeel buffer --store redis://HOST) "
          "hand out the same samples");
    }
    if (std::ranges::find(paths, path) != paths.end())
      throw ConfigError(value.where, "names " + path.string() + " twice", "Name each file once");
    paths.push_back(path);
  }
  if (paths.empty()) throw_wrong_type(value, "a list of files");
  return paths;
}

std::string SourcePaths::write(const value_type& paths) const {
  if (paths.size() <= 1) return FilePath{}.write(paths.empty() ? std::filesystem::path() : paths.front());
  std::vector<std::string> texts;
  for (const std::filesystem::path& path : paths) texts.push_back(quote_yaml(path.string()));
  return "[" + join(texts) + "]";
}

std::string FieldName::read(const ConfigValue& value) const {
  if (!value.node.IsScalar() || value.node.Scalar().empty()) throw_wrong_type(value, "the name of a field");
  return value.node.Scalar();
}

namespace {

/// Reads a list of distinct names. `expected` describes the list, and `what` an entry, in error messages.
std::vector<std::string> read_names(const ConfigValue& value, const std::string& expected,
                                    const std::string& what) {
  if (!value.node.IsSequence()) throw_wrong_type(value, expected);
  std::vector<std::string> names;
  for (const YAML::Node& entry : value.node) {
    if (!entry.IsScalar() || entry.Scalar().empty()) {
      throw ConfigError(value.where, "expected " + expected + "; entry " + std::to_string(names.size()) +
                                         " is " + describe(entry));
    }
    if (std::ranges::find(names, entry.Scalar()) != names.end())
      throw ConfigError(value.where, "names '" + entry.Scalar() + "' twice", "Name each " + what + " once");
    names.push_back(entry.Scalar());
  }
  return names;
}

std::string write_names(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(quote_yaml(name));
  return "[" + join(texts) + "]";
}

}  // namespace

std::vector<std::string> FieldNames::read(const ConfigValue& value) const {
  return read_names(value, values(), "field");
}

std::string FieldNames::write(const std::vector<std::string>& names) const {
  return write_names(names);
}

std::vector<std::string> ProfileNames::read(const ConfigValue& value) const {
  if (is_word(value.node, "all")) return {};
  const std::string expected = "a list of names of profiles, or all";
  if (value.node.size() == 0) throw_wrong_type(value, expected);
  return read_names(value, expected, "profile");
}

std::string ProfileNames::write(const std::vector<std::string>& names) const {
  return names.empty() ? "all" : write_names(names);
}

RankOrder AxisOrder::read(const ConfigValue& value) const {
  if (!value.node.IsScalar()) throw_wrong_type(value, values());
  try {
    return RankOrder(value.node.Scalar());
  } catch (const ConfigError& error) {
    throw ConfigError(value.where, error.report().message, error.report().hint);
  }
}

}  // namespace evenkeel::config_detail
