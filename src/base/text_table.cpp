#include "base/text_table.hpp"

#include <algorithm>
#include <cstddef>
#include <sstream>

namespace evenkeel {

std::vector<TextTable::Row> TextTable::heading_rows() const {
  std::vector<Row> rows(1, Row(columns_.size()));
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::istringstream lines(columns_[c].heading);
    std::size_t at = 0;
    for (std::string line; std::getline(lines, line); ++at) {
      if (at == rows.size()) rows.emplace_back(columns_.size());
      rows[at][c] = line;
    }
  }
  return rows;
}

std::string TextTable::to_text() const {
  std::vector<Row> rows = heading_rows();
  rows.insert(rows.end(), rows_.begin(), rows_.end());
  std::vector<std::size_t> widths(columns_.size());
  for (const Row& row : rows)
    for (std::size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      if (widths[c] == 0) continue;
      const std::string spaces(widths[c] - row[c].size(), ' ');
      if (!line.empty()) line += "  ";
      line += columns_[c].align == Align::left ? row[c] + spaces : spaces + row[c];
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace evenkeel
