#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

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
