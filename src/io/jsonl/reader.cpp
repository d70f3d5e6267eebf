#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/base64.hpp"
#include "io/jsonl/field_inference.hpp"
#include "io/jsonl/json_lines.hpp"
#include "io/jsonl/jsonl.hpp"
#include "io/jsonl/rollout_line.hpp"

namespace evenkeel {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;

[[noreturn]] void reject_token(const JsonLine& line, std::string_view key, std::int64_t index,
                               const element& token) {
  line.fail(std::string(key) + "[" + std::to_string(index) + "] is " + text_of(token) +
            "; a token must be an integer from 0 to " +
            std::to_string(std::numeric_limits<std::int64_t>::max()));
}

/// Copies the tokens of a list to `out`. Returns the end of the copy.
std::int64_t* copy_tokens(const JsonLine& line, std::string_view key, const array& tokens,
                          std::int64_t* out) {
  const std::int64_t* const begin = out;
  for (const element token : tokens) {
    std::int64_t value = 0;
    if (token.get(value) || value < 0) reject_token(line, key, out - begin, token);
    *out++ = value;
  }
  return out;
}

/// Reads one element. Returns false if the type of `out` cannot represent it.
bool read_element(const element& value, bool& out) {
  return !value.get(out);
}
bool read_element(const element& value, std::int64_t& out) {
  return !value.get(out);
}
bool read_element(const element& value, float& out) {
  // float represents this number and all smaller integers exactly.
  constexpr double max_exact = 1 << std::numeric_limits<float>::digits;
  double number = 0;
  if (value.get(number) || std::abs(number) > static_cast<double>(std::numeric_limits<float>::max())) {
    return false;
  }
  if (std::abs(number) > max_exact && is_integer_inexact_in_float32(value)) return false;
  out = static_cast<float>(number);
  return true;
}

/// Copies the values of one line into a field's rows.
class RowReader {
 public:
  /// `declared` is the field's declared format; nullopt if the format is not declared.
  RowReader(const JsonLine& line, const FieldSpec& spec, std::optional<LineFormat> declared)
      : line_(line), spec_(spec), declared_(declared) {}

  /// Returns the number of rows in a value of a counted field.
  [[nodiscard]] std::int64_t count_rows(const element& value) const {
    if (spec_.rule().has_numbers()) {
      array list;
      if (value.get(list)) fail("is " + text_of(value) + "; it must be a list of rows");
      return count_of(list);
    }
    std::string_view text;
    if (value.get(text)) fail("is " + text_of(value) + "; it must be a string");
    if (spec_.rule().is_text()) return std::ssize(text);
    const std::optional<std::size_t> bytes = base64_decoded_size(text);
    if (!bytes) fail("is " + text_of(value) + "; it must be base64 with padding (RFC 4648, section 4)");
    return static_cast<std::int64_t>(*bytes);
  }

  void read(const element& value, std::int64_t rows, std::byte* out) const {
    if (!spec_.rule().has_numbers()) {
      const std::string_view text = value.get_string().value_unsafe();
      const std::span<std::byte> bytes(out, static_cast<std::size_t>(rows));
      if (spec_.rule().is_bytes()) return decode_base64(text, bytes);
      std::ranges::copy(std::as_bytes(std::span(text)), bytes.begin());
      return;
    }
    switch (spec_.dtype) {
      case DType::boolean:
        return read_as<bool>(value, rows, out);
      case DType::int64:
        return read_as<std::int64_t>(value, rows, out);
      default:
        return read_as<float>(value, rows, out);
    }
  }

 private:
  template <typename T>
  void read_as(const element& value, std::int64_t rows, std::byte* bytes) const {
    T* out = reinterpret_cast<T*>(bytes);
    if (declared_ == LineFormat::axes) return read_axes(value, rows, out);
    if (declared_ == LineFormat::runs) return read_runs(value, rows, out);
    if (spec_.rule().is_per_sample()) return read_row(value, spec_.trailing, out);
    read_list(value, rows, "row", "; the sample needs ", spec_.trailing, out);
  }

  template <typename T>
  void read_row(const element& value, std::span<const std::int64_t> trailing, T*& out) const {
    if (!trailing.empty()) {
      return read_list(value, trailing.front(), "element", " in a row; other samples have ",
                       trailing.subspan(1), out);
    }
    read_number(value, *out++);
  }

