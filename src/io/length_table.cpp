#include "evenkeel/io/length_table.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/error.hpp"
#include "evenkeel/base/hash.hpp"
#include "evenkeel/io/lines.hpp"
#include "input_file.hpp"
#include "json_lines.hpp"
#include "rollout_line.hpp"

namespace evenkeel {
namespace {

/// Sums of lengths stay within 63 bits for millions of samples.
constexpr std::int64_t max_length = std::int64_t{1} << 40;
constexpr std::string_view prompt_column = "prompt_length";
constexpr std::string_view response_column = "response_length";
constexpr std::string_view length_column = "length";
constexpr std::string_view needed_columns = "prompt_length and response_length, or length";

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text) + "'";
}

std::string length_error(std::string_view name, const std::string& value) {
  return std::string(name) + " is " + value + "; a length is an integer from 0 to " +
         std::to_string(max_length);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Takes the first value off a CSV line and leaves its comma. In quotes a comma counts as text and two quotes
/// as one.
std::string take_value(std::string_view& rest) {
  std::string value;
  bool inside = false;
  std::size_t i = 0;
  for (; i < rest.size() && (inside || rest[i] != ','); ++i) {
    if (rest[i] != '"') {
      value += rest[i];
    } else if (inside && i + 1 < rest.size() && rest[i + 1] == '"') {
      value += rest[++i];
    } else {
      inside = !inside;
    }
  }
  rest = i < rest.size() ? rest.substr(i) : std::string_view{};
  return std::string(trimmed(value));
}

std::vector<std::string> split_csv(std::string_view line) {
  std::vector<std::string> values{take_value(line)};
  while (!line.empty()) {
    line.remove_prefix(1);
    values.push_back(take_value(line));
  }
  return values;
}

/// The columns that matter, as positions in a row.
class CsvColumns {
 public:
  CsvColumns(const std::vector<std::string>& header, const std::string& where)
      : count_(header.size()), prompt_(find(header, prompt_column)), uid_(find(header, uid_key)) {
    std::optional<std::size_t> response = find(header, response_column);
    if (!prompt_ || !response) {
      prompt_.reset();
      response = find(header, length_column);
    }
    if (!response) {
      throw InputError(where, "has the columns " + in_quotes(joined(header)),
                       "Name the columns " + std::string(needed_columns));
    }
    response_ = *response;
  }

  [[nodiscard]] LengthRow row(const std::vector<std::string>& values, const LineRef& line,
                              const std::string& where) const {
    if (values.size() != count_) {
      throw InputError(where, "has " + std::to_string(values.size()) + " values; the header names " +
                                  std::to_string(count_) + " columns");
    }
    LengthRow row;
    if (prompt_) row.prompt = length(values[*prompt_], prompt_column, where);
    row.response = length(values[response_], prompt_ ? response_column : length_column, where);
    row.group = uid_ && !values[*uid_].empty() ? fnv1a_64(values[*uid_]) : group_of_line(line.number);
    return row;
  }

 private:
  static std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  static std::optional<std::size_t> find(const std::vector<std::string>& header, std::string_view name) {
    const auto found = std::ranges::find(header, name);
    if (found == header.end()) return std::nullopt;
    return static_cast<std::size_t>(found - header.begin());
  }

  static std::int64_t length(std::string_view text, std::string_view name, const std::string& where) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > max_length) {
      throw InputError(where, length_error(name, in_quotes(text)));
    }
    return value;
  }

  std::size_t count_;
  std::optional<std::size_t> prompt_;
  std::size_t response_ = 0;
  std::optional<std::size_t> uid_;
};

std::vector<LengthRow> read_csv(const std::filesystem::path& path, std::span<const LineRef> lines) {
  if (lines.empty())
    throw InputError(path.string(), "is empty", "Name the columns " + std::string(needed_columns));
  const InputFile file(path);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text, 0);
  const auto values = [&](const LineRef& line) {
    return split_csv({text.data() + line.offset, static_cast<std::size_t>(line.bytes)});
  };
  const auto where = [&](const LineRef& line) {
    return path.string() + ":" + std::to_string(line.number + 1);
  };

  const CsvColumns columns(values(lines.front()), where(lines.front()));
  std::vector<LengthRow> rows;
  rows.reserve(lines.size() - 1);
  for (const LineRef& line : lines.subspan(1)) rows.push_back(columns.row(values(line), line, where(line)));
  return rows;
}

std::int64_t length_of(const JsonLine& line, std::string_view key, const simdjson::dom::element& value) {
  std::int64_t length = 0;
  if (value.get(length) || length < 0 || length > max_length) line.fail(length_error(key, text_of(value)));
  return length;
}

LengthRow json_row(const JsonLine& line) {
  using simdjson::dom::element;
  const auto has = [&](std::string_view key, element& value) { return !line.object.at_key(key).get(value); };
  element first;
  element second;
  if (has(prompt_key, first) || has(response_key, first)) {
    RolloutLine rollout;
    rollout.assign(line);
    return {rollout.prompt_tokens, rollout.response_tokens, rollout.group};
  }
  if (has(prompt_column, first) && has(response_column, second)) {
    return {length_of(line, prompt_column, first), length_of(line, response_column, second), group_of(line)};
  }
  if (has(length_column, first)) return {0, length_of(line, length_column, first), group_of(line)};
  line.fail("tells no length", "Give prompt_ids and response_ids, or " + std::string(needed_columns));
}

std::vector<LengthRow> read_jsonl(const std::filesystem::path& path, std::span<const LineRef> lines) {
  std::vector<LengthRow> rows;
  rows.reserve(lines.size());
  for_each_json_line(path, lines, [&](const JsonLine& line) { rows.push_back(json_row(line)); });
  return rows;
}

}  // namespace

std::vector<LengthRow> read_length_table(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending != ".csv" && ending != ".jsonl") {
    throw InputError(path.string(),
                     "ends in " + in_quotes(ending) + "; a length table is a .csv or a .jsonl file");
  }
  const std::vector<LineRef> lines = scan_lines(path, {0, bytes_of_file(path)}).lines;
  return ending == ".csv" ? read_csv(path, lines) : read_jsonl(path, lines);
}

}  // namespace evenkeel
