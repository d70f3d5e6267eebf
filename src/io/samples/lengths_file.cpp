#include "io/samples/lengths_file.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/text/parse_number.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/lines.hpp"
#include "io/jsonl/json_lines.hpp"
#include "io/jsonl/rollout_line.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_length = std::int64_t{1} << 40;
constexpr std::string_view prompt_column = "prompt_length";
constexpr std::string_view response_column = "response_length";
constexpr std::string_view length_column = "length";
constexpr std::string_view needed_columns = "prompt_length and response_length, or length";

std::string quote(std::string_view text) {
  return "'" + std::string(text) + "'";
}

std::string invalid_length_message(std::string_view name, const std::string& value) {
  return std::string(name) + " is " + value + "; a length must be an integer from 0 to " +
         std::to_string(max_length);
}

/// Returns whether the text is a decimal number and therefore cannot be the name of a column.
bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Splits a line of CSV into values without surrounding white space. A value may be enclosed in quotation
/// marks. Inside them, commas are text, and two quotation marks represent one.
class CsvLine {
 public:
  CsvLine(std::string_view line, const std::string& where) : rest_(line), where_(where) {}

  [[nodiscard]] std::vector<std::string> values() {
    std::vector<std::string> values{next()};
    while (!rest_.empty()) {
      rest_.remove_prefix(1);  // removes the comma
      values.push_back(next());
    }
    return values;
  }

 private:
  /// Returns the next value. Leaves the comma after it, if any.
  std::string next() {
    const std::size_t begin = rest_.find_first_not_of(" \t");
    if (begin != std::string_view::npos && rest_[begin] == '"') return next_quoted(begin + 1);
    const std::size_t comma = rest_.find(',');
    std::string value(trim(rest_.substr(0, comma)));
    rest_ = comma == std::string_view::npos ? std::string_view{} : rest_.substr(comma);
    return value;
  }

  std::string next_quoted(std::size_t i) {
    std::string value;
    for (;; ++i) {
      if (i >= rest_.size()) {
        throw InputError(
            where_, "ends inside a quoted value; a value must end on the line it starts on",
            "Close the quotation marks, take the line break out of the value, or leave the column out");
      }
      if (rest_[i] == '"' && !rest_.substr(i + 1).starts_with('"')) break;
      if (rest_[i] == '"') ++i;
      value += rest_[i];
    }
    rest_.remove_prefix(i + 1);
    const std::size_t comma = rest_.find(',');
    if (const std::string_view behind = trim(rest_.substr(0, comma)); !behind.empty()) {
      throw InputError(where_, "has " + quote(behind) + " after the quoted value " + quote(value),
                       "Quote whole values, and write a quotation mark inside as two");
    }
    rest_ = comma == std::string_view::npos ? std::string_view{} : rest_.substr(comma);
    return std::string(trim(value));
  }

  std::string_view rest_;
  const std::string& where_;
};

/// Throws InputError unless `length` is the sum of the row's prompt and response lengths.
void require_sum(std::int64_t length, const FileLengths& row, const std::string& where) {
  if (length == row.prompt + row.response) return;
  throw InputError(where,
                   "length is " + std::to_string(length) + ", but prompt_length and response_length are " +
                       std::to_string(row.prompt) + " and " + std::to_string(row.response),
                   "Make length their sum, or leave it out");
}

/// Returns the error message for a table or a line that has only one of prompt_length and response_length.
std::string unpaired_length_message(bool has_prompt) {
  return "has " + quote(has_prompt ? prompt_column : response_column) + " but not " +
         quote(has_prompt ? response_column : prompt_column);
}

/// Returns the hint for unpaired_length_message(). `names` is the hint if there is no `length` either.
std::string unpaired_length_hint(bool has_prompt, bool has_total, const std::string& names) {
  return has_total ? "Add it, or remove " + quote(has_prompt ? prompt_column : response_column) : names;
}

/// Positions of the relevant columns in a row.
class CsvColumns {
 public:
  CsvColumns(const std::vector<std::string>& header, const std::string& where)
      : count_(header.size()),
        prompt_(find(header, prompt_column)),
        response_(find(header, response_column)),
        total_(find(header, length_column)),
        uid_(find(header, uid_key)) {
    require_unique(header, where);
    if (prompt_.has_value() == response_.has_value() && (prompt_ || total_)) return;
    const std::string hint = "Name the columns " + std::string(needed_columns);
    if (prompt_ || response_) {
      throw InputError(where, unpaired_length_message(prompt_.has_value()),
                       unpaired_length_hint(prompt_.has_value(), total_.has_value(), hint));
    }
    const std::string names = join(header);
    const bool one_name = header.size() == 1 && names.find_first_of(";\t\r|") != std::string::npos;
    throw InputError(where, "does not have the required columns; it has " + quote(names),
                     one_name ? "Separate values by commas and rows by line feeds" : hint);
  }