  template <typename T>
  void read_number(const element& value, T& out) const {
    if (read_element(value, out)) return;
    const bool is_alone = spec_.rule().is_per_sample() && spec_.trailing.empty();
    fail((is_alone ? "is " : "has the element ") + text_of(value) + "; it must be " +
         describe_expected_type());
  }

  /// Transposes [axes][rows] to [rows][axes]. If no line had an element, the number of axes is unknown.
  template <typename T>
  void read_axes(const element& value, std::int64_t rows, T* out) const {
    if (spec_.trailing.empty() && rows == 0) return;
    const std::int64_t axes = spec_.trailing.empty() ? 0 : spec_.trailing.front();
    array lists;
    if (value.get(lists) || count_of(lists) != axes)
      fail("is " + text_of(value) + "; it must be a list of " + format_plain_count(axes, "list") +
           ", one for each axis");
    for (const element item : lists) {
      array list;
      if (item.get(list) || count_of(list) != rows)
        fail("has an axis " + text_of(item) + "; it must be a list of " + format_plain_count(rows, "number"));
      T* to = out++;
      for (const element number : list) {
        read_number(number, *to);
        to += axes;
      }
    }
  }

  template <typename T>
  void read_runs(const element& value, std::int64_t rows, T* out) const {
    std::int64_t left = rows;
    const bool are_runs = for_each_run(value, [&](const element& of_run, std::int64_t count) {
      if (count > left) fail("has runs that add up to more than " + format_plain_count(rows, "token"));
      left -= count;
      T number{};
      read_number(of_run, number);
      out = std::fill_n(out, count, number);
    });
    if (!are_runs) fail(describe_invalid_runs(value));
    if (left > 0) fail("has runs that add up to fewer than " + format_plain_count(rows, "token"));
  }

  template <typename T>
  void read_list(const element& value, std::int64_t count, const char* thing, const char* needed,
                 std::span<const std::int64_t> trailing, T*& out) const {
    array list;
    if (value.get(list)) fail("has " + text_of(value) + " where a list is expected");
    if (count_of(list) != count) {
      fail("has " + format_plain_count(count_of(list), thing) + needed + std::to_string(count));
    }
    for (const element item : list) read_row(item, trailing, out);
  }

  [[nodiscard]] std::string describe_expected_type() const {
    if (spec_.dtype == DType::boolean) return "true or false";
    if (spec_.dtype == DType::int64) return "a signed 64-bit integer";
    return "a real number within the range of float32, or an integer that float32 represents exactly";
  }

  [[noreturn]] void fail(const std::string& what) const {
    line_.fail("field '" + spec_.name + "' (" + std::string(name_of(spec_.kind)) + ", " +
               std::string(name_of(spec_.dtype)) + ") " + what);
  }

  const JsonLine& line_;
  const FieldSpec& spec_;
  std::optional<LineFormat> declared_;
};

/// A column that grows line by line. After 1/16 of the lines' bytes, it reserves the memory that all lines
/// will probably need, since moving the rows repeatedly would take longer than parsing them.
class GrowingColumn {
 public:
  explicit GrowingColumn(const FieldSpec& spec) : spec_(spec), column_(uncounted_spec(spec), 0) {}

  [[nodiscard]] const FieldSpec& spec() const noexcept { return spec_; }

  /// Adds rows and returns the address of the first one. `share` is the fraction of the lines' bytes that has
  /// been read so far, including the current line.
  std::byte* extend(std::int64_t rows, double share) {
    const std::int64_t begin = rows_;
    rows_ += rows;
    if (is_counted(spec_.kind)) counts_.push_back(rows);
    if (rows_ > column_.rows()) column_.resize(share < estimation_threshold ? rows_ : expected_rows(share));
    return column_.row(begin);
  }

  Column finish() {
    column_.resize(rows_);
    if (!is_counted(spec_.kind)) return std::move(column_);
    return Column::make_counted(std::move(column_), spec_.kind, SampleRows::from_counts(counts_));
  }

 private:
  static constexpr double estimation_threshold = 1.0 / 16;
  static constexpr double slack = 1.02;

  [[nodiscard]] std::int64_t expected_rows(double share) const {
    return std::max(rows_, static_cast<std::int64_t>(static_cast<double>(rows_) / share * slack));
  }

  /// Returns the spec that the column has while it grows. Only finish() divides the rows of a counted field
  /// among samples.
  static FieldSpec uncounted_spec(FieldSpec spec) {
    if (is_counted(spec.kind)) spec.kind = FieldKind::sample;
    return spec;
  }

