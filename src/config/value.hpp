#pragma once

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/base/grid.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/settings.hpp"

/// Formats of values. They read values from YAML and write them as YAML. Each format has `value_type`,
/// `type()` and `values()` for the reference page, `read()` (throws ConfigError at the value's place) and
/// `write()`.
namespace evenkeel::config_detail {

/// A value and its place, which errors use: "FILE:LINE: key" or "--set key=value".
struct ConfigValue {
  YAML::Node node;
  std::string where;
};

/// Returns a map's entries in order. The place of each entry is where_of(name, mark). Throws ConfigError if a
/// key is not a scalar or is repeated.
[[nodiscard]] std::vector<std::pair<std::string, ConfigValue>> entries_of_map(
    const YAML::Node& map,
    const std::function<std::string(const std::string& name, const YAML::Mark& mark)>& where_of);

/// Returns a short description of the value for error messages: scalars as they are, "a map", "a list".
[[nodiscard]] std::string describe(const YAML::Node& node);
[[noreturn]] void throw_wrong_type(const ConfigValue& value, std::string_view expected);
[[noreturn]] void throw_out_of_range(const ConfigValue& value, const std::string& range);
[[noreturn]] void throw_not_allowed(const ConfigValue& value, std::span<const std::string> allowed);

/// Returns the text of a plain (unquoted) scalar, or nullopt for any other value.
[[nodiscard]] std::optional<std::string> plain_text(const YAML::Node& node);
/// Same as plain_text(), but converts a number of tokens with a unit (32k) to digits. Such a number may be
/// quoted, like a word.
[[nodiscard]] std::optional<std::string> expand_token_unit(const YAML::Node& node);
/// Returns whether the value is this word. The word may be quoted, since JSON and programs quote words.
[[nodiscard]] inline bool is_word(const YAML::Node& node, std::string_view word) {
  return node.IsScalar() && node.Scalar() == word;
}
/// Returns the string as a double-quoted YAML scalar.
[[nodiscard]] std::string quote_yaml(const std::string& text);
/// Returns whether the text is an optional sign and decimal digits.
[[nodiscard]] bool is_integer_text(std::string_view text);

/// Parts of the error messages for an integer that has the wrong type (`expected`) or is out of range
/// (`allowed`).
struct IntegerMessages {
  std::string expected;
  std::string allowed;
};
template <std::integral T>
[[nodiscard]] T read_integer(const ConfigValue& value, const std::optional<std::string>& text, T min, T max,
                             const IntegerMessages& messages) {
  if (!text || !is_integer_text(*text)) throw_wrong_type(value, messages.expected);
  const char* first = text->data() + (text->front() == '+' ? 1 : 0);
  T number{};
  const auto result = std::from_chars(first, text->data() + text->size(), number);
  if (result.ec != std::errc{} || number < min || number > max) throw_out_of_range(value, messages.allowed);
  return number;
}

/// The kind of quantity that an integer counts.
enum class IntegerUnit : std::uint8_t {
  things,
  tokens,  ///< may have a unit: 32k
};

/// Integers from `min` to `max`.
template <std::integral T>
struct Integer {
  using value_type = T;
  T min = std::numeric_limits<T>::min();
  T max = std::numeric_limits<T>::max();
  IntegerUnit of = IntegerUnit::things;

  [[nodiscard]] std::string type() const { return of == IntegerUnit::tokens ? "tokens" : "integer"; }
  [[nodiscard]] std::string values() const {
    if (max == std::numeric_limits<T>::max()) return write(min) + " or more";
    return write(min) + " to " + write(max);
  }
  /// `word` is an allowed alternative to an integer, which error messages mention.
  [[nodiscard]] T read(const ConfigValue& value, const std::string& word = {}) const {
    const std::string expected =
        of == IntegerUnit::tokens ? "a number of tokens (32768 or 32k)" : "an integer";
    return read_integer(
        value, of == IntegerUnit::tokens ? expand_token_unit(value.node) : plain_text(value.node), min, max,
        {word.empty() ? expected : expected + " or " + word,
         write(min) + " to " + write(max) + (word.empty() ? "" : ", or " + word)});
  }
  [[nodiscard]] std::string write(T number) const { return std::to_string(number); }
};

/// Returns the format of numbers of tokens from `min` to `max`.
[[nodiscard]] constexpr Integer<std::int64_t> token_count_format(std::int64_t min, std::int64_t max) {
  return {min, max, IntegerUnit::tokens};
}

/// An integer, or a word (auto, null) that leaves the value unset.
template <std::integral T>
struct OptionalInteger {
  using value_type = std::optional<T>;
  std::string word;
  Integer<T> integer;

