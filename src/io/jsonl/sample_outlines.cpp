#include "io/jsonl/sample_outlines.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/jsonl/field_inference.hpp"
#include "io/jsonl/json_lines.hpp"
#include "io/jsonl/number_list.hpp"

namespace evenkeel {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr int deepest = 500;  // limit on nested lists and objects, below the parser's limit of 1024

/// Thrown if the text is not plain. This is not an error: it means that outline_samples() cannot guarantee
/// its results for this text.
struct NotPlain {};

/// A key and its value: the text of the value, and the properties that can be determined without a parser.
struct PlainValue {
  std::string_view key;
  std::string_view text;
  std::optional<NumberList> list;
  std::optional<std::int64_t> integer;
  bool is_text = false;  ///< whether the value is an ASCII string without escapes
};

/// Scans the lines of the text, and the keys and values of each line's object.
class PlainText {
 public:
  explicit PlainText(std::string_view text)
      : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  /// Moves to the next line that is not blank. Returns false if there is none.
  bool next_line(LineRef& line) {
    while (at_ < end_) {
      const char* const start = at_;
      skip_space();
      if (at_ == end_) return false;
      if (*at_ != '\n') {
        line = {start - begin_, 0, number_};
        return true;
      }
      ++at_;
      ++number_;
    }
    return false;
  }

  /// Moves past the end of a line after its object was scanned. Throws NotPlain if the object is followed by
  /// anything but white space.
  void end_line(LineRef& line) {
    skip_space();
    if (at_ < end_ && *at_ != '\n') throw NotPlain{};
    const char* const start = begin_ + line.offset;
    line.bytes = at_ - start - (at_[-1] == '\r' ? 1 : 0);
    if (at_ < end_) ++at_;
    ++number_;
  }

  /// Fills `values` with the next object's keys and values.
  void scan_object(std::vector<PlainValue>& values) {
    values.clear();
    expect('{');
    skip_space();
    if (*at_ == '}') {
      ++at_;
      return;
    }
    while (true) {
      skip_space();
      expect('"');
      PlainValue& value = values.emplace_back();
      value.key = scan_plain_text() ? last_plain_text() : throw NotPlain{};
      skip_space();
      expect(':');
      skip_space();
      scan_value(value);
      skip_space();
      if (*at_ == '}') break;
      expect(',');
    }
    ++at_;
  }

 private:
  void skip_space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  void expect(char letter) {
    if (at_ >= end_ || *at_ != letter) throw NotPlain{};
    ++at_;
  }

  /// Called after an opening quotation mark. If the string is plain (ASCII without escapes and control
  /// characters), moves past its closing quotation mark and returns true.
  bool scan_plain_text() {
    const char* at = at_;
    // The last condition also stops at non-ASCII characters if char is signed.
    while (at < end_ && *at != '"' && *at != '\\' && *at >= ' ') ++at;
    if (at >= end_ || *at != '"') return false;
    last_plain_text_ = {at_, static_cast<std::size_t>(at - at_)};
    at_ = at + 1;
    return is_ascii(last_plain_text_);
  }
  static bool is_ascii(std::string_view text) {
    return std::ranges::none_of(
        text, [](char letter) { return (static_cast<unsigned char>(letter) & 0x80U) != 0; });
  }
  [[nodiscard]] std::string_view last_plain_text() const { return last_plain_text_; }

  void scan_value(PlainValue& value) {
    const char* const start = at_;
    switch (*at_) {
      case '[':
        value.list = scan_number_list(at_ + 1);
        if (value.list && value.list->end > end_) throw NotPlain{};
        if (value.list) {
          at_ = value.list->end;
        } else {
          skip_nested();
        }
        break;
      case '{':
        skip_nested();
        break;
      case '"':
        ++at_;
        value.is_text = scan_plain_text();
        if (!value.is_text) {
          at_ = start;
          skip_text();
        }
        break;
      default:
        scan_word(value);
    }
    value.text = {start, static_cast<std::size_t>(at_ - start)};
  }

