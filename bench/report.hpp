#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel::bench {

/// A column of a table: its name in JSON, its heading in text, and the digits after the point of its numbers
/// in text.
struct TableColumn {
  std::string key;
  std::string heading;
  int digits = 0;
};

/// Figures, a row each. Texts and numbers; null where there is none.
class Table {
 public:
  Table(std::string key, std::string title, std::vector<TableColumn> columns)
      : key_(std::move(key)), title_(std::move(title)), columns_(std::move(columns)) {}

  /// Precondition: one cell a column.
  void add(std::vector<nlohmann::json> cells) {
    EVENKEEL_PRECONDITION(cheap, cells.size() == columns_.size(), key_, cells.size(), columns_.size());
    rows_.push_back(std::move(cells));
  }

  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  /// Title and rows as a Markdown table.
  [[nodiscard]] std::string to_markdown() const;
  /// An array of one object a row.
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  std::string key_;
  std::string title_;
  std::vector<TableColumn> columns_;
  std::vector<std::vector<nlohmann::json>> rows_;
};

/// What one benchmark found.
struct Report {
  std::string benchmark;
  nlohmann::json sizes;  ///< an object: what was measured on
  std::vector<Table> tables;
  std::vector<std::string> notes;
};

/// The report with the machine it comes from, as a piece of a Markdown page.
[[nodiscard]] std::string to_markdown(const Report& report);
/// {"benchmark", "machine", "sizes", "notes", and every table under its key}.
[[nodiscard]] nlohmann::json to_json(const Report& report);

}  // namespace evenkeel::bench
