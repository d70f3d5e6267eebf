#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

/// `text` in a color for what must not be overlooked, if the reader can be shown colors.
[[nodiscard]] std::string in_alarm(const std::string& text, bool is_colored);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t number);

/// "1 sample", "2,048 samples": the plural is `thing` and an s, unless it is named.
[[nodiscard]] std::string counted(std::int64_t number, std::string_view thing, std::string_view things = {});

/// The same without commas, for errors: a number that one may look for or copy.
[[nodiscard]] std::string number_of(std::int64_t number, std::string_view thing,
                                    std::string_view things = {});

/// 1536 as "1.5 KiB", in KiB, MiB or GiB.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

/// The time in UTC, such as 2026-11-22T02:17:08Z.
[[nodiscard]] std::string time_now();

/// Cells in columns that are as wide as their widest cell.
class TextTable {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string heading;  ///< may have several lines
    Align align = Align::left;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Precondition: one cell per column.
  void add(std::vector<std::string> cells) {
    EVENKEEL_PRECONDITION(cheap, cells.size() == columns_.size(), cells.size(), columns_.size());
    rows_.push_back(std::move(cells));
  }

  /// Heading and rows, every line ended by "\n". Leaves out columns whose heading and cells are all empty.
  [[nodiscard]] std::string to_text() const;

 private:
  using Row = std::vector<std::string>;
  [[nodiscard]] std::vector<Row> heading_rows() const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace evenkeel