  [[nodiscard]] std::string type() const { return integer.type() + " or " + word; }
  [[nodiscard]] std::string values() const { return integer.values() + ", or " + word; }
  [[nodiscard]] value_type read(const ConfigValue& value) const {
    if (word == "null" ? value.node.IsNull() || plain_text(value.node) == word : is_word(value.node, word))
      return std::nullopt;
    return integer.read(value, word);
  }
  [[nodiscard]] std::string write(const value_type& number) const {
    return number ? integer.write(*number) : word;
  }
};

struct Boolean {
  using value_type = bool;
  [[nodiscard]] std::string type() const { return "boolean"; }
  [[nodiscard]] std::string values() const { return "true, false"; }
  [[nodiscard]] bool read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(bool flag) const { return flag ? "true" : "false"; }
};

/// One of several words, each of which represents a value.
template <class T>
class Choice {
 public:
  using value_type = T;
  explicit Choice(std::vector<std::pair<std::string, T>> available) : available_(std::move(available)) {}

  [[nodiscard]] std::string type() const { return "choice"; }
  [[nodiscard]] std::string values() const { return join(words()); }
  [[nodiscard]] T read(const ConfigValue& value) const {
    for (const auto& [name, meant] : available_) {
      if (is_word(value.node, name)) return meant;
    }
    throw_not_allowed(value, words());
  }
  /// Throws ConfigError without a place if no word represents the value. A cast or an archive can produce
  /// such a value.
  [[nodiscard]] std::string write(const T& meant) const {
    const auto found = std::ranges::find(available_, meant, &std::pair<std::string, T>::second);
    if (found == available_.end())
      throw ConfigError("", "contains a value that is not one of: " + join(words()));
    return found->first;
  }

 private:
  [[nodiscard]] std::vector<std::string> words() const {
    std::vector<std::string> names;
    for (const auto& entry : available_) names.push_back(entry.first);
    return names;
  }

  std::vector<std::pair<std::string, T>> available_;
};

/// One of several words, or null if the value is nullopt.
template <class T>
struct OptionalChoice {
  using value_type = std::optional<T>;
  Choice<T> choice;

  [[nodiscard]] std::string type() const { return "choice or null"; }
  [[nodiscard]] std::string values() const { return choice.values() + ", or null"; }
  [[nodiscard]] value_type read(const ConfigValue& value) const {
    return value.node.IsNull() ? std::nullopt : value_type(choice.read(value));
  }
  [[nodiscard]] std::string write(const value_type& meant) const {
    return meant ? choice.write(*meant) : "null";
  }
};

/// A path, or null for an empty path.
struct FilePath {
  using value_type = std::filesystem::path;
  [[nodiscard]] std::string type() const { return "path or null"; }
  [[nodiscard]] std::string values() const { return "a file, or null"; }
  [[nodiscard]] std::filesystem::path read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const std::filesystem::path& path) const;
};

/// The paths of a source: one path, a list of several, or null for an empty list.
struct SourcePaths {
  using value_type = std::vector<std::filesystem::path>;
  [[nodiscard]] std::string type() const { return "path, list or null"; }
  [[nodiscard]] std::string values() const { return "a file, a list of different files, or null"; }
  [[nodiscard]] value_type read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const value_type& paths) const;
};

/// An address with a port.
struct Address {
  using value_type = std::string;
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string values() const { return "ADDRESS:PORT; port 0 is any free one"; }
  [[nodiscard]] std::string read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const std::string& address) const { return quote_yaml(address); }
};

/// The store in which a buffer keeps samples. URLs are parsed by the buffer.
struct StoreName {
  using value_type = std::string;
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string values() const { return "lmdb, memory, or redis://HOST:PORT"; }
  [[nodiscard]] std::string read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const std::string& store) const;
};

/// The name of a buffer in a Redis instance.
struct BufferName {
  using value_type = std::string;
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string values() const { return "1 to 100 letters, digits, '.', '_' and '-'"; }
  [[nodiscard]] std::string read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const std::string& name) const { return quote_yaml(name); }
};

/// A number of bytes, which may have a unit: 8GiB.
struct ByteCount {
  using value_type = std::int64_t;
  std::int64_t min = 1;
  std::int64_t max = 1;

  [[nodiscard]] std::string type() const { return "bytes"; }
  [[nodiscard]] std::string values() const { return write(min) + " to " + write(max); }
  [[nodiscard]] std::int64_t read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(std::int64_t bytes) const;
};

/// A number of seconds, up to a year, or a word that leaves the value unset.
struct OptionalSeconds {
  using value_type = std::optional<double>;
  std::string word;

  [[nodiscard]] std::string type() const { return "seconds or " + word; }
  [[nodiscard]] std::string values() const { return "0 to 31622400, or " + word; }
  [[nodiscard]] value_type read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const value_type& seconds) const;
};