  [[nodiscard]] FileLengths parse_row(const std::vector<std::string>& values, const LineRef& line,
                                      const std::string& where) const {
    if (values.size() != count_) {
      throw InputError(where,
                       "has " + format_plain_count(std::ssize(values), "value") + "; the first line has " +
                           format_plain_count(static_cast<std::int64_t>(count_), "value"),
                       "Give each line as many values as the first, and quote values that contain commas");
    }
    FileLengths row;
    if (prompt_) {
      row.prompt = parse_csv_length(values[*prompt_], prompt_column, where);
      row.response = parse_csv_length(values[*response_], response_column, where);
      if (total_) require_sum(parse_csv_length(values[*total_], length_column, where), row, where);
    } else {
      row.response = parse_csv_length(values[*total_], length_column, where);
    }
    row.group = group_of(uid(values), line.number);
    return row;
  }

  [[nodiscard]] static std::optional<std::size_t> find(const std::vector<std::string>& header,
                                                       std::string_view name) {
    const auto found = std::ranges::find(header, name);
    if (found == header.end()) return std::nullopt;
    return static_cast<std::size_t>(found - header.begin());
  }

  [[nodiscard]] Uid uid(const std::vector<std::string>& values) const {
    if (!uid_ || values[*uid_].empty()) return std::monostate{};
    return values[*uid_];
  }

 private:
  static void require_unique(std::vector<std::string> header, const std::string& where) {
    std::erase(header, "");  // ignore the empty columns that some spreadsheets add
    std::ranges::sort(header);
    const auto twice = std::ranges::adjacent_find(header);
    if (twice != header.end())
      throw InputError(where, "has the column " + quote(*twice) + " twice", "Remove or rename one of them");
  }

  static std::int64_t parse_csv_length(std::string_view text, std::string_view name,
                                       const std::string& where) {
    const std::optional<std::int64_t> value = parse_as<std::int64_t>(text);
    if (!value || *value < 0 || *value > max_length) {
      throw InputError(where, invalid_length_message(name, quote(text)));
    }
    return *value;
  }

  std::size_t count_;
  std::optional<std::size_t> prompt_;
  std::optional<std::size_t> response_;
  std::optional<std::size_t> total_;
  std::optional<std::size_t> uid_;
};

/// Content read from a table: lengths and, if requested, uids or the integers of one column.
struct Table {
  std::vector<FileLengths> rows;
  std::vector<Uid>* uids = nullptr;
  std::string_view name = {};  ///< name of the column or key from which integers are read
  std::vector<std::int64_t>* integers = nullptr;
};

[[noreturn]] void throw_not_an_integer(std::string_view name, const std::string& value,
                                       const std::string& where) {
  throw InputError(where, std::string(name) + " is " + value + "; it must be an integer from 0 to 2^62");
}

constexpr std::int64_t largest_integer = std::int64_t{1} << 62;

std::int64_t parse_csv_integer(std::string_view text, std::string_view name, const std::string& where) {
  const std::optional<std::int64_t> value = parse_as<std::int64_t>(text);
  if (!value || *value < 0 || *value > largest_integer) throw_not_an_integer(name, quote(text), where);
  return *value;
}

/// Reads a CSV table. The table may also be a list of lengths without a header, one per line.
void read_csv(const InputFile& file, std::span<const LineRef> lines, Table& table) {
  if (lines.empty())
    throw InputError(file.path(), "is empty", "Name the columns " + std::string(needed_columns));
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text, 0);
  const auto where = [&](const LineRef& line) { return file.path() + ":" + std::to_string(line.number + 1); };
  const auto values_of = [&](const LineRef& line, const std::string& place) {
    return CsvLine({text.data() + line.offset, static_cast<std::size_t>(line.bytes)}, place).values();
  };

  const std::string first = where(lines.front());
  std::vector<std::string> header = values_of(lines.front(), first);
  const bool is_list = header.size() == 1 && is_number(header.front());
  if (is_list) header.front() = length_column;
  const CsvColumns columns(header, first);
  const auto integers = table.integers == nullptr ? std::nullopt : CsvColumns::find(header, table.name);
  table.rows.reserve(lines.size());
  for (const LineRef& line : lines.subspan(is_list ? 0 : 1)) {
    const std::string place = where(line);
    const std::vector<std::string> values = values_of(line, place);
    table.rows.push_back(columns.parse_row(values, line, place));
    if (table.uids != nullptr) table.uids->push_back(columns.uid(values));
    if (integers) table.integers->push_back(parse_csv_integer(values[*integers], table.name, place));
  }
}

