#include <algorithm>
#include <array>

#include "evenkeel/base/printable.hpp"
#include "evenkeel/service/config_import.hpp"

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

void add_missing(std::vector<Row>& rows, const MissingSetting& missing) {
  rows.push_back({printable(missing.foreign), shortened(missing.value), missing.evenkeel.front(),
                  printable(missing.why)});
  for (std::size_t i = 1; i < missing.evenkeel.size(); ++i) rows.push_back({"", "", missing.evenkeel[i], ""});
}

}  // namespace

std::string import_table(const ImportedConfig& imported) {
  std::string text;
  const auto add = [&](const std::vector<Row>& rows) { text += (text.empty() ? "" : "\n") + text_of(rows); };
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
  text +=
      "\nto be set: source.kind, and source.path for a file; no configuration of theirs says where samples "
      "are\n";
  if (imported.missing.empty()) return text;
  std::vector<Row> rows{{"not found", "value", "Evenkeel would use", "why"}};
  for (const MissingSetting& missing : imported.missing) add_missing(rows, missing);
  add(rows);
  return text;
}

}  // namespace evenkeel
