#include "io/jsonl/json_lines.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t run_bytes = 1 << 20;
/// If two lines are at most this many bytes apart, reading the bytes between them is cheaper than another
/// read.
constexpr std::int64_t line_gap_bytes = 1 << 12;
constexpr std::size_t longest_text = 60;

/// Lines of one file that are read with one call.
class LineBlock {
 public:
  /// Reads the first of these lines, as many as fit in a block, and returns the lines that were read. Throws
  /// IoError if the file cannot be read or has changed.
  std::span<const LineRef> read(const LineFiles& files, std::span<const LineRef> lines) {
    lines = lines.first(plan_reads(files, lines));
    buffer_.resize(std::max(buffer_.size(), static_cast<std::size_t>(bytes_) + simdjson::SIMDJSON_PADDING));
    pieces_.clear();
    std::span<char> room = buffer_;
    for (const ByteRange& run : runs_) {
      pieces_.push_back({room.first(static_cast<std::size_t>(run.size())), run.begin});
      room = room.subspan(pieces_.back().out.size());
    }
    files.file_of(lines.front()).read(pieces_);
    return lines;
  }

  /// Returns the text of a line of the last read(), given its index among the returned lines and its length.
  /// The text is followed by at least SIMDJSON_PADDING readable bytes.
  [[nodiscard]] std::string_view text(std::size_t line, std::int64_t bytes) const {
    return {buffer_.data() + starts_[line], static_cast<std::size_t>(bytes)};
  }

 private:
  // Determines the byte ranges to read and the positions of lines in the buffer. Returns the number of lines.
  std::size_t plan_reads(const LineFiles& files, std::span<const LineRef> lines) {
    const InputFile* const file = &files.file_of(lines.front());
    bytes_ = 0;
    starts_.clear();
    runs_.clear();
    for (const LineRef& line : lines) {
      const bool goes_on = !runs_.empty() && line.offset >= runs_.back().end &&
                           line.offset - runs_.back().end <= line_gap_bytes;
      const std::int64_t end = line.offset + line.bytes;
      const std::int64_t bytes = bytes_ + end - (goes_on ? runs_.back().end : line.offset);
      if (!runs_.empty() && (bytes > run_bytes || &files.file_of(line) != file)) break;
      bytes_ = bytes;
      starts_.push_back(bytes - line.bytes);
      if (!goes_on) runs_.push_back({line.offset, end});
      runs_.back().end = end;
    }
    return starts_.size();
  }

  std::vector<char> buffer_;
  std::int64_t bytes_ = 0;            // number of bytes of the buffer that are in use
  std::vector<std::int64_t> starts_;  // offset in the buffer at which each line starts
  std::vector<ByteRange> runs_;  // ranges of the file to read, which are stored back to back in the buffer
  std::vector<InputFile::Piece> pieces_;
};

/// Returns the position at which nlohmann::json rejects the text, such as " in column 7"; empty if it accepts
/// the text.
std::string describe_error_position(std::string_view text) {
  try {
    [[maybe_unused]] const nlohmann::json parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return " in column " + std::to_string(count_characters(text.substr(0, error.byte)));
  } catch (const nlohmann::json::exception&) {
    // nlohmann::json does not report a position for other errors, such as a number that is out of range.
  }
  return {};
}

/// Throws InputError for a line that is not valid JSON, or std::bad_alloc if parsing failed because memory
/// ran out.
[[noreturn]] void reject(std::string_view text, simdjson::error_code error, const std::string& where) {
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (const auto fault = find_json_fault(text)) {
    throw InputError(where,
                     (fault->field.empty() ? "" : "field '" + fault->field + "' ") + fault->what +
                         " in column " + std::to_string(fault->column) + "; " + fault->why,
                     fault->hint);
  }
  throw InputError(
      where, "is not valid JSON" + describe_error_position(text) + ": " + simdjson::error_message(error),
      "Write one complete object per line");
}

simdjson::dom::object parse(simdjson::dom::parser& parser, std::string_view text, const LineNames& names,
                            const LineRef& line) {
  simdjson::dom::element value;
  // The block has padding after `text`, so the parser need not copy it.
  if (const auto error = parser.parse(text.data(), text.size(), false).get(value))
    reject(text, error, names.where(line.number));
  simdjson::dom::object object;
  if (value.get(object)) {
    throw InputError(names.where(line.number), "is " + text_of(value) + "; it must be a JSON object");
  }
  return object;
}

constexpr std::string_view utf8_mark = "\xef\xbb\xbf";

/// A fault in a line, and the byte position at which it begins.
struct LineFault {
  std::size_t at = 0;
  std::string what;
  std::string why;
  std::string hint;
};

