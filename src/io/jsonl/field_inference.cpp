#include "io/jsonl/field_inference.hpp"

#include <limits>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "io/jsonl/base64.hpp"
#include "io/jsonl/json_lines.hpp"

namespace evenkeel {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr const char* one_type_hint = "Write only booleans or only numbers";

/// Returns a field for a list of `rows` rows: of kind token if this is the sample's number of tokens, or of
/// kind response_token if it is the number of response tokens. If both fit, the kind is token and `kind_open`
/// is set. Returns nullopt if neither fits.
std::optional<SchemaEntry> list_field(const RolloutLine& rollout, std::int64_t rows) {
  const bool token = rows == rollout.prompt_tokens + rollout.response_tokens;
  const bool response = rows == rollout.response_tokens;
  if (!token && !response) return std::nullopt;
  SchemaEntry field;
  field.spec.kind = token ? FieldKind::token : FieldKind::response_token;
  field.kind_open = token && response;
  return field;
}

/// Throws InputError for a list whose number of rows is neither the sample's number of tokens nor its number
/// of response tokens. `found` is the start of the message, which states the number of rows.
[[noreturn]] void reject_row_count(const JsonLine& line, const RolloutLine& rollout, const std::string& found,
                                   std::string hint) {
  line.fail(found + "; the sample has " +
                format_plain_count(rollout.prompt_tokens + rollout.response_tokens, "token") + ", " +
                std::to_string(rollout.response_tokens) + " in the response",
            std::move(hint));
}

/// Returns the field for a list with `rows` rows and a declared format. Throws InputError with the text
/// `found` and this hint if `rows` is neither the number of tokens nor the number of response tokens.
SchemaEntry declared_list_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                                std::int64_t rows, const std::string& found, std::string hint) {
  std::optional<SchemaEntry> field = list_field(rollout, rows);
  if (!field) reject_row_count(line, rollout, found, std::move(hint));
  field->spec.name = name;
  field->origin = {line.ref.number, line.ref.number, line.ref.number};
  return *std::move(field);
}

/// Describes the first element that is neither a number nor a boolean, with its position, such as
/// "null at [3][0]"; empty if there is none.
std::string describe_non_number(const element& value, const std::string& place = {}) {
  array list;
  if (value.get(list))
    return value.is_number() || value.is_bool() ? std::string() : text_of(value) + " at " + place;
  std::int64_t index = 0;
  for (const element item : list) {
    std::string found = describe_non_number(item, place + "[" + std::to_string(index++) + "]");
    if (!found.empty()) return found;
  }
  return {};
}

/// Throws InputError for a list that contains strings, nulls or objects.
[[noreturn]] void reject_non_numbers(const JsonLine& line, const std::string& field, const element& value) {
  line.fail(field + " has " + describe_non_number(value) + "; it may contain only numbers or only booleans",
            "Write only numbers or only booleans, or remove the field from all samples");
}

/// Throws InputError if a value contains both integers and real numbers, and float32 would round one of the
/// integers.
void require_exact_integers(const JsonLine& line, const std::string& field, const Survey& survey) {
  if (survey.has_wide_integers && survey.dtype == DType::float32) {
    line.fail(field + " has a real number and an integer that float32 would round", wide_integer_hint);
  }
}

/// Sets the properties of a field that follow from the elements of its value.
void set_element_properties(const JsonLine& line, const Survey& survey, SchemaEntry& field) {
  field.spec.dtype = survey.dtype.value_or(DType::float32);
  field.element_open = !survey.dtype;
  if (survey.has_wide_integers) field.wide_integer = line.ref.number;
}

/// Surveys a value. Throws InputError unless it consists only of numbers or only of booleans, in rows of the
/// same shape. Also throws if it has both real numbers and an integer that float32 would round.
Survey survey_numbers(const JsonLine& line, const std::string& field, const element& value) {
  Survey survey;
  survey.walk(value, 0);
  if (!survey.others.empty()) reject_non_numbers(line, field, value);
  if (survey.mixed) line.fail(field + " mixes booleans and numbers", one_type_hint);
  if (survey.ragged) {
    line.fail(field + " has lists of different lengths or depths",
              "Give all lists at the same depth the same length");
  }
  require_exact_integers(line, field, survey);
  return survey;
}

