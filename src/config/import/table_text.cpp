#include <array>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "base/text_layout.hpp"
#include "config/import.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t widest_value = 24;

/// Foreign key, value, what it became, note. A key that became several things has a row each.
using Row = std::array<std::string, 4>;

/// Printable, and cut between characters.
std::string shortened(const std::string& value) {
  std::string text = printable(value);
  if (text.size() <= widest_value) return text;
  std::size_t end = widest_value - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

void add_rows(std::vector<Row>& rows, const ImportedKey& key) {
  const std::string nothing = "(nothing to set)";
  rows.push_back({printable(key.foreign), shortened(key.value),
                  key.evenkeel.empty() ? nothing : key.evenkeel.front(), printable(key.note)});
  for (std::size_t i = 1; i < key.evenkeel.size(); ++i) rows.push_back({"", "", key.evenkeel[i], ""});
}

/// The first row is the headings.
std::string text_of(const std::vector<Row>& rows, std::size_t width) {
  std::vector<TextTable::Column> columns;
  for (const std::string& heading : rows.front()) columns.push_back({heading});
  TextTable table(std::move(columns));
  for (std::size_t r = 1; r < rows.size(); ++r) table.add({rows[r].begin(), rows[r].end()});
  return table.to_text(width);
}

void add_missing(std::vector<Row>& rows, const MissingSetting& missing) {
  rows.push_back({printable(missing.foreign), shortened(missing.value), missing.evenkeel.front(),
                  printable(missing.why)});
  for (std::size_t i = 1; i < missing.evenkeel.size(); ++i) rows.push_back({"", "", missing.evenkeel[i], ""});
}

}  // namespace

std::string import_table(const ImportedConfig& imported, std::size_t width) {
  std::string text;
  const auto add = [&](const std::vector<Row>& rows) {
    text += (text.empty() ? "" : "\n") + text_of(rows, width);
  };
  for (const std::string& file : imported.files) text += "read " + printable(file) + "\n";
  for (const std::string& file : imported.lost_files) text += "not found: " + printable(file) + "\n";
  if (!imported.keys.empty()) {
    std::vector<Row> rows{{std::string(to_string(imported.system)), "value", "became", "note"}};
    for (const ImportedKey& key : imported.keys) add_rows(rows, key);
    add(rows);
  }
  if (!imported.unused.empty()) {
    std::vector<Row> rows{{"not used", "value", "", "why"}};
    for (const ImportedKey& key : imported.unused) {
      rows.push_back({printable(key.foreign), shortened(key.value), "", printable(key.note)});
    }
    add(rows);
  }
  text += "\n" + indented(
                     "to be set: source.kind, and source.path for a file; no configuration of theirs says "
                     "where samples are",
                     0, width);
  if (imported.missing.empty()) return text;
  std::vector<Row> rows{{"not found", "value", "Evenkeel would use", "why"}};
  for (const MissingSetting& missing : imported.missing) add_missing(rows, missing);
  add(rows);
  return text;
}

}  // namespace evenkeel