bool is_non_finite_word(std::string_view word) {
  constexpr std::array<std::string_view, 3> names{"nan", "inf", "infinity"};
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::find(names, lower) != names.end();
}

std::string_view word_at(std::string_view line, std::size_t begin) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.' || c == '_';
  };
  std::size_t end = begin;
  while (end < line.size() && is_part(line[end])) ++end;
  return line.substr(begin, end - begin);
}

template <typename Number>
std::errc try_parse_number(std::string_view word) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{}) return error;
  return end == word.data() + word.size() ? std::errc{} : std::errc::invalid_argument;
}

/// Returns whether the word is an integer that fits in neither int64 nor uint64, or a real number that is too
/// large for double. A real number that underflows is not out of range.
bool is_out_of_range(std::string_view word) {
  const bool is_integer = word.find_first_of(".eE") == std::string_view::npos;
  if (is_integer) {
    return try_parse_number<std::int64_t>(word) == std::errc::result_out_of_range &&
           try_parse_number<std::uint64_t>(word) != std::errc{};
  }
  return try_parse_number<double>(word) == std::errc::result_out_of_range &&
         word.find("e-") == std::string_view::npos && word.find("E-") == std::string_view::npos;
}

std::optional<LineFault> find_literal_fault(std::string_view word, std::size_t at) {
  const std::string quoted = word.size() > 40 ? std::string(word.substr(0, 40)) + "..." : std::string(word);
  if (is_non_finite_word(word)) {
    return LineFault{at, "holds " + quoted, "JSON does not have NaN or Infinity",
                     "Write a finite number, or leave the sample out"};
  }
  if (is_out_of_range(word)) {
    return LineFault{at, "holds " + quoted, "a number must fit into 64 bits",
                     "Write a number within range, or a string"};
  }
  return std::nullopt;
}

/// Returns the value of the four hexadecimal digits at `at`, or nullopt if there are fewer.
std::optional<unsigned> parse_code_unit(std::string_view text, std::size_t at) {
  if (at + 4 > text.size()) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 4, value, 16);
  if (error != std::errc{} || end != text.data() + at + 4) return std::nullopt;
  return value;
}

bool is_high_surrogate(unsigned unit) {
  return 0xd800 <= unit && unit < 0xdc00;
}
bool is_low_surrogate(unsigned unit) {
  return 0xdc00 <= unit && unit < 0xe000;
}

/// Checks the escape sequence whose backslash is at `at`. Returns its fault, or nullopt if it is valid. Moves
/// `at` past the sequence.
std::optional<LineFault> find_escape_fault(std::string_view line, std::size_t& at) {
  const std::size_t begin = at;
  const char letter = begin + 1 < line.size() ? line[begin + 1] : '\0';
  at += 2;
  if (begin + 1 >= line.size()) return std::nullopt;  // the string is not terminated
  if (letter != 'u') {
    if (std::string_view(R"("\/bfnrt)").find(letter) != std::string_view::npos) return std::nullopt;
    return LineFault{begin, "has the escape \\" + std::string(1, letter), "JSON does not have this escape",
                     R"(Write a backslash as \\)"};
  }
  const std::optional<unsigned> unit = parse_code_unit(line, at);
  if (!unit) {
    return LineFault{begin, R"(has \u without four hexadecimal digits)", "JSON requires them",
                     R"(Write a backslash as \\)"};
  }
  at += 4;
  if (!is_high_surrogate(*unit) && !is_low_surrogate(*unit)) return std::nullopt;
  const bool goes_on = is_high_surrogate(*unit) && line.substr(at).starts_with("\\u");
  const std::optional<unsigned> next = goes_on ? parse_code_unit(line, at + 2) : std::nullopt;
  if (next && is_low_surrogate(*next)) {
    at += 6;
    return std::nullopt;
  }
  return LineFault{begin, "has half of a surrogate pair (" + std::string(line.substr(begin, 6)) + ")",
                   "a character above U+FFFF requires two of these escapes",
                   R"(Write both halves, or \ufffd in their place)"};
}

/// Checks the string whose opening quotation mark is at `at`. Returns its first fault, or nullopt. Moves `at`
/// past the string, or to the end of the line if the string is not terminated.
std::optional<LineFault> find_string_fault(std::string_view line, std::size_t& at) {
  ++at;
  while (at < line.size() && line[at] != '"') {
    if (line[at] == '\\') {
      if (auto fault = find_escape_fault(line, at)) return fault;
      continue;
    }
    if (static_cast<unsigned char>(line[at]) < ' ') {
      return LineFault{at,
                       "has a control character in a string",
                       "JSON requires an escape for it, such as \\n or \\u0000",
                       {}};
    }
    const std::size_t bytes = utf8_sequence_length(line.substr(at));
    if (bytes == 0)
      return LineFault{at, "has bytes that are not UTF-8", "JSON Lines must be UTF-8",
                       "Encode them as UTF-8"};
    at += bytes;
  }
  at = std::min(at + 1, line.size());
  return std::nullopt;
}

}  // namespace