  FieldSpec spec_;
  Column column_;
  std::int64_t rows_ = 0;
  std::vector<std::int64_t> counts_;  // number of rows of each line; empty unless the field is counted
};

FieldSpec require_readable(const FieldSpec& spec) {
  if (!spec.rule().has_numbers()) return spec;
  if (spec.dtype == DType::boolean || spec.dtype == DType::int64 || spec.dtype == DType::float32) return spec;
  throw InputError("field '" + spec.name + "'", "cannot be read as " + std::string(name_of(spec.dtype)) +
                                                    "; JSON Lines support only bool, int64 and float32");
}

class BatchBuilder {
 public:
  BatchBuilder(const JsonlSchema& schema, std::span<const LineRef> lines, const DeclaredFormats& declared)
      : declared_(declared) {
    shapes_.reserve(lines.size());
    for (const LineRef& line : lines) total_bytes_ += static_cast<double>(line.bytes);
    columns_.reserve(schema.fields.size());
    for (const FieldSpec& spec : schema.fields) columns_.emplace_back(require_readable(spec));
  }

  void add(const JsonLine& line) {
    rollout_.assign(line);
    bytes_ += static_cast<double>(line.ref.bytes);
    shapes_.push_back(
        {SampleId{line.ref.number}, rollout_.group, rollout_.prompt_tokens, rollout_.response_tokens});
    add_tokens(line);
    for (GrowingColumn& column : columns_) add_rows(line, column);
  }

  RaggedBatch finish() {
    RaggedBatch batch(std::move(shapes_));
    batch.add_field(tokens_.finish());
    for (GrowingColumn& column : columns_) batch.add_field(column.finish());
    return batch;
  }

 private:
  [[nodiscard]] double fraction_read() const { return bytes_ / total_bytes_; }

  void add_tokens(const JsonLine& line) {
    auto* out = reinterpret_cast<std::int64_t*>(tokens_.extend(shapes_.back().length(), fraction_read()));
    out = copy_tokens(line, prompt_key, rollout_.prompt, out);
    copy_tokens(line, response_key, rollout_.response, out);
  }

  void add_rows(const JsonLine& line, GrowingColumn& column) const {
    const FieldSpec& spec = column.spec();
    const auto field = std::ranges::lower_bound(rollout_.fields, spec.name, {}, &KeyValue::first);
    if (field == rollout_.fields.end() || field->first != spec.name) {
      line.fail("has no field '" + spec.name + "', which other samples have",
                "Give all samples the same fields");
    }
    const RowReader reader(line, spec, declared_format(spec.name));
    const SampleShape& shape = shapes_.back();
    const std::int64_t rows = is_counted(spec.kind) ? reader.count_rows(field->second)
                                                    : spec.rule().rows_of(shape.prompt, shape.response);
    reader.read(field->second, rows, column.extend(rows, fraction_read()));
  }

  [[nodiscard]] std::optional<LineFormat> declared_format(std::string_view name) const {
    const auto found = declared_.find(name);
    return found == declared_.end() ? std::nullopt : std::optional(found->second);
  }

  const DeclaredFormats& declared_;
  double bytes_ = 0;
  double total_bytes_ = 0;
  std::vector<SampleShape> shapes_;
  GrowingColumn tokens_{{std::string(input_ids_field), DType::int64, FieldKind::token, {}}};
  std::vector<GrowingColumn> columns_;
  RolloutLine rollout_;
};

}  // namespace

RaggedBatch read_samples(const LineFiles& files, std::span<const LineRef> lines, const JsonlSchema& schema,
                         const DeclaredFormats& declared) {
  BatchBuilder builder(schema, lines, declared);
  for_each_json_line(files, lines, [&](const JsonLine& line) { builder.add(line); });
  return builder.finish();
}

std::vector<Uid> read_uids(const LineFiles& files, std::span<const LineRef> lines) {
  std::vector<Uid> uids;
  uids.reserve(lines.size());
  for_each_json_line(files, lines, [&](const JsonLine& line) { uids.push_back(uid_of(line)); });
  return uids;
}

bool is_rollout(const InputFile& file, const LineRef& line) {
  return any_has_key(file, {&line, 1}, prompt_key) || any_has_key(file, {&line, 1}, response_key);
}

bool any_has_key(const InputFile& file, std::span<const LineRef> lines, std::string_view key) {
  bool has = false;
  for_each_json_line(file, lines, [&](const JsonLine& parsed) {
    element value;
    has = has || !parsed.object.at_key(key).get(value);
  });
  return has;
}

}  // namespace evenkeel
