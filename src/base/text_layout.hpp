#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

/// How a text for people is to come out: the characters of a line, and whether ANSI colours are understood.
struct TextStyle {
  std::size_t width = 80;
  bool colour = false;
};

/// The text with spaces at which wrapped() breaks no line (U+00A0); they come out as plain spaces.
[[nodiscard]] std::string kept_together(std::string_view text);

/// `text` in a colour for what must not be overlooked, where there are colours.
[[nodiscard]] std::string in_alarm(const std::string& text, const TextStyle& style);

/// The characters of a UTF-8 text: its code points, without escape sequences that colour it.
[[nodiscard]] std::size_t text_width(std::string_view text) noexcept;

/// The text in lines of at most `width` characters, broken at spaces; line ends in the text stay. A word that
/// is longer has a line of its own and is not broken: what one may want to copy stays whole. At least one
/// line.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// `text` wrapped behind `indent` spaces, every line ended by "\n".
[[nodiscard]] std::string indented(std::string_view text, std::size_t indent, std::size_t width);

/// `label` and `text` side by side, the text from column `column` on in as many lines as it needs; below the
/// label where it would be left with less than a third of `width`. Labels that reach the column have a line
/// of their own. Every line is ended by "\n".
[[nodiscard]] std::string labelled(std::string_view label, std::string_view text, std::size_t column,
                                   std::size_t width);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t number);

/// "1 sample", "2,048 samples": the plural is `thing` and an s, unless it is named.
[[nodiscard]] std::string counted(std::int64_t number, std::string_view thing, std::string_view things = {});

/// The same without commas, for errors: a number that one may look for or copy.
[[nodiscard]] std::string number_of(std::int64_t number, std::string_view thing,
                                    std::string_view things = {});

/// 1536 as "1.5 KiB", in KiB, MiB or GiB.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

/// Cells in columns that are as wide as they need to be; where `width` does not hold them the widest are
/// wrapped, but no word is broken: where not even words have room, the first column's heading stands above
/// all, and each row becomes lines of "heading: cell".
class TextTable {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string heading;
    Align align = Align::left;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Precondition: one cell a column.
  void add(std::vector<std::string> cells) {
    EVENKEEL_PRECONDITION(cheap, cells.size() == columns_.size(), cells.size(), columns_.size());
    rows_.push_back(std::move(cells));
  }

  /// Heading and rows, every line ended by "\n". Columns in which all cells and the heading are empty are
  /// left out.
  [[nodiscard]] std::string to_text(std::size_t width) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace evenkeel
