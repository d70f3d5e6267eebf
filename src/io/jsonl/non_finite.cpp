#include "io/jsonl/non_finite.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace evenkeel {
namespace {

bool stands_for_no_number(std::string_view word) {
  constexpr std::array<std::string_view, 3> names{"nan", "inf", "infinity"};
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::find(names, lower) != names.end();
}

/// Bytes of UTF-8 that begin a character.
std::int64_t characters_in(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

/// The text that starts at `begin` with its quotation marks; up to the end of the line where it has no end.
std::string_view quoted(std::string_view line, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
  return line.substr(begin, std::min(end + 1, line.size()) - begin);
}

std::string_view word_at(std::string_view line, std::size_t begin) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.' || c == '_';
  };
  std::size_t end = begin;
  while (end < line.size() && is_part(line[end])) ++end;
  return line.substr(begin, end - begin);
}

}  // namespace

std::optional<NonFinite> find_non_finite(std::string_view line) {
  std::string_view text;   // the last one of the outermost object
  std::string_view field;  // a text that a colon followed
  int depth = 0;
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ':' && depth == 1) field = text;
    if (c == '"') {
      const std::string_view whole = quoted(line, at);
      if (depth == 1) text = whole.substr(1, whole.size() - std::min<std::size_t>(whole.size(), 2));
      at += whole.size();
      continue;
    }
    const std::string_view word = word_at(line, at);
    if (stands_for_no_number(word))
      return NonFinite{std::string(field), std::string(word), characters_in(line.substr(0, at)) + 1};
    at += std::max<std::size_t>(word.size(), 1);
  }
  return std::nullopt;
}

}  // namespace evenkeel
