#include "cli/plan/times_file.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "base/text/parse_number.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {
namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 40;

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(line);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string trim(std::string text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  text.erase(std::find_if_not(text.rbegin(), text.rend(), is_blank).base(), text.end());
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_blank));
  return text;
}

/// Positions of the columns of a table of times.
struct Columns {
  std::size_t lengths = 0;
  std::size_t seconds = 0;

  Columns(const std::string& header, const std::string& where) {
    const std::vector<std::string> names = split(header, ',');
    const auto place = [&](std::string_view one, std::string_view other) {
      const auto found = std::ranges::find_if(
          names, [&](const std::string& name) { return trim(name) == one || trim(name) == other; });
      if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
      throw InputError(where, "has no column '" + std::string(one) + "'",
                       "Name the columns in the first line, such as lengths,seconds");
    };
    lengths = place("lengths", "length");
    seconds = place("seconds", "seconds");
  }
};

TimedMicroBatch read_row(const std::string& line, const Columns& columns, const std::string& where) {
  const std::vector<std::string> values = split(line, ',');
  if (values.size() <= std::max(columns.lengths, columns.seconds))
    throw InputError(where, "has fewer values than the first line has columns",
                     "Give every line a value for each column");
  TimedMicroBatch row;
  for (const std::string& text : split(values[columns.lengths], ' ')) {
    if (trim(text).empty()) continue;
    const std::optional<std::int64_t> length = parse_as<std::int64_t>(trim(text));
    if (!length || *length < 1 || *length > most_tokens)
      throw InputError(where, "'" + trim(text) + "' is not a length of 1 to 2^40 tokens");
    row.lengths.push_back(*length);
  }
  const std::optional<double> seconds = parse_as<double>(trim(values[columns.seconds]));
  if (row.lengths.empty())
    throw InputError(where, "has no length", "Give the length of each sample of the micro-batch");
  if (!seconds || !(*seconds > 0) || *seconds > 1e9)
    throw InputError(
        where, "'" + trim(values[columns.seconds]) + "' is not a number of seconds above 0 and at most 1e9");
  row.seconds = *seconds;
  return row;
}

}  // namespace

CostObservation TimedMicroBatch::observation() const {
  CostObservation observed;
  observed.seconds = seconds;
  for (const std::int64_t length : lengths) {
    observed.tokens += length;
    observed.squares += static_cast<double>(length) * static_cast<double>(length);
  }
  return observed;
}

std::vector<TimedMicroBatch> read_times(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw IoError(path.string(), "cannot be read", "Name a readable .csv file of times");
  std::string line;
  std::getline(file, line);
  const auto where = [&](std::int64_t number) { return path.string() + ":" + std::to_string(number); };
  const Columns columns(line, where(1));
  std::vector<TimedMicroBatch> times;
  for (std::int64_t number = 2; std::getline(file, line); ++number)
    if (!trim(line).empty()) times.push_back(read_row(line, columns, where(number)));
  if (file.bad()) throw IoError(path.string(), "cannot be read to its end", "Check the disk");
  if (times.empty())
    throw InputError(path.string(), "has no times", "Give the times of at least 16 micro-batches");
  return times;
}

}  // namespace evenkeel::cli
