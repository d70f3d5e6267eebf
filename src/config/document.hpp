#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <utility>

namespace evenkeel::config_detail {

/// Shortens text for use in a message: if it has more than 60 bytes, truncates it without splitting a
/// character, and appends "...".
[[nodiscard]] std::string shorten(std::string_view text);

/// The place of a key, for messages: a line in a file, an argument on the command line as the user wrote it,
/// or settings that do not come from a file and have an empty name.
class Place {
 public:
  static Place in_file(std::string_view name) { return Place(std::string(name), true); }
  static Place on_command_line(const std::string& text) { return Place("--set " + shorten(text), false); }

  [[nodiscard]] std::string describe_key_position(const YAML::Mark& mark, const std::string& path) const {
    if (!is_file_) return name_;
    return name_.empty() ? path : describe_line(mark) + ": " + path;
  }
  [[nodiscard]] std::string describe_position(const YAML::Mark& mark) const {
    return is_file_ && !name_.empty() && !mark.is_null()
               ? describe_line(mark) + ":" + std::to_string(mark.column + 1)
               : name_;
  }
  /// Returns the place of an error that does not concern a single line.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  Place(std::string name, bool is_file) : name_(std::move(name)), is_file_(is_file) {}
  [[nodiscard]] std::string describe_line(const YAML::Mark& mark) const {
    return name_ + ":" + std::to_string(mark.line + 1);
  }

  std::string name_;
  bool is_file_;
};

/// Returns the document in `text`, with merge keys (`<<`) applied, or a null node if the text is empty.
/// Throws ConfigError naming the place of malformed YAML, bytes that are not UTF-8, control characters, a
/// second document, a merge key whose value is not a map, or more than 500 levels of nesting. An alias that
/// contains itself exceeds this limit.
[[nodiscard]] YAML::Node parse_document(const std::string& text, const Place& place);

}  // namespace evenkeel::config_detail
