#include "io/jsonl/writer.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/utf8.hpp"
#include "batch/integers.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/base64.hpp"
#include "io/jsonl/rollout_line.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t flush_bytes = 1 << 20;

template <typename T>
std::string_view format_number(std::array<char, 32>& buffer, T value) {
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

/// Returns whether JSON readers that parse numbers as double get the same float back. This is true for the
/// shortest text of nearly every float, but not for 7.038531e-26.
bool round_trips_through_double(std::string_view text, float value) {
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return static_cast<float>(read) == value;
}

void append_element(std::string& text, bool value) {
  text += value ? "true" : "false";
}

void append_element(std::string& text, std::integral auto value) {
  std::array<char, 32> buffer;
  text += format_number(buffer, value);
}

template <std::floating_point T>
void append_element(std::string& text, T value) {
  if (!std::isfinite(value))
    throw InputError({}, "is " + std::to_string(value) + ", which JSON cannot express");
  std::array<char, 32> buffer;
  std::string_view digits = format_number(buffer, value);
  if constexpr (std::is_same_v<T, float>) {
    if (!round_trips_through_double(digits, value))
      digits = format_number(buffer, static_cast<double>(value));
  }
  text += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) text += ".0";
}

/// Appends a string in JSON syntax. Throws InputError if the string is not UTF-8, which JSON requires.
void append_text(std::string& text, std::string_view value) {
  const std::size_t valid = utf8_prefix_length(value);
  if (valid < value.size()) {
    throw InputError(
        {}, "is not valid UTF-8 at byte " + std::to_string(valid) + ", but JSON Lines must be UTF-8");
  }
  text += nlohmann::json(value).dump();
}

using Dimensions = std::span<const std::int64_t>;

template <typename T>
void append_nested(std::string& text, Dimensions dimensions, const T*& next);

/// Appends a list of `count` values with the dimensions `inner`, starting at `next`. Moves `next` past them.
template <typename T>
void append_list(std::string& text, std::int64_t count, Dimensions inner, const T*& next) {
  text += '[';
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    append_nested(text, inner, next);
  }
  text += ']';
}

template <typename T>
void append_nested(std::string& text, Dimensions dimensions, const T*& next) {
  if (dimensions.empty()) return append_element(text, *next++);
  append_list(text, dimensions.front(), dimensions.subspan(1), next);
}

template <typename T>
void append_rows(std::string& text, const Column& column, RowRange rows) {
  const FieldSpec& spec = column.spec();
  const T* next = column.values<T>().data() + rows.begin * spec.row_elements();
  if (spec.rule().is_per_sample()) return append_nested(text, Dimensions(spec.trailing), next);
  append_list(text, rows.size(), Dimensions(spec.trailing), next);
}

void append_value(std::string& text, const Column& column, RowRange rows) {
  if (column.spec().rule().is_text()) {
    const std::string_view value(reinterpret_cast<const char*>(column.row(rows.begin)),
                                 static_cast<std::size_t>(rows.size()));
    return append_text(text, value);
  }
  if (column.spec().rule().is_bytes()) {
    text += '"' + encode_base64({column.row(rows.begin), column.row(rows.end)}) + '"';
    return;
  }
  const DType dtype = column.spec().dtype;
  if (is_integer(dtype))
    return with_integer_type(dtype, [&]<typename T>(T) { append_rows<T>(text, column, rows); });
  if (dtype == DType::boolean) return append_rows<bool>(text, column, rows);
  if (dtype == DType::float32) return append_rows<float>(text, column, rows);
  if (dtype == DType::float64) return append_rows<double>(text, column, rows);
  throw InputError({},
                   "has elements of " + std::string(name_of(dtype)) + ", which JSON Lines cannot express");
}