/// Throws InputError for rows without elements, because their shape cannot be inferred.
void require_elements(const JsonLine& line, const std::string& field, const Survey& survey) {
  const bool has_rows = survey.dimensions.size() > 1 && survey.dimensions.front() > 0;
  if (has_rows && !survey.dtype)
    line.fail(field + " has rows without elements",
              "Put numbers into each row, or remove the field from all samples");
}

/// Returns the field for a value whose declared format is text, bytes or rows. Throws InputError if the value
/// does not have this format.
SchemaEntry counted_field(const JsonLine& line, const std::string& name, LineFormat format,
                          const element& value) {
  SchemaEntry field;
  field.spec = {name, DType::uint8, format == LineFormat::text ? FieldKind::text : FieldKind::bytes, {}};
  field.origin = {line.ref.number, line.ref.number, line.ref.number};
  const std::string words = "field '" + name + "' (" + std::string(name_of(format)) + ")";
  std::string_view text;
  if (format != LineFormat::rows) {
    if (value.get(text)) line.fail(words + " is " + text_of(value) + "; it must be a string");
    if (format == LineFormat::bytes && !base64_decoded_size(text))
      line.fail(words + " is " + text_of(value) + "; it must be base64 with padding (RFC 4648, section 4)");
    return field;
  }
  field.spec.kind = FieldKind::rows;
  if (!value.is_array()) line.fail(words + " is " + text_of(value) + "; it must be a list of rows");
  const Survey survey = survey_numbers(line, words, value);
  require_elements(line, words, survey);
  set_element_properties(line, survey, field);
  if (survey.dtype) field.spec.trailing.assign(survey.dimensions.begin() + 1, survey.dimensions.end());
  return field;
}

SchemaEntry axes_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                       const element& value) {
  const std::string words = "field '" + name + "' (axes)";
  const Survey survey = value.is_array() ? survey_numbers(line, words, value) : Survey{};
  const bool has_lists = survey.dimensions.size() == 2 && survey.dimensions[0] > 0;
  if (!has_lists) line.fail(words + " is " + text_of(value) + "; it must have one list of numbers per axis");
  const std::int64_t rows = survey.dimensions[1];
  SchemaEntry field = declared_list_field(line, rollout, name, rows,
                                          words + " has " + format_plain_count(rows, "number") + " per axis",
                                          "Give each axis one number per token or response token");
  set_element_properties(line, survey, field);
  if (survey.dtype) field.spec.trailing = {survey.dimensions[0]};
  return field;
}

SchemaEntry runs_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                       const element& value) {
  const std::string words = "field '" + name + "' (runs)";
  std::int64_t rows = 0;
  Survey survey;
  const bool are_runs = for_each_run(value, [&](const element& of_run, std::int64_t count) {
    survey.walk(of_run, 0);
    rows = saturating_add(rows, count);
  });
  if (!are_runs || !survey.dimensions.empty() || !survey.others.empty())
    line.fail(words + " " + describe_invalid_runs(value));
  if (survey.mixed) line.fail(words + " mixes booleans and numbers", one_type_hint);
  require_exact_integers(line, words, survey);
  const bool is_saturated = rows == std::numeric_limits<std::int64_t>::max();
  SchemaEntry field = declared_list_field(
      line, rollout, name, rows,
      words + " has counts that add up to " + (is_saturated ? "at least " : "") + std::to_string(rows),
      "Make the counts add up to the number of tokens or of response tokens");
  set_element_properties(line, survey, field);
  return field;
}

/// Returns the field for a value with a declared format.
SchemaEntry declared_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                           LineFormat format, const element& value) {
  if (format == LineFormat::axes) return axes_field(line, rollout, name, value);
  if (format == LineFormat::runs) return runs_field(line, rollout, name, value);
  return counted_field(line, name, format, value);
}

}  // namespace