  void skip_text() {
    ++at_;
    while (at_ < end_ && *at_ != '"') at_ += *at_ == '\\' ? 2 : 1;
    if (at_ >= end_) throw NotPlain{};
    ++at_;
  }

  void skip_nested() {
    int depth = 0;
    do {
      if (at_ >= end_ || depth > deepest || *at_ == '\n') throw NotPlain{};
      if (*at_ == '"') {
        skip_text();
        continue;
      }
      if (*at_ == '[' || *at_ == '{') ++depth;
      if (*at_ == ']' || *at_ == '}') --depth;
      ++at_;
    } while (depth > 0);
  }

  /// Reads a number, true, false or null.
  void scan_word(PlainValue& value) {
    const char* const start = at_;
    const auto is_part = [](char c) {
      return ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
    };
    while (at_ < end_ && is_part(*at_)) ++at_;
    if (at_ == start) throw NotPlain{};
    value.integer = integer_of({start, static_cast<std::size_t>(at_ - start)});
  }

  static std::optional<std::int64_t> integer_of(std::string_view word) {
    constexpr std::size_t max_digits = 15;
    if (word.size() > max_digits || (word.size() > 1 && word.front() == '0')) return std::nullopt;
    std::int64_t value = 0;
    for (const char c : word) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + (c - '0');
    }
    return value;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  std::int64_t number_ = 0;
  std::string_view last_plain_text_;
};

/// Returns whether a reader can represent each number of a field as int64 or float32.
bool are_within_range(const element& value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return std::ranges::all_of(array(value.get_array().value_unsafe()), are_within_range);
    case element_type::DOUBLE:
      return std::abs(value.get_double().value_unsafe()) <=
             static_cast<double>(std::numeric_limits<float>::max());
    default:
      return value.type() != element_type::UINT64;
  }
}

class Outliner {
 public:
  Outliner(const DeclaredFormats& declared, std::span<const std::string_view> watched)
      : declared_(declared), watched_(watched) {}

  SampleOutlines outline(std::string_view text) {
    PlainText plain(text);
    for (LineRef line; plain.next_line(line);) {
      plain.scan_object(values_);
      plain.end_line(line);
      add_sample(line);
    }
    return std::move(out_);
  }

 private:
  void add_sample(const LineRef& ref) {
    std::ranges::sort(values_, {}, &PlainValue::key);
    const auto twice = std::ranges::adjacent_find(values_, {}, &PlainValue::key);
    if (twice != values_.end()) throw NotPlain{};
    SampleOutline& sample = out_.samples.emplace_back();
    sample.line = ref;
    sample.watched_values.resize(watched_.size());
    sample.prompt = num_tokens_of(prompt_key);
    sample.response = num_tokens_of(response_key);
    sample.uid = uid();
    RolloutLine rollout;
    rollout.prompt_tokens = sample.prompt;
    rollout.response_tokens = sample.response;
    const JsonLine line{names_, ref, {}};
    JsonlSchema schema;
    schema.empty = false;
    schema.first_line = ref.number;
    for (const PlainValue& value : values_) {
      if (value.key == uid_key || value.key == prompt_key || value.key == response_key) continue;
      name_ = value.key;
      append(schema, name_, infer(line, rollout, value, sample));
    }
    merge_schema(std::move(schema));
  }

  [[nodiscard]] const PlainValue* find(std::string_view key) const {
    const auto found = std::ranges::lower_bound(values_, key, {}, &PlainValue::key);
    return found == values_.end() || found->key != key ? nullptr : &*found;
  }

  [[nodiscard]] std::int64_t num_tokens_of(std::string_view key) const {
    const PlainValue* const value = find(key);
    if (value == nullptr || !value->list || value->list->has_reals || value->list->has_negatives)
      throw NotPlain{};
    return value->list->count;
  }

