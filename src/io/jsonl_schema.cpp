#include "evenkeel/io/jsonl_schema.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "json_lines.hpp"
#include "rollout_line.hpp"

namespace evenkeel {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;

/// A field and what is open about it: one entry of a schema.
struct FieldView {
  FieldSpec spec;
  bool kind_open = false;
  bool element_open = false;
};

/// Adds an entry; names are added in order.
void append(JsonlSchema& schema, FieldView field) {
  if (field.kind_open) schema.kind_open.insert(field.spec.name);
  if (field.element_open) schema.element_open.insert(field.spec.name);
  schema.fields.push_back(std::move(field.spec));
}

FieldView view(const JsonlSchema& schema, std::size_t index) {
  const FieldSpec& spec = schema.fields[index];
  return {spec, schema.kind_open.contains(spec.name), schema.element_open.contains(spec.name)};
}

/// The dtype that holds the elements of both; none when booleans meet numbers.
std::optional<DType> join(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::boolean || b == DType::boolean) return std::nullopt;
  return DType::float32;
}

std::string text_of(const std::vector<std::int64_t>& dimensions) {
  std::string text;
  for (const std::int64_t d : dimensions) text += (text.empty() ? "" : ", ") + std::to_string(d);
  return "[" + text + "]";
}

[[noreturn]] void clash(const std::string& where, const FieldSpec& field, const std::string& what) {
  throw InputError(where, "field '" + field.name + "' " + what);
}

/// What two samples say about a field of one name.
FieldView merge(const FieldView& a, const FieldView& b, const std::string& where) {
  FieldView merged = a;
  if (a.kind_open && b.spec.kind != FieldKind::sample) {
    merged.spec.kind = b.spec.kind;
    merged.kind_open = b.kind_open;
  } else if (a.spec.kind != b.spec.kind && !(b.kind_open && a.spec.kind != FieldKind::sample)) {
    clash(where, a.spec,
          "is a " + std::string(name_of(std::min(a.spec.kind, b.spec.kind))) +
              " field in some samples and a " + std::string(name_of(std::max(a.spec.kind, b.spec.kind))) +
              " field in others");
  }
  if (b.element_open) return merged;
  if (a.element_open) {
    merged.spec.dtype = b.spec.dtype;
    merged.spec.trailing = b.spec.trailing;
    merged.element_open = false;
    return merged;
  }
  if (a.spec.trailing != b.spec.trailing) {
    const auto [first, second] = std::minmax(a.spec.trailing, b.spec.trailing);
    clash(where, a.spec,
          "has rows of shape " + text_of(first) + " in some samples and " + text_of(second) + " in others");
  }
  const std::optional<DType> dtype = join(a.spec.dtype, b.spec.dtype);
  if (!dtype) clash(where, a.spec, "is boolean in some samples and a number in others");
  merged.spec.dtype = *dtype;
  return merged;
}

JsonlSchema merge(const JsonlSchema& a, const JsonlSchema& b, const std::string& where) {
  if (a.empty) return b;
  if (b.empty) return a;
  JsonlSchema merged;
  merged.empty = false;
  merged.ignored = a.ignored;
  merged.ignored.insert(b.ignored.begin(), b.ignored.end());
  for (std::size_t i = 0; i < std::max(a.fields.size(), b.fields.size()); ++i) {
    const bool in_a = i < a.fields.size() && (i >= b.fields.size() || a.fields[i].name <= b.fields[i].name);
    const bool in_b = i < b.fields.size() && (i >= a.fields.size() || b.fields[i].name <= a.fields[i].name);
    if (!in_a || !in_b) {
      clash(where, in_a ? a.fields[i] : b.fields[i],
            "holds numbers in some samples and is missing, empty or not a number in others");
    }
    append(merged, merge(view(a, i), view(b, i), where));
  }
  return merged;
}

/// The shape and element type of a value, found by walking it once.
struct Survey {
  std::vector<std::int64_t> dimensions;  ///< outermost first
  std::optional<std::size_t> leaf_depth;
  std::optional<DType> dtype;
  bool ragged = false;  ///< lists at one depth differ in length, or leaves differ in depth
  bool other = false;   ///< a leaf is no number: text, null or an object
  bool mixed = false;   ///< booleans and numbers

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
      default:
        other = true;
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

/// The field that this value makes, or none when it is to be ignored.
std::optional<FieldView> infer_field(const JsonLine& line, const RolloutLine& rollout,
                                     const KeyValue& entry) {
  const std::string name(entry.first);
  if (name == input_ids_field) return std::nullopt;
  Survey survey;
  survey.walk(entry.second, 0);
  if (survey.other && !survey.dtype) return std::nullopt;
  if (survey.other) line.fail("field '" + name + "' mixes numbers with text, null or objects");
  if (survey.mixed) line.fail("field '" + name + "' mixes booleans and numbers");
  if (survey.ragged) line.fail("field '" + name + "' has rows of different shapes");

  std::optional<FieldView> field;
  if (survey.dimensions.empty()) {
    field.emplace().spec.kind = FieldKind::sample;
  } else {
    const std::int64_t rows = survey.dimensions.front();
    field = list_field(rollout, rows);
    if (!field && rows == 0) return std::nullopt;
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
  return field;
}

JsonlSchema schema_of_line(const JsonLine& line, const RolloutLine& rollout) {
  JsonlSchema schema;
  schema.empty = false;
  for (const KeyValue& entry : rollout.fields) {
    if (std::optional<FieldView> field = infer_field(line, rollout, entry)) {
      append(schema, std::move(*field));
    } else {
      schema.ignored.emplace(entry.first);
    }
  }
  return schema;
}

}  // namespace

JsonlSchema infer_schema(const std::filesystem::path& path, std::span<const LineRef> lines) {
  JsonlSchema schema;
  RolloutLine rollout;
  for_each_json_line(path, lines, [&](const JsonLine& line) {
    rollout.assign(line);
    schema = merge(schema, schema_of_line(line, rollout), line.where());
  });
  return schema;
}

JsonlSchema merge(const JsonlSchema& a, const JsonlSchema& b) {
  return merge(a, b, {});
}

}  // namespace evenkeel
