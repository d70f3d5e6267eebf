#include "base/text_layout.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>

namespace evenkeel {
namespace {

constexpr std::size_t gap = 2;  // between columns
constexpr std::size_t least_width = 1;
constexpr std::string_view no_break = "\u00a0";

using Row = std::vector<std::string>;

/// The pieces between single separators; one more than there are separators.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t at = text.find(separator); at != std::string_view::npos; at = text.find(separator)) {
    pieces.push_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  pieces.push_back(text);
  return pieces;
}

std::string without_trailing_spaces(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

std::string with_plain_spaces(std::string text) {
  for (std::size_t at = text.find(no_break); at != std::string::npos; at = text.find(no_break, at))
    text.replace(at, no_break.size(), " ");
  return text;
}

/// One line's worth of text without line ends, broken. Spaces in front of it stay, as an indent.
void wrap_line(std::string_view text, std::size_t width, std::vector<std::string>& lines) {
  const std::size_t first_word = std::min(text.find_first_not_of(' '), text.size());
  std::string line(text.substr(0, first_word));
  bool has_word = false;
  for (const std::string_view word : split(text.substr(first_word), ' ')) {
    if (has_word && text_width(line) + 1 + text_width(word) > width) {
      lines.push_back(with_plain_spaces(without_trailing_spaces(line)));
      line = std::string(text.substr(0, first_word));
      has_word = false;
    }
    if (has_word) line += ' ';
    line += word;
    has_word = true;
  }
  lines.push_back(with_plain_spaces(without_trailing_spaces(line)));
}

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  for (const std::string_view line : split(text, '\n')) {
    for (const std::string_view word : split(line, ' ')) longest = std::max(longest, text_width(word));
  }
  return longest;
}

std::size_t longest_line(std::string_view text) {
  std::size_t longest = 0;
  for (const std::string_view line : split(text, '\n')) longest = std::max(longest, text_width(line));
  return longest;
}

std::size_t total(const std::vector<std::size_t>& widths) {
  const auto columns =
      static_cast<std::size_t>(std::ranges::count_if(widths, [](std::size_t w) { return w > 0; }));
  return std::accumulate(widths.begin(), widths.end(), std::size_t{0}) +
         gap * (std::max<std::size_t>(columns, 1) - 1);
}

/// Takes from the widest columns until all fit, none below its `least`. False where they do not.
bool narrow_to(std::size_t width, const std::vector<std::size_t>& least, std::vector<std::size_t>& widths) {
  while (total(widths) > width) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c) {
      if (widths[c] > least[c] && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
    }
    if (widest == widths.size()) return false;
    --widths[widest];
  }
  return true;
}

std::string padded(const std::string& cell, std::size_t width, TextTable::Align align) {
  const std::string spaces(width - std::min(width, text_width(cell)), ' ');
  return align == TextTable::Align::left ? cell + spaces : spaces + cell;
}

std::string row_in_columns(const Row& row, const std::vector<TextTable::Column>& columns,
                           const std::vector<std::size_t>& widths) {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 0;
  for (std::size_t c = 0; c < row.size(); ++c) {
    cells.push_back(wrapped(row[c], std::max(widths[c], least_width)));
    height = std::max(height, cells.back().size());
  }
  std::string text;
  for (std::size_t at = 0; at < height; ++at) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (widths[c] == 0) continue;
      if (!line.empty()) line += std::string(gap, ' ');
      line += padded(at < cells[c].size() ? cells[c][at] : "", widths[c], columns[c].align);
    }
    text += without_trailing_spaces(line) + "\n";
  }
  return text;
}

/// A heading without its line ends; behind a hyphen the word goes on.
std::string in_one_line(std::string heading) {
  for (std::size_t at = heading.find('\n'); at != std::string::npos; at = heading.find('\n'))
    heading.replace(at, 1, at > 0 && heading[at - 1] == '-' ? "" : " ");
  return heading;
}

