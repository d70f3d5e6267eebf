#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel::bench {

/// A column of a table: its name in JSON, its heading in text, and the number of decimals of its numbers in
/// text.
struct TableColumn {
  std::string key;
  std::string heading;
  int digits = 0;
};

/// A table of a report. A cell is a text, a number, or null if nothing was measured.
class Table {
 public:
  Table(std::string key, std::string title, std::vector<TableColumn> columns)
      : key_(std::move(key)), title_(std::move(title)), columns_(std::move(columns)) {}

  /// Precondition: one cell per column.
  void add(std::vector<nlohmann::json> cells) {
    EVENKEEL_PRECONDITION(cheap, cells.size() == columns_.size(), key_, cells.size(), columns_.size());
    rows_.push_back(std::move(cells));
  }

  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  /// Returns the title and the rows as a Markdown table.
  [[nodiscard]] std::string to_markdown() const;
  /// Returns an array with one object per row.
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  std::string key_;
  std::string title_;
  std::vector<TableColumn> columns_;
  std::vector<std::vector<nlohmann::json>> rows_;
};

/// The results of one benchmark.
struct Report {
  std::string benchmark;
  nlohmann::json sizes;  ///< an object with the sizes used
  std::vector<Table> tables;
  std::vector<std::string> notes;
};

/// Returns the report, with the machine on which it was measured, as part of a Markdown page.
[[nodiscard]] std::string to_markdown(const Report& report);
/// Returns {"benchmark", "machine", "sizes", "notes", and every table under its key}.
[[nodiscard]] nlohmann::json to_json(const Report& report);

}  // namespace evenkeel::bench