// The size check relies on std::string_view: if allocation fails, padded_string(std::string_view) is empty,
// whereas padded_string(std::string) has the wrong size.
JsonText::JsonText(std::string_view text) : padded_(text) {
  if (padded_.size() < text.size()) throw std::bad_alloc();
  simdjson::dom::object object;
  const auto error = parser_.parse(padded_).get(object);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (!error) object_ = object;
}

std::string JsonLine::where() const {
  return names.where(ref.number);
}

void JsonLine::fail(const std::string& message, const std::string& hint) const {
  throw InputError(where(), message, hint);
}

void for_each_json_line(const LineFiles& files, std::span<const LineRef> lines,
                        const std::function<void(const JsonLine&)>& visit) {
  simdjson::dom::parser parser;
  // Allocates for the longest line once, instead of reallocating for each longer line.
  if (!lines.empty()) {
    const std::int64_t longest = std::ranges::max(lines, {}, &LineRef::bytes).bytes;
    if (parser.allocate(static_cast<std::size_t>(longest)) == simdjson::MEMALLOC) throw std::bad_alloc();
  }
  LineBlock block;
  while (!lines.empty()) {
    const std::span<const LineRef> read = block.read(files, lines);
    for (std::size_t i = 0; i < read.size(); ++i) {
      const std::string_view text = block.text(i, read[i].bytes);
      visit({files.names(), read[i], parse(parser, text, files.names(), read[i])});
    }
    lines = lines.subspan(read.size());
  }
}

std::string text_of(const simdjson::dom::element& value) {
  std::string text = simdjson::minify(value);
  if (text.size() > longest_text) text = text.substr(0, longest_text) + "...";
  return text;
}

std::string describe_invalid_runs(const simdjson::dom::element& value) {
  simdjson::dom::array runs;
  if (value.get(runs)) return "is " + text_of(value) + "; it must be a list of [number, count] pairs";
  std::int64_t index = 0;
  for (const simdjson::dom::element run : runs) {
    simdjson::dom::array pair;
    std::int64_t count = 0;
    const bool is_run = !run.get(pair) && pair.size() == 2 && !pair.at(1).get(count) && count >= 0 &&
                        (pair.at(0).is_number() || pair.at(0).is_bool());
    if (!is_run) {
      return "has " + text_of(run) + " at [" + std::to_string(index) +
             "]; every entry must be a [number, count] pair whose count is an integer of at least 0";
    }
    ++index;
  }
  return "is " + text_of(value) + "; it must be a list of [number, count] pairs";
}

std::int64_t count_of(const simdjson::dom::array& list) {
  // array::size() is at most 2^24 - 1, even for longer arrays.
  constexpr std::size_t saturated = 0xffffff;
  if (list.size() < saturated) return static_cast<std::int64_t>(list.size());
  return std::distance(list.begin(), list.end());
}

std::int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::optional<JsonFault> find_json_fault(std::string_view line) {
  std::string_view text;   // the latest string in the outermost object
  std::string_view field;  // the key of the outermost object's value at `at`, or empty
  int depth = 0;
  const auto make_json_fault = [&](LineFault finding) {
    return JsonFault{std::string(field), std::move(finding.what),
                     count_characters(line.substr(0, finding.at)) + 1, std::move(finding.why),
                     std::move(finding.hint)};
  };
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ':' && depth == 1) field = text;
    if (c == ',' && depth == 1) field = {};
    if (c == '"') {
      const std::size_t begin = at;
      if (auto fault = find_string_fault(line, at)) return make_json_fault(*std::move(fault));
      if (depth == 1) text = line.substr(begin + 1, at - std::min(at, begin + 2));
      continue;
    }
    if (line.substr(at).starts_with(utf8_mark)) {
      return make_json_fault(
          {at, "holds a byte order mark", "only the start of a file may have one",
           "Remove it: files may have been joined, or part of a string may be outside its quotation marks"});
    }
    const std::string_view word = word_at(line, at);
    if (auto fault = find_literal_fault(word, at)) return make_json_fault(*std::move(fault));
    at += std::max<std::size_t>(word.size(), 1);
  }
  return std::nullopt;
}

}  // namespace evenkeel
