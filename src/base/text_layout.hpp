#pragma once

#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

/// Returns `text`, in bold red if `is_colored`. Used for messages that must not be overlooked.
[[nodiscard]] std::string format_bold_red(const std::string& text, bool is_colored);

/// Formats 1234567 as "1,234,567".
[[nodiscard]] std::string format_with_commas(std::int64_t number);

/// Formats "1 sample", "2,048 samples". The plural is `things`; by default, `thing` with an s.
[[nodiscard]] std::string format_count(std::int64_t number, std::string_view thing,
                                       std::string_view things = {});

/// Same as format_count(), but without commas. Used in error messages, since users may search for these
/// numbers or copy them.
[[nodiscard]] std::string format_plain_count(std::int64_t number, std::string_view thing,
                                             std::string_view things = {});

/// Formats "there is 1 sample", "there are 2048 samples".
[[nodiscard]] std::string format_there_are(std::int64_t number, std::string_view thing,
                                           std::string_view things = {});

/// Returns the elements, converted by `text_of`, as "a, b, c".
template <std::ranges::input_range Range, typename TextOf = std::identity>
[[nodiscard]] std::string join(const Range& range, TextOf text_of = {}) {
  std::string joined;
  for (const auto& element : range) {
    if (!joined.empty()) joined += ", ";
    joined += std::invoke(text_of, element);
  }
  return joined;
}

/// Formats a shape as "[2, 3]".
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// Formats a number of bytes in KiB, MiB or GiB. Example: 1536 gives "1.5 KiB".
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

/// Returns the current time in UTC, such as 2026-11-22T02:17:08Z.
[[nodiscard]] std::string current_time_text();

/// A table of text. Each column is as wide as its widest cell.
class TextTable {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string heading;  ///< may have several lines
    Align align = Align::left;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Appends a row. Precondition: there is one cell per column.
  void add(std::vector<std::string> cells) {
    EVENKEEL_PRECONDITION(cheap, cells.size() == columns_.size(), cells.size(), columns_.size());
    rows_.push_back(std::move(cells));
  }

  /// Returns the heading and the rows. Each line ends with a line break. Omits columns in which the heading
  /// and all cells are empty.
  [[nodiscard]] std::string to_text() const;

 private:
  using Row = std::vector<std::string>;
  [[nodiscard]] std::vector<Row> heading_rows() const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace evenkeel
