#include "io/jsonl/json_lines.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "io/jsonl/json_fault.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t run_bytes = 1 << 20;
constexpr std::int64_t gap_bytes = 1 << 12;  ///< reading over this much is cheaper than one more call
constexpr std::size_t longest_text = 60;

/// Lines of one file that are read together.
class LineBlock {
 public:
  /// Reads the first of `lines`, as many as make a block, and returns them. Throws as InputFile::read().
  std::span<const LineRef> read(const LineFiles& files, std::span<const LineRef> lines) {
    lines = lines.first(place(files, lines));
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

  /// The text of a line of those that were read last. What follows it in memory may be read, too, for at
  /// least SIMDJSON_PADDING bytes.
  [[nodiscard]] std::string_view text(std::size_t line, std::int64_t bytes) const {
    return {buffer_.data() + starts_[line], static_cast<std::size_t>(bytes)};
  }

 private:
  // Finds the runs and where the lines come to stand. Returns how many there are.
  std::size_t place(const LineFiles& files, std::span<const LineRef> lines) {
    const InputFile* const file = &files.file_of(lines.front());
    bytes_ = 0;
    starts_.clear();
    runs_.clear();
    for (const LineRef& line : lines) {
      const bool goes_on =
          !runs_.empty() && line.offset >= runs_.back().end && line.offset - runs_.back().end <= gap_bytes;
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
  std::int64_t bytes_ = 0;            // of it that are used
  std::vector<std::int64_t> starts_;  // of each line in the buffer
  std::vector<ByteRange> runs_;       // of the file, that follow each other in the buffer
  std::vector<InputFile::Piece> pieces_;
};

/// " in column 7", where another parser stops; nothing if it does not.
std::string place_of_error(std::string_view text) {
  try {
    [[maybe_unused]] const nlohmann::json parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return " in column " + std::to_string(columns_in(text.substr(0, error.byte)));
  } catch (const nlohmann::json::exception&) {  // such as a number that it cannot hold
  }
  return {};
}

/// Throws for a line that cannot be parsed: there is no memory, or it is not JSON.
[[noreturn]] void refuse(std::string_view text, simdjson::error_code error, const std::string& where) {
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (const auto fault = find_json_fault(text)) {
    throw InputError(where,
                     (fault->field.empty() ? "" : "field '" + fault->field + "' ") + fault->what +
                         " in column " + std::to_string(fault->column) + "; " + fault->why,
                     fault->hint);
  }
  throw InputError(where, "is not valid JSON" + place_of_error(text) + ": " + simdjson::error_message(error),
                   text.starts_with('[') || text == "{" ? "Write one complete object a line" : "");
}

simdjson::dom::object parse(simdjson::dom::parser& parser, std::string_view text, const LineNames& names,
                            const LineRef& line) {
  simdjson::dom::element value;
  // The block goes on behind `text`, so the parser need not copy it.
  if (const auto error = parser.parse(text.data(), text.size(), false).get(value))
    refuse(text, error, names.where(line.number));
  simdjson::dom::object object;
  if (value.get(object)) {
    throw InputError(names.where(line.number), "is " + text_of(value) + "; a JSON object is needed");
  }
  return object;
}

}  // namespace

std::string JsonLine::where() const {
  return names.where(ref.number);
}

void JsonLine::fail(const std::string& message, const std::string& hint) const {
  throw InputError(where(), message, hint);
}

void for_each_json_line(const LineFiles& files, std::span<const LineRef> lines,
                        const std::function<void(const JsonLine&)>& visit) {
  simdjson::dom::parser parser;
  // It would grow with each longer line, and touch new memory each time.
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

std::int64_t count_of(const simdjson::dom::array& list) {
  // size() stops counting at 2^24 - 1.
  constexpr std::size_t saturated = 0xffffff;
  if (list.size() < saturated) return static_cast<std::int64_t>(list.size());
  return std::distance(list.begin(), list.end());
}

}  // namespace evenkeel