/// The first cell as a heading, the others below it with their columns' names.
std::string row_as_list(const Row& row, const std::vector<TextTable::Column>& columns, std::size_t width) {
  constexpr std::size_t indent = 2;
  std::string text = indented(row.front(), 0, width);
  for (std::size_t c = 1; c < row.size(); ++c) {
    if (row[c].empty()) continue;
    const std::string name = columns[c].heading.empty() ? "" : in_one_line(columns[c].heading) + ": ";
    for (const std::string& line : wrapped(name + row[c], std::max(width, indent + least_width) - indent))
      text += std::string(indent, ' ') + line + "\n";
  }
  return text;
}

/// A space and the word for so many.
std::string named(std::int64_t number, std::string_view thing, std::string_view things) {
  std::string text = " ";
  if (number == 1 || things.empty()) text += thing;
  if (number != 1) text += things.empty() ? "s" : things;
  return text;
}

}  // namespace

std::string in_alarm(const std::string& text, const TextStyle& style) {
  return style.colour ? "\033[1;31m" + text + "\033[0m" : text;
}

std::string kept_together(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (c == ' ') {
      kept += no_break;
    } else {
      kept += c;
    }
  }
  return kept;
}

std::size_t text_width(std::string_view text) noexcept {
  std::size_t width = 0;
  bool in_escape = false;
  for (const char c : text) {
    if (c == '\033') in_escape = true;
    const bool begins_character = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    if (!in_escape && begins_character) ++width;
    if (c == 'm') in_escape = false;
  }
  return width;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) wrap_line(line, width, lines);
  return lines;
}

std::string indented(std::string_view text, std::size_t indent, std::size_t width) {
  std::string all;
  for (const std::string& line : wrapped(text, std::max(width, indent + least_width) - indent))
    all += (line.empty() ? "" : std::string(indent, ' ') + line) + "\n";
  return all;
}

std::string labelled(std::string_view label, std::string_view text, std::size_t column, std::size_t width) {
  constexpr std::size_t below = 6;
  const std::size_t room = width > column ? width - column : 0;
  if (3 * room < width)
    return without_trailing_spaces(std::string(label)) + "\n" +
           indented(text, std::min(below, column), width);
  const std::string behind = indented(text, column, width);
  const std::size_t taken = text_width(label);
  if (taken + 1 > column) return std::string(label) + "\n" + behind;
  return std::string(label) + std::string(column - taken, ' ') +
         behind.substr(std::min(column, behind.size() - 1));
}

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::int64_t first_digit = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::int64_t>(text.size()) - 3; at > first_digit; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string counted(std::int64_t number, std::string_view thing, std::string_view things) {
  return grouped(number) + named(number, thing, things);
}

std::string number_of(std::int64_t number, std::string_view thing, std::string_view things) {
  return std::to_string(number) + named(number, thing, things);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr double kib = 1024;
  const auto value = static_cast<double>(bytes);
  std::array<char, 32> text{};
  if (bytes >= std::int64_t{1} << 30) {
    std::snprintf(text.data(), text.size(), "%.2f GiB", value / (kib * kib * kib));
  } else if (bytes >= 1 << 20) {
    std::snprintf(text.data(), text.size(), "%.1f MiB", value / (kib * kib));
  } else {
    std::snprintf(text.data(), text.size(), "%.1f KiB", value / kib);
  }
  return text.data();
}

std::string TextTable::to_text(std::size_t width) const {
  Row headings;
  std::vector<std::size_t> widths;
  std::vector<std::size_t> least;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    headings.push_back(columns_[c].heading);
    widths.push_back(longest_line(headings[c]));
    least.push_back(longest_word(headings[c]));
    for (const Row& row : rows_) {
      widths[c] = std::max(widths[c], longest_line(row[c]));
      least[c] = std::max(least[c], longest_word(row[c]));
    }
  }
  const bool fits = narrow_to(width, least, widths);
  // As a list, a table is still told by the heading of what its rows are about.
  std::string text = fits ? row_in_columns(headings, columns_, widths) : headings.front() + "\n";
  for (const Row& row : rows_)
    text += fits ? row_in_columns(row, columns_, widths) : row_as_list(row, columns_, width);
  return text;
}

}  // namespace evenkeel
