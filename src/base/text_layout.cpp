#include "base/text_layout.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <sstream>

namespace evenkeel {
namespace {

/// Returns a space followed by the singular or plural that fits `number`.
std::string format_noun_after_number(std::int64_t number, std::string_view thing, std::string_view things) {
  std::string text = " ";
  if (number == 1 || things.empty()) text += thing;
  if (number != 1) text += things.empty() ? "s" : things;
  return text;
}

}  // namespace

std::string format_bold_red(const std::string& text, bool is_colored) {
  return is_colored ? "\033[1;31m" + text + "\033[0m" : text;
}

std::string format_with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::int64_t first_digit = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::int64_t>(text.size()) - 3; at > first_digit; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string format_count(std::int64_t number, std::string_view thing, std::string_view things) {
  return format_with_commas(number) + format_noun_after_number(number, thing, things);
}

std::string format_plain_count(std::int64_t number, std::string_view thing, std::string_view things) {
  return std::to_string(number) + format_noun_after_number(number, thing, things);
}

std::string format_there_are(std::int64_t number, std::string_view thing, std::string_view things) {
  return (number == 1 ? "there is " : "there are ") + format_plain_count(number, thing, things);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return "[" + join(shape, [](std::int64_t size) { return std::to_string(size); }) + "]";
}

std::string bytes_text(std::int64_t bytes) {
  constexpr double kib = 1024;
  const auto value = static_cast<double>(bytes);
  std::array<char, 32> text{};
  if (bytes >= std::int64_t{1} << 30) {
    std::snprintf(text.data(), text.size(), "%.2f GiB", value / (kib * kib * kib));
  } else if (bytes >= 1 << 20) {
    std::snprintf(text.data(), text.size(), "%.1f MiB", value / (kib * kib));
  } else {
    std::snprintf(text.data(), text.size(), "%.1f KiB", value / kib);
  }
  return text.data();
}

std::string current_time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%FT%TZ", &utc);
  return {text.data(), length};
}

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
