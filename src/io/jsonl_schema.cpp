#include "io/jsonl_schema.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "io/base64.hpp"
#include "io/json_lines.hpp"
#include "io/rollout_line.hpp"
#include "io/schema_fields.hpp"

namespace evenkeel {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;

/// The shape and element type of a value, found by walking it once.
struct Survey {
  std::vector<std::int64_t> dimensions;  ///< outermost first
  std::optional<std::size_t> leaf_depth;
  std::optional<DType> dtype;
  bool ragged = false;       ///< lists at one depth differ in length, or leaves differ in depth
  bool mixed = false;        ///< booleans and numbers
  std::set<LeftOut> others;  ///< what leaves are that are no numbers

  void walk(const element& value, std::size_t depth) {
    array list;
    if (value.get(list)) return walk_leaf(value, depth);
    if (dimensions.size() == depth) dimensions.push_back(count_of(list));
    ragged = ragged || dimensions[depth] != count_of(list) || (leaf_depth && *leaf_depth <= depth);
    for (const element item : list) walk(item, depth + 1);
  }

 private:
  void walk_leaf(const element& value, std::size_t depth) {
    ragged = ragged || (leaf_depth && *leaf_depth != depth) || dimensions.size() > depth;
    leaf_depth = depth;
    switch (value.type()) {
      case element_type::INT64:
      case element_type::UINT64:
        return add(DType::int64);
      case element_type::DOUBLE:
        return add(DType::float32);
      case element_type::BOOL:
        return add(DType::boolean);
      case element_type::STRING:
        others.insert(LeftOut::text);
        return;
      case element_type::NULL_VALUE:
        others.insert(LeftOut::null);
        return;
      default:
        others.insert(LeftOut::object);
    }
  }

  void add(DType found) {
    const std::optional<DType> joined = join(dtype.value_or(found), found);
    mixed = mixed || !joined;
    dtype = joined.value_or(found);
  }
};

/// The kinds that a list of `rows` rows may have in this sample; none when its length fits nothing.
std::optional<FieldView> list_field(const RolloutLine& rollout, std::int64_t rows) {
  const bool token = rows == rollout.prompt_tokens + rollout.response_tokens;
  const bool response = rows == rollout.response_tokens;
  if (!token && !response) return std::nullopt;
  FieldView field;
  field.spec.kind = token ? FieldKind::token : FieldKind::response_token;
  field.kind_open = token && response;
  return field;
}

/// A field that is said to be counted.
FieldView counted_field(const JsonLine& line, const std::string& name, FieldKind kind, const element& value) {
  FieldView field;
  field.spec = {name, DType::uint8, kind, {}};
  field.origin = {line.ref.number, line.ref.number, line.ref.number};
  const std::string words = "field '" + name + "' (" + std::string(name_of(kind)) + ") is " + text_of(value);
  std::string_view text;
  if (kind != FieldKind::rows) {
    if (value.get(text)) line.fail(words + "; a text is needed");
    if (kind == FieldKind::bytes && !bytes_in_base64(text)) line.fail(words + "; base64 is needed");
    return field;
  }
  if (!value.is_array()) line.fail(words + "; a list of rows is needed");
  Survey survey;
  survey.walk(value, 0);
  if (!survey.others.empty()) line.fail("field '" + name + "' (rows) has text, null or objects");
  if (survey.mixed) line.fail("field '" + name + "' mixes booleans and numbers");
  if (survey.ragged) line.fail("field '" + name + "' has rows of different shapes");
  field.spec.dtype = survey.dtype.value_or(DType::float32);
  field.element_open = !survey.dtype;
  if (survey.dtype) field.spec.trailing.assign(survey.dimensions.begin() + 1, survey.dimensions.end());
  return field;
}

/// What a value makes: a field, or nothing, and then why.
using Inferred = std::variant<FieldView, std::set<LeftOut>>;

Inferred infer_field(const JsonLine& line, const RolloutLine& rollout, const KeyValue& entry,
                     const ToldKinds& told) {
  const std::string name(entry.first);
  if (name == input_ids_field) return std::set{LeftOut::own_name};
  if (const auto kind = told.find(name); kind != told.end())
    return counted_field(line, name, kind->second, entry.second);
  Survey survey;
  survey.walk(entry.second, 0);
  if (!survey.others.empty() && !survey.dtype) return survey.others;
  if (!survey.others.empty()) line.fail("field '" + name + "' mixes numbers with text, null or objects");
  if (survey.mixed) line.fail("field '" + name + "' mixes booleans and numbers");
  if (survey.ragged) line.fail("field '" + name + "' has rows of different shapes");

  std::optional<FieldView> field;
  if (survey.dimensions.empty()) {
    field.emplace().spec.kind = FieldKind::sample;
  } else {
    const std::int64_t rows = survey.dimensions.front();
    field = list_field(rollout, rows);
    if (!field && rows == 0) return std::set{LeftOut::empty_list};
    if (!field) {
      line.fail("field '" + name + "' has " + std::to_string(rows) + " rows; the sample has " +
                std::to_string(rollout.prompt_tokens + rollout.response_tokens) + " tokens, " +
                std::to_string(rollout.response_tokens) + " of them in the response");
    }
  }
  field->spec.name = name;
  field->spec.dtype = survey.dtype.value_or(DType::float32);
  field->element_open = !survey.dtype;
  if (survey.dtype && !survey.dimensions.empty()) {
    field->spec.trailing.assign(survey.dimensions.begin() + 1, survey.dimensions.end());
  }
  field->origin = {line.ref.number, line.ref.number, line.ref.number};
  return *std::move(field);
}

JsonlSchema schema_of_line(const JsonLine& line, const RolloutLine& rollout, const ToldKinds& told) {
  JsonlSchema schema;
  schema.empty = false;
  schema.first_line = line.ref.number;
  for (const KeyValue& entry : rollout.fields) {
    Inferred inferred = infer_field(line, rollout, entry, told);
    if (auto* field = std::get_if<FieldView>(&inferred)) {
      append(schema, std::move(*field));
    } else {
      schema.ignored.emplace(entry.first, std::get<std::set<LeftOut>>(std::move(inferred)));
    }
  }
  return schema;
}

}  // namespace

JsonlSchema infer_schema(const LineFiles& files, std::span<const LineRef> lines,
                         std::span<std::int64_t> tokens, const ToldKinds& told) {
  EVENKEEL_PRECONDITION(cheap, tokens.empty() || tokens.size() == lines.size(), tokens.size(), lines.size());
  JsonlSchema schema;
  auto counted = tokens.begin();
  RolloutLine rollout;
  for_each_json_line(files, lines, [&](const JsonLine& line) {
    rollout.assign(line);
    if (counted != tokens.end()) *counted++ = rollout.prompt_tokens + rollout.response_tokens;
    schema = merge(schema, schema_of_line(line, rollout, told), files.names());
  });
  return schema;
}

}  // namespace evenkeel
