#include <algorithm>
#include <array>

#include "evenkeel/service/config_import.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t widest_value = 24;

/// Foreign key, value, what it became, note. A key that became several things has a row each.
using Row = std::array<std::string, 4>;

std::string shortened(const std::string& value) {
  return value.size() <= widest_value ? value : value.substr(0, widest_value - 3) + "...";
}

void add_rows(std::vector<Row>& rows, const ImportedKey& key) {
  const std::string nothing = "(nothing to set)";
  rows.push_back(
      {key.foreign, shortened(key.value), key.evenkeel.empty() ? nothing : key.evenkeel.front(), key.note});
  for (std::size_t i = 1; i < key.evenkeel.size(); ++i) rows.push_back({"", "", key.evenkeel[i], ""});
}

std::string text_of(const std::vector<Row>& rows) {
  std::array<std::size_t, 4> widths{};
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (widths[c] > 0) line += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string import_table(const ImportedConfig& imported) {
  std::string text;
  if (!imported.keys.empty()) {
    std::vector<Row> rows{{std::string(to_string(imported.system)), "value", "became", "note"}};
    for (const ImportedKey& key : imported.keys) add_rows(rows, key);
    text += text_of(rows);
  }
  if (!imported.unused.empty()) {
    std::vector<Row> rows{{"not used", "value", "", "why"}};
    for (const ImportedKey& key : imported.unused) {
      rows.push_back({key.foreign, shortened(key.value), "", key.note});
    }
    text += (text.empty() ? "" : "\n") + text_of(rows);
  }
  return text;
}

}  // namespace evenkeel
