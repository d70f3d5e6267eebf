#include "io/jsonl/json_fault.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/utf8.hpp"

namespace evenkeel {
namespace {

constexpr std::string_view utf8_mark = "\xef\xbb\xbf";

/// What is wrong with a part of a line, and where that part begins.
struct Finding {
  std::size_t at = 0;
  std::string what;
  std::string why;
  std::string hint;
};

bool stands_for_no_number(std::string_view word) {
  constexpr std::array<std::string_view, 3> names{"nan", "inf", "infinity"};
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::find(names, lower) != names.end();
}

std::string_view word_at(std::string_view line, std::size_t begin) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.' || c == '_';
  };
  std::size_t end = begin;
  while (end < line.size() && is_part(line[end])) ++end;
  return line.substr(begin, end - begin);
}

template <typename Number>
std::errc parse(std::string_view word) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{}) return error;
  return end == word.data() + word.size() ? std::errc{} : std::errc::invalid_argument;
}

/// Whether the word is a number that neither a 64-bit integer nor a double can hold. A double that is too
/// close to 0 is no such number.
bool is_out_of_range(std::string_view word) {
  const bool is_integer = word.find_first_of(".eE") == std::string_view::npos;
  if (is_integer) {
    return parse<std::int64_t>(word) == std::errc::result_out_of_range &&
           parse<std::uint64_t>(word) != std::errc{};
  }
  return parse<double>(word) == std::errc::result_out_of_range && word.find("e-") == std::string_view::npos &&
         word.find("E-") == std::string_view::npos;
}

std::optional<Finding> fault_of_word(std::string_view word, std::size_t at) {
  const std::string quoted = word.size() > 40 ? std::string(word.substr(0, 40)) + "..." : std::string(word);
  if (stands_for_no_number(word)) {
    return Finding{at, "holds " + quoted, "JSON does not have NaN and Infinity",
                   "Write a finite number, or leave the sample out"};
  }
  if (is_out_of_range(word)) {
    return Finding{at, "holds " + quoted, "a number must fit into 64 bits",
                   "Write a number within range, or a text"};
  }
  return std::nullopt;
}

/// Returns the value of the four hexadecimal digits at `at`, or nullopt if there are fewer.
std::optional<unsigned> code_unit(std::string_view text, std::size_t at) {
  if (at + 4 > text.size()) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 4, value, 16);
  if (error != std::errc{} || end != text.data() + at + 4) return std::nullopt;
  return value;
}

bool is_high_surrogate(unsigned unit) {
  return 0xd800 <= unit && unit < 0xdc00;
}
bool is_low_surrogate(unsigned unit) {
  return 0xdc00 <= unit && unit < 0xe000;
}

/// What is wrong with an escape sequence, whose backslash is at `at`. Moves `at` behind it.
std::optional<Finding> fault_of_escape(std::string_view line, std::size_t& at) {
  const std::size_t begin = at;
  const char letter = begin + 1 < line.size() ? line[begin + 1] : '\0';
  at += 2;
  if (letter != 'u') {
    if (std::string_view(R"("\/bfnrt)").find(letter) != std::string_view::npos) return std::nullopt;
    return Finding{begin, "has the escape \\" + std::string(1, letter), "JSON does not have that one",
                   R"(Write a backslash as \\)"};
  }
  const std::optional<unsigned> unit = code_unit(line, at);
  if (!unit) {
    return Finding{begin, R"(has \u without four hexadecimal digits)", "JSON needs them",
                   R"(Write a backslash as \\)"};
  }
  at += 4;
  if (!is_high_surrogate(*unit) && !is_low_surrogate(*unit)) return std::nullopt;
  const bool goes_on = is_high_surrogate(*unit) && line.substr(at).starts_with("\\u");
  const std::optional<unsigned> next = goes_on ? code_unit(line, at + 2) : std::nullopt;
  if (next && is_low_surrogate(*next)) {
    at += 6;
    return std::nullopt;
  }
  return Finding{begin, "has half of a surrogate pair (" + std::string(line.substr(begin, 6)) + ")",
                 "a character above U+FFFF takes two of these escapes",
                 R"(Write both halves, or \ufffd in their place)"};
}

/// What is wrong with the text whose first quotation mark is at `at`. Moves `at` behind it, or to the end of
/// the line if it has no end.
std::optional<Finding> fault_of_text(std::string_view line, std::size_t& at) {
  ++at;
  while (at < line.size() && line[at] != '"') {
    if (line[at] == '\\') {
      if (auto fault = fault_of_escape(line, at)) return fault;
      continue;
    }
    if (static_cast<unsigned char>(line[at]) < ' ') {
      return Finding{
          at, "has a control character in a text", "JSON needs an escape for it, such as \\n or \\u0000", {}};
    }
    const std::size_t bytes = utf8_sequence(line.substr(at));
    if (bytes == 0) return Finding{at, "has bytes that are not UTF-8", "JSON Lines are UTF-8", {}};
    at += bytes;
  }
  at = std::min(at + 1, line.size());
  return std::nullopt;
}

}  // namespace

std::int64_t columns_in(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::optional<JsonFault> find_json_fault(std::string_view line) {
  std::string_view text;   // the last one of the outermost object
  std::string_view field;  // a text that a colon followed
  int depth = 0;
  const auto found = [&](Finding finding) {
    return JsonFault{std::string(field), std::move(finding.what), columns_in(line.substr(0, finding.at)) + 1,
                     std::move(finding.why), std::move(finding.hint)};
  };
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ':' && depth == 1) field = text;
    if (c == '"') {
      const std::size_t begin = at;
      if (auto fault = fault_of_text(line, at)) return found(*std::move(fault));
      if (depth == 1) text = line.substr(begin + 1, at - std::min(at, begin + 2));
      continue;
    }
    if (line.substr(at).starts_with(utf8_mark)) {
      return found({at, "holds a byte order mark", "only the start of a file may have one",
                    "Remove it: files were joined, or a text has it outside of quotation marks"});
    }
    const std::string_view word = word_at(line, at);
    if (auto fault = fault_of_word(word, at)) return found(*std::move(fault));
    at += std::max<std::size_t>(word.size(), 1);
  }
  return std::nullopt;
}

}  // namespace evenkeel