  Uid uid() {
    const PlainValue* const value = find(uid_key);
    if (value == nullptr) return std::monostate{};
    if (value->is_text) return std::string(value->text.substr(1, value->text.size() - 2));
    if (value->integer) return *value->integer;
    const element uid = parse_value(*value);
    if (std::string_view text; !uid.get(text)) return std::string(text);
    if (std::int64_t number = 0; !uid.get(number)) return number;
    if (std::uint64_t number = 0; !uid.get(number)) return number;
    if (uid.is_null()) return std::monostate{};
    throw NotPlain{};
  }

  element parse_value(const PlainValue& value) {
    element parsed;
    const auto error = parser_.parse(value.text.data(), value.text.size(), false).get(parsed);
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    if (error) throw NotPlain{};
    return parsed;
  }

  Inferred infer(const JsonLine& line, const RolloutLine& rollout, const PlainValue& value,
                 SampleOutline& sample) {
    const auto watched = std::ranges::find(watched_, value.key);
    std::optional<std::int64_t>* const least =
        watched == watched_.end()
            ? nullptr
            : &sample.watched_values[static_cast<std::size_t>(watched - watched_.begin())];
    const bool is_told = declared_.contains(value.key);
    Survey survey;
    if (!is_told && value.is_text) {
      survey.others = {SkipReason::text};
    } else if (!is_told && value.integer) {
      survey.dtype = DType::int64;
      survey.has_wide_integers = !is_exact_in_float32(*value.integer);
      if (least != nullptr) *least = value.integer;
    } else if (!is_told && value.list && !value.list->has_wide) {
      survey.dimensions = {value.list->count};
      if (value.list->count > 0) survey.dtype = value.list->has_reals ? DType::float32 : DType::int64;
    } else {
      return infer_parsed(line, rollout, parse_value(value), least);
    }
    return infer_field(line, rollout, name_, survey);
  }

  Inferred infer_parsed(const JsonLine& line, const RolloutLine& rollout, const element& value,
                        std::optional<std::int64_t>* least) const {
    Inferred inferred = infer_field(line, rollout, name_, value, declared_);
    if (std::holds_alternative<SchemaEntry>(inferred) && !are_within_range(value)) throw NotPlain{};
    if (least == nullptr) return inferred;
    if (std::int64_t number = 0; !value.get(number)) *least = number;
    for_each_run(value, [&](const element& of_run, std::int64_t count) {
      std::int64_t number = 0;
      if (!of_run.get(number) && count > 0) *least = std::min(least->value_or(number), number);
    });
    return inferred;
  }

  void merge_schema(JsonlSchema schema) {
    const bool adds_nothing =
        !out_.schema.empty && schema.fields == out_.schema.fields &&
        schema.kind_open == out_.schema.kind_open && schema.element_open == out_.schema.element_open &&
        schema.ignored == out_.schema.ignored &&
        std::ranges::all_of(schema.wide_integers,
                            [&](const auto& wide) { return out_.schema.wide_integers.contains(wide.first); });
    if (!adds_nothing) out_.schema = merge(out_.schema, schema, names_);
  }

  const DeclaredFormats& declared_;
  std::span<const std::string_view> watched_;
  const LineNames names_{"text"};
  simdjson::dom::parser parser_;
  std::vector<PlainValue> values_;
  std::string name_;
  SampleOutlines out_;
};

}  // namespace

std::optional<SampleOutlines> outline_samples(std::string_view text, const DeclaredFormats& declared,
                                              std::span<const std::string_view> watched) {
  const bool are_runs =
      std::ranges::all_of(declared, [](const auto& format) { return format.second == LineFormat::runs; });
  if (!are_runs) return std::nullopt;
  try {
    return Outliner(declared, watched).outline(text);
  } catch (const NotPlain&) {
    return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace evenkeel