bool is_integer_inexact_in_float32(const element& value) {
  if (value.type() == element_type::INT64) return !is_exact_in_float32(value.get_int64().value_unsafe());
  return value.type() == element_type::UINT64 && !is_exact_in_float32(value.get_uint64().value_unsafe());
}

void Survey::walk(const element& value, std::size_t depth) {
  array list;
  if (value.get(list)) return walk_leaf(value, depth);
  if (dimensions.size() == depth) dimensions.push_back(count_of(list));
  ragged = ragged || dimensions[depth] != count_of(list) || (leaf_depth && *leaf_depth <= depth);
  for (const element item : list) walk(item, depth + 1);
}

void Survey::walk_leaf(const element& value, std::size_t depth) {
  ragged = ragged || (leaf_depth && *leaf_depth != depth) || dimensions.size() > depth;
  leaf_depth = depth;
  switch (value.type()) {
    case element_type::INT64:
      has_wide_integers |= !is_exact_in_float32(value.get_int64().value_unsafe());
      return merge_dtype(DType::int64);
    case element_type::UINT64:
      has_wide_integers |= !is_exact_in_float32(value.get_uint64().value_unsafe());
      return merge_dtype(DType::int64);
    case element_type::DOUBLE:
      return merge_dtype(DType::float32);
    case element_type::BOOL:
      return merge_dtype(DType::boolean);
    case element_type::STRING:
      others.insert(SkipReason::text);
      return;
    case element_type::NULL_VALUE:
      others.insert(SkipReason::null);
      return;
    default:
      others.insert(SkipReason::object);
  }
}

void Survey::merge_dtype(DType found) {
  const std::optional<DType> joined = common_dtype(dtype.value_or(found), found);
  mixed = mixed || !joined;
  dtype = joined.value_or(found);
}

Inferred infer_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                     const element& value, const DeclaredFormats& declared) {
  if (name == input_ids_field) return std::set{SkipReason::own_name};
  if (const auto format = declared.find(name); format != declared.end())
    return declared_field(line, rollout, name, format->second, value);
  Survey survey;
  survey.walk(value, 0);
  if (!survey.others.empty() && survey.dtype) reject_non_numbers(line, "field '" + name + "'", value);
  return infer_field(line, rollout, name, survey);
}

Inferred infer_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                     const Survey& survey) {
  if (name == input_ids_field) return std::set{SkipReason::own_name};
  if (!survey.others.empty() && !survey.dtype) return survey.others;
  if (survey.mixed) line.fail("field '" + name + "' mixes booleans and numbers", one_type_hint);
  if (survey.ragged) {
    line.fail("field '" + name + "' has lists of different lengths or depths",
              "Give all lists at the same depth the same length");
  }
  require_exact_integers(line, "field '" + name + "'", survey);
  require_elements(line, "field '" + name + "'", survey);

  std::optional<SchemaEntry> field;
  if (survey.dimensions.empty()) {
    field.emplace().spec.kind = FieldKind::sample;
  } else {
    const std::int64_t rows = survey.dimensions.front();
    field = list_field(rollout, rows);
    if (!field && rows == 0) return std::set{SkipReason::empty_list};
    if (!field) {
      reject_row_count(
          line, rollout, "field '" + name + "' has " + format_plain_count(rows, "row"),
          "Give it one row per token or response token, or declare its format with --read-as or fields." +
              name + ".read_as: rows, axes or runs");
    }
  }
  field->spec.name = name;
  set_element_properties(line, survey, *field);
  if (survey.dtype && !survey.dimensions.empty()) {
    field->spec.trailing.assign(survey.dimensions.begin() + 1, survey.dimensions.end());
  }
  field->origin = {line.ref.number, line.ref.number, line.ref.number};
  return *std::move(field);
}

void append(JsonlSchema& schema, const std::string& name, Inferred inferred) {
  if (auto* field = std::get_if<SchemaEntry>(&inferred)) return append(schema, std::move(*field));
  schema.ignored.emplace(name, std::get<std::set<SkipReason>>(std::move(inferred)));
}

}  // namespace evenkeel
