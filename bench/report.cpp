#include "bench/report.hpp"

#include <fmt/format.h>

#include "bench/machine.hpp"

namespace evenkeel::bench {
namespace {

std::string with_separators(std::string digits) {
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (digits.front() == '-' ? 1 : 0);
       at -= 3) {
    digits.insert(digits.begin() + at, ' ');
  }
  return digits;
}

std::string text_of(const nlohmann::json& cell, int digits) {
  if (cell.is_null()) return "-";
  if (cell.is_string()) return cell.get<std::string>();
  if (cell.is_number_float()) return fmt::format("{:.{}f}", cell.get<double>(), digits);
  return with_separators(cell.dump());
}

}  // namespace

std::string Table::to_markdown() const {
  std::string text = "**" + title_ + "**\n\n|";
  for (const TableColumn& column : columns_) text += " " + column.heading + " |";
  text += "\n|";
  for (std::size_t c = 0; c < columns_.size(); ++c) text += c == 0 ? "---|" : "---:|";
  text += "\n";
  for (const auto& row : rows_) {
    text += "|";
    for (std::size_t c = 0; c < row.size(); ++c) text += " " + text_of(row[c], columns_[c].digits) + " |";
    text += "\n";
  }
  return text;
}

nlohmann::json Table::to_json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& row : rows_) {
    nlohmann::json object;
    for (std::size_t c = 0; c < row.size(); ++c) object[columns_[c].key] = row[c];
    rows.push_back(std::move(object));
  }
  return rows;
}

std::string to_markdown(const Report& report) {
  std::string text = fmt::format("{}\n", description(this_machine()));
  for (const auto& [name, value] : report.sizes.items()) {
    text += fmt::format("- {}: {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  for (const Table& table : report.tables) text += "\n" + table.to_markdown();
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += "- " + note + "\n";
  return text;
}

nlohmann::json to_json(const Report& report) {
  nlohmann::json json{{"benchmark", report.benchmark},
                      {"machine", to_json(this_machine())},
                      {"sizes", report.sizes},
                      {"notes", report.notes}};
  for (const Table& table : report.tables) json[table.key()] = table.to_json();
  return json;
}

}  // namespace evenkeel::bench
