#include "io/json_lines.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "io/non_finite.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t block_bytes = 1 << 20;
constexpr std::int64_t gap_bytes = 1 << 12;  ///< reading over this much is cheaper than one more call
constexpr std::size_t longest_text = 60;

/// How many of `lines`, from the first on, follow each other closely enough to be read as one block.
std::size_t lines_in_block(const LineFiles& files, std::span<const LineRef> lines) {
  const InputFile* const file = &files.file_of(lines.front());
  std::size_t count = 1;
  for (; count < lines.size(); ++count) {
    const LineRef& last = lines[count - 1];
    const LineRef& next = lines[count];
    const std::int64_t gap = next.offset - (last.offset + last.bytes);
    if (gap < 0 || gap > gap_bytes || &files.file_of(next) != file) break;
    if (next.offset + next.bytes - lines.front().offset > block_bytes) break;
  }
  return count;
}

/// Throws for a line that cannot be parsed: there is no memory, or it is no JSON. What Python writes for
/// numbers that are not finite is the commonest reason.
[[noreturn]] void refuse(std::string_view text, simdjson::error_code error, const std::string& where) {
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (const auto found = find_non_finite(text)) {
    throw InputError(where,
                     (found->field.empty() ? "" : "field '" + found->field + "' ") + "holds " + found->word +
                         " in column " + std::to_string(found->column) + "; JSON has no NaN and no Infinity",
                     "Write a finite number, or leave the sample out");
  }
  throw InputError(where, std::string("is not valid JSON: ") + simdjson::error_message(error),
                   text.starts_with('[') || text == "{" ? "Write one whole object a line" : "");
}

simdjson::dom::object parse(simdjson::dom::parser& parser, std::string_view text, const LineNames& names,
                            const LineRef& line) {
  simdjson::dom::element value;
  // The buffer behind `text` goes on for at least SIMDJSON_PADDING bytes, so the parser need not copy it.
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
  std::vector<char> buffer;
  while (!lines.empty()) {
    const std::span<const LineRef> block = lines.first(lines_in_block(files, lines));
    const std::int64_t begin = block.front().offset;
    const auto bytes = static_cast<std::size_t>(block.back().offset + block.back().bytes - begin);
    buffer.resize(std::max(buffer.size(), bytes + simdjson::SIMDJSON_PADDING));
    files.file_of(block.front()).read(std::span(buffer).first(bytes), begin);
    for (const LineRef& line : block) {
      const std::string_view text(buffer.data() + (line.offset - begin),
                                  static_cast<std::size_t>(line.bytes));
      visit({files.names(), line, parse(parser, text, files.names(), line)});
    }
    lines = lines.subspan(block.size());
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