void append_field(std::string& text, const Column& column, const RaggedBatch& batch, std::int64_t index) {
  const std::string& name = column.spec().name;
  try {
    if (!column.spec().trailing.empty() && column.row_bytes() == 0)
      throw InputError({}, "has rows without elements, whose shape JSON Lines cannot express");
    text += ',';
    append_text(text, name);
    text += ':';
    append_value(text, column, batch.rows_of(column, index));
  } catch (const InputError& error) {
    const auto sample = std::to_string(batch.samples()[static_cast<std::size_t>(index)].id.value());
    throw InputError("sample " + sample + ", field '" + name + "'", error.report().message,
                     "Use another format, or leave the field out");
  }
}

/// Appends the uid and a comma; appends nothing if there is no uid.
void append_uid(std::string& text, const Uid& uid, const SampleShape& sample) {
  if (std::holds_alternative<std::monostate>(uid)) return;
  text.append("\"").append(uid_key).append("\":");
  try {
    if (const auto* value = std::get_if<std::string>(&uid)) append_text(text, *value);
  } catch (const InputError& error) {
    throw InputError("sample " + std::to_string(sample.id.value()) + ", uid", error.report().message,
                     "Use a uid in UTF-8");
  }
  if (const auto* value = std::get_if<std::int64_t>(&uid)) append_element(text, *value);
  if (const auto* value = std::get_if<std::uint64_t>(&uid)) append_element(text, *value);
  text += ',';
}

void append_tokens(std::string& text, std::string_view key, std::span<const std::int64_t> tokens) {
  text.append("\"").append(key).append("\":");
  const std::int64_t* next = tokens.data();
  append_list(text, static_cast<std::int64_t>(tokens.size()), {}, next);
}

void append_sample(std::string& text, const RaggedBatch& batch, const Uid& uid,
                   std::span<const std::int64_t> tokens, std::int64_t index) {
  const SampleShape& shape = batch.samples()[static_cast<std::size_t>(index)];
  const RowRange rows = batch.rows_of(FieldKind::token, index);
  const auto mine =
      tokens.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size()));
  const auto prompt = static_cast<std::size_t>(shape.prompt);
  text += '{';
  append_uid(text, uid, shape);
  append_tokens(text, prompt_key, mine.first(prompt));
  text += ',';
  append_tokens(text, response_key, mine.subspan(prompt));
  for (const Column& column : batch.fields()) {
    if (column.spec().name != input_ids_field) append_field(text, column, batch, index);
  }
  text += "}\n";
}

void require_writable_names(const RaggedBatch& batch) {
  for (const std::string_view key : {uid_key, prompt_key, response_key}) {
    if (batch.find(key) == nullptr) continue;
    throw InputError("field '" + std::string(key) + "'",
                     "has a name that JSON Lines use for the rollout itself", "Rename the field");
  }
}

}  // namespace

std::vector<Uid> uids_of_groups(const RaggedBatch& batch) {
  std::vector<Uid> uids;
  uids.reserve(batch.samples().size());
  for (const SampleShape& sample : batch.samples()) uids.push_back(uid_of_group(sample.group));
  return uids;
}

JsonlWriter::JsonlWriter(const std::filesystem::path& path) : file_(path) {}

void JsonlWriter::write(const RaggedBatch& batch) {
  write(batch, uids_of_groups(batch));
}

void JsonlWriter::write(const RaggedBatch& batch, std::span<const Uid> uids) {
  EVENKEEL_PRECONDITION(cheap, std::ssize(uids) == batch.size(), uids.size(), batch.size());
  require_writable_names(batch);
  const std::span<const std::int64_t> tokens = batch.at(input_ids_field).values<std::int64_t>();
  for (std::int64_t index = 0; index < batch.size(); ++index) {
    append_sample(text_, batch, uids[static_cast<std::size_t>(index)], tokens, index);
    if (text_.size() >= flush_bytes) flush();
  }
}

void JsonlWriter::close() {
  flush();
  file_.commit();
}

void JsonlWriter::flush() {
  file_.write(std::as_bytes(std::span(text_)));
  text_.clear();
}

}  // namespace evenkeel