/// The name of a sample field.
struct FieldName {
  using value_type = std::string;
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string values() const { return "the name of a field"; }
  [[nodiscard]] std::string read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const std::string& name) const { return quote_yaml(name); }
};

/// The name of a field, or null for an empty name.
struct OptionalFieldName {
  using value_type = std::string;
  [[nodiscard]] std::string type() const { return "string or null"; }
  [[nodiscard]] std::string values() const { return FieldName{}.values() + ", or null"; }
  [[nodiscard]] std::string read(const ConfigValue& value) const {
    return value.node.IsNull() ? std::string() : FieldName{}.read(value);
  }
  [[nodiscard]] std::string write(const std::string& name) const {
    return name.empty() ? "null" : FieldName{}.write(name);
  }
};

/// A list of distinct field names. The list may be empty.
struct FieldNames {
  using value_type = std::vector<std::string>;
  [[nodiscard]] std::string type() const { return "list"; }
  [[nodiscard]] std::string values() const { return "a list of distinct field names"; }
  [[nodiscard]] value_type read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const value_type& names) const;
};

/// A list of names, or `all` for an empty list.
struct ProfileNames {
  using value_type = std::vector<std::string>;
  [[nodiscard]] std::string type() const { return "list of names or all"; }
  [[nodiscard]] std::string values() const { return "names of profiles, or all"; }
  [[nodiscard]] value_type read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const value_type& names) const;
};

/// The names of the four axes, joined by dashes; the axis that varies fastest is first.
struct AxisOrder {
  using value_type = RankOrder;
  [[nodiscard]] std::string type() const { return "choice"; }
  [[nodiscard]] std::string values() const { return "tp, cp, dp and pp in any order, joined by -"; }
  [[nodiscard]] RankOrder read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const RankOrder& order) const { return order.text(); }
};

/// A number with a limited number of decimals, stored as an integer in units of 1 / `scale`. Values are
/// rounded to a whole number of units. The scale is a power of ten.
struct Decimal {
  using value_type = std::int64_t;
  std::int64_t scale = 1;
  std::int64_t min = 0;  ///< minimum value, in units of 1 / `scale`, like `max`
  std::int64_t max = 0;

  [[nodiscard]] std::string type() const { return "number"; }
  [[nodiscard]] std::string values() const { return write(min) + " to " + write(max); }
  [[nodiscard]] std::int64_t read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(std::int64_t parts) const;
};

/// A list of numbers, or a word for an empty list.
struct DecimalList {
  using value_type = std::vector<std::int64_t>;
  std::string word;
  Decimal number;

  [[nodiscard]] std::string type() const { return "list of numbers or " + word; }
  [[nodiscard]] std::string values() const { return number.values() + " each, or " + word; }
  [[nodiscard]] value_type read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const value_type& numbers) const;
};

/// A configured cost, the settings for measuring it (if it is measured), and the encoder's cost (if there is
/// an encoder).
struct ConfiguredCost {
  CostModel model;
  std::optional<MeasuredCost> measured;
  std::optional<EncoderCost> encoder;
  std::optional<std::string> field =
      std::nullopt;  ///< name of the field with the work of each sample, which replaces `model`
};

/// A map of the communication costs of context parallelism, which are added to the work, or auto for the
/// defaults.
struct CommunicationFormat {
  using value_type = CommunicationSettings;
  [[nodiscard]] std::string type() const { return "choice or map"; }
  [[nodiscard]] std::string values() const;
  [[nodiscard]] CommunicationSettings read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const CommunicationSettings& settings) const;
};

/// The layers of each pipeline stage: one list per stage, an even split, or null if rows are not split by
/// layers.
struct LayersFormat {
  using value_type = std::optional<LayerMap>;
  [[nodiscard]] std::string type() const { return "choice or lists"; }
  [[nodiscard]] std::string values() const;
  [[nodiscard]] std::optional<LayerMap> read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const std::optional<LayerMap>& layers) const;
};

/// The maximum number of rows per micro-batch for each named field, or null for an empty map.
struct RowCapsFormat {
  using value_type = std::map<std::string, std::int64_t, std::less<>>;
  [[nodiscard]] std::string type() const { return "map or null"; }
  [[nodiscard]] std::string values() const { return "{name of a field: 1 ..., ...}, or null"; }
  [[nodiscard]] value_type read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const value_type& caps) const;
};

/// A named cost, a cost computed from the shape of a model, coefficients, the costs of a model and an
/// encoder, the values of a field, or a measured cost.
struct CostFormat {
  using value_type = ConfiguredCost;
  [[nodiscard]] std::string type() const { return "choice or map"; }
  [[nodiscard]] std::string values() const;
  [[nodiscard]] ConfiguredCost read(const ConfigValue& value) const;
  [[nodiscard]] std::string write(const ConfiguredCost& cost) const;
};

}  // namespace evenkeel::config_detail