std::int64_t parse_length(const JsonLine& line, std::string_view key, const simdjson::dom::element& value) {
  std::int64_t length = 0;
  if (value.get(length) || length < 0 || length > max_length)
    line.fail(invalid_length_message(key, text_of(value)));
  return length;
}

FileLengths parse_json_row(const JsonLine& line) {
  using simdjson::dom::element;
  const auto find_value = [&](std::string_view key, element& value) {
    return !line.object.at_key(key).get(value);
  };
  element first;
  element second;
  element total;
  if (find_value(prompt_key, first) || find_value(response_key, first)) {
    RolloutLine rollout;
    rollout.assign(line);
    return {rollout.prompt_tokens, rollout.response_tokens, rollout.group};
  }
  require_unique_keys(line);
  const bool has_prompt = find_value(prompt_column, first);
  const bool has_response = find_value(response_column, second);
  const bool has_total = find_value(length_column, total);
  if (has_prompt && has_response) {
    const FileLengths row{parse_length(line, prompt_column, first),
                          parse_length(line, response_column, second), group_of(line)};
    if (has_total) require_sum(parse_length(line, length_column, total), row, line.where());
    return row;
  }
  if (has_total && !has_prompt && !has_response)
    return {0, parse_length(line, length_column, total), group_of(line)};
  const std::string hint = "Give prompt_ids and response_ids, or " + std::string(needed_columns);
  if (!has_prompt && !has_response) line.fail("has no length", hint);
  line.fail(unpaired_length_message(has_prompt), unpaired_length_hint(has_prompt, has_total, hint));
}

/// Adds the integer under the key table.name. Throws InputError if the line has one and earlier lines do not,
/// or vice versa.
void add_json_integer(const JsonLine& line, Table& table) {
  simdjson::dom::element element;
  const bool has_it = !line.object.at_key(table.name).get(element);
  const std::size_t lines_before = table.rows.size() - 1;
  if (has_it != (table.integers->size() == lines_before) && lines_before > 0)
    line.fail(std::string(has_it ? "has '" : "has no '") + std::string(table.name) +
                  (has_it ? "', but earlier lines do not" : "', but earlier lines do"),
              "Give it to all lines, or to none");
  if (!has_it) return;
  std::int64_t value = 0;
  if (element.get(value) || value < 0 || value > largest_integer)
    throw_not_an_integer(table.name, text_of(element), line.where());
  table.integers->push_back(value);
}

void read_jsonl(const InputFile& file, std::span<const LineRef> lines, Table& table) {
  table.rows.reserve(lines.size());
  for_each_json_line(file, lines, [&](const JsonLine& line) {
    table.rows.push_back(parse_json_row(line));
    if (table.uids != nullptr) table.uids->push_back(uid_of(line));
    if (table.integers != nullptr) add_json_integer(line, table);
  });
}

void require_valid_total(std::span<const FileLengths> rows, const std::string& path) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::int64_t sum = 0;
  for (const FileLengths& row : rows) {
    sum += row.prompt + row.response;
    if (sum > most)
      throw InputError(path, "has lengths that add up to more than 2^62 tokens", "Check the lengths");
  }
}

void read_table(const InputFile& file, Table& table) {
  const std::string ending = std::filesystem::path(file.path()).extension().string();
  if (ending != ".csv" && ending != ".jsonl") {
    throw InputError(file.path(),
                     (ending.empty() ? "has no file name extension" : "ends in " + quote(ending)) +
                         "; a length table is a .csv or a .jsonl file",
                     "Rename the file, or convert it");
  }
  const std::vector<LineRef> lines = scan_lines(file).lines;
  ending == ".csv" ? read_csv(file, lines, table) : read_jsonl(file, lines, table);
  require_valid_total(table.rows, file.path());
}

}  // namespace

std::vector<FileLengths> read_length_table(const InputFile& file) {
  Table table;
  read_table(file, table);
  return std::move(table.rows);
}

std::vector<Uid> read_uids_of_table(const InputFile& file) {
  std::vector<Uid> uids;
  Table table{.rows = {}, .uids = &uids};
  read_table(file, table);
  return uids;
}

std::vector<std::int64_t> read_integers_of_table(const InputFile& file, std::string_view name) {
  std::vector<std::int64_t> integers;
  Table table{.rows = {}, .name = name, .integers = &integers};
  read_table(file, table);
  return integers;
}

}  // namespace evenkeel
