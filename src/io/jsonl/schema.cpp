#include "io/jsonl/schema.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/field_inference.hpp"
#include "io/jsonl/json_lines.hpp"
#include "io/jsonl/rollout_line.hpp"

namespace evenkeel {
namespace {

JsonlSchema schema_of_line(const JsonLine& line, const RolloutLine& rollout,
                           const DeclaredFormats& declared) {
  JsonlSchema schema;
  schema.empty = false;
  schema.first_line = line.ref.number;
  for (const KeyValue& entry : rollout.fields) {
    const std::string name(entry.first);
    append(schema, name, infer_field(line, rollout, name, entry.second, declared));
  }
  return schema;
}

/// One side of a conflict between two lines: a property of a field, and the line that has this property.
struct Claim {
  std::string what;
  std::int64_t line = 0;
};

[[noreturn]] void throw_conflict(const LineNames& names, const std::string& field, const Claim& first,
                                 const Claim& second) {
  const auto describe_claim = [&](const Claim& claim) {
    return claim.what + " in " + names.describe(claim.line);
  };
  throw InputError(names.where(std::max(first.line, second.line)),
                   "field '" + field + "' " + describe_claim(first) + " and " + describe_claim(second),
                   "Give every line the same fields, of one kind, type and shape");
}

/// Returns the line that determined a property when fields `a` and `b` are merged, given the lines that
/// determined it in each field: the line of the field that shows the merged property, or the earlier line if
/// both fields or neither field shows it.
std::int64_t deciding_line(bool a_shows, std::int64_t a, bool b_shows, std::int64_t b) {
  if (a_shows != b_shows) return a_shows ? a : b;
  return std::min(a, b);
}

Claim make_kind_claim(const SchemaEntry& field) {
  return {"is a " + std::string(name_of(field.spec.kind)) + " field", field.origin.kind};
}

/// Merges the kinds of both fields into `merged`. Throws InputError if they are incompatible.
void merge_kinds(const SchemaEntry& a, const SchemaEntry& b, const LineNames& names, SchemaEntry& merged) {
  const auto can_be = [](const SchemaEntry& field, FieldKind kind) {
    return field.spec.kind == kind || (field.kind_open && rule_of(kind).is_cut());
  };
  const FieldKind kind = a.kind_open ? b.spec.kind : a.spec.kind;
  if (!can_be(a, kind) || !can_be(b, kind)) {
    const bool in_order = a.spec.kind < b.spec.kind;
    throw_conflict(names, a.spec.name, make_kind_claim(in_order ? a : b), make_kind_claim(in_order ? b : a));
  }
  merged.spec.kind = kind;
  merged.kind_open = a.kind_open && b.kind_open;
  merged.origin.kind = deciding_line(!a.kind_open, a.origin.kind, !b.kind_open, b.origin.kind);
}

/// Throws InputError if the merged dtype is float32 and would round an integer of either field.
void require_exact_integers(const SchemaEntry& a, const SchemaEntry& b, const LineNames& names) {
  for (const auto* sides : {&a, &b}) {
    const SchemaEntry& real = sides == &a ? b : a;
    if (!sides->wide_integer || real.spec.dtype != DType::float32) continue;
    throw InputError(names.where(std::max(*sides->wide_integer, real.origin.dtype)),
                     "field '" + a.spec.name + "' has an integer that float32 would round in " +
                         names.describe(*sides->wide_integer) + " and a real number in " +
                         names.describe(real.origin.dtype),
                     names.has_earlier_samples()
                         ? "Send the field as in earlier samples, or start a new buffer"
                         : wide_integer_hint);
  }
}

/// Merges the dtypes and trailing dimensions of both fields into `merged`. Throws InputError if they are
/// incompatible. Precondition: `element_open` is equal in both fields.
void merge_dtypes_and_shapes(const SchemaEntry& a, const SchemaEntry& b, const LineNames& names,
                             SchemaEntry& merged) {
  if (a.spec.trailing != b.spec.trailing) {
    const auto shape = [](const SchemaEntry& field) {
      return Claim{"has rows of shape " + shape_text(field.spec.trailing), field.origin.trailing};
    };
    const bool in_order = a.spec.trailing < b.spec.trailing;
    throw_conflict(names, a.spec.name, shape(in_order ? a : b), shape(in_order ? b : a));
  }
  const std::optional<DType> dtype = common_dtype(a.spec.dtype, b.spec.dtype);
  if (!dtype) {
    const bool in_order = a.spec.dtype == DType::boolean;
    throw_conflict(names, a.spec.name, {"holds booleans", (in_order ? a : b).origin.dtype},
                   {"holds numbers", (in_order ? b : a).origin.dtype});
  }
  require_exact_integers(a, b, names);
  merged.spec.dtype = *dtype;
  merged.origin.trailing = std::min(a.origin.trailing, b.origin.trailing);
  merged.origin.dtype =
      deciding_line(a.spec.dtype == *dtype, a.origin.dtype, b.spec.dtype == *dtype, b.origin.dtype);
}

/// Merges the entries of two schemas for one field.
SchemaEntry merge(const SchemaEntry& a, const SchemaEntry& b, const LineNames& names) {
  SchemaEntry merged = a;
  if (b.wide_integer)
    merged.wide_integer = std::min(a.wide_integer.value_or(*b.wide_integer), *b.wide_integer);
  merge_kinds(a, b, names, merged);
  if (a.element_open != b.element_open) {
    const SchemaEntry& seen = a.element_open ? b : a;
    merged.spec.dtype = seen.spec.dtype;
    merged.spec.trailing = seen.spec.trailing;
    merged.element_open = false;
    merged.origin.trailing = seen.origin.trailing;
    merged.origin.dtype = seen.origin.dtype;
  } else {
    merge_dtypes_and_shapes(a, b, names, merged);
  }
  return merged;
}

std::string_view skip_reason_word(SkipReason reason) {
  constexpr std::array<std::string_view, 5> names{"text", "null", "objects", "empty lists",
                                                  "made of prompt_ids and response_ids"};
  return names[static_cast<std::size_t>(reason)];
}

}  // namespace

JsonlSchema infer_schema(const LineFiles& files, std::span<const LineRef> lines,
                         std::span<std::int64_t> tokens, const DeclaredFormats& declared) {
  EVENKEEL_PRECONDITION(cheap, tokens.empty() || tokens.size() == lines.size(), tokens.size(), lines.size());
  JsonlSchema schema;
  auto counted = tokens.begin();
  RolloutLine rollout;
  for_each_json_line(files, lines, [&](const JsonLine& line) {
    rollout.assign(line);
    if (counted != tokens.end()) *counted++ = rollout.prompt_tokens + rollout.response_tokens;
    schema = merge(schema, schema_of_line(line, rollout, declared), files.names());
  });
  return schema;
}

void require_declared_fields(const JsonlSchema& schema, const DeclaredFormats& declared,
                             const std::string& source) {
  for (const auto& [name, format] : declared) {
    if (schema.empty || schema.has_field(name)) continue;
    throw InputError(
        source, "no line has a field '" + name + "', but it is declared as " + std::string(name_of(format)),
        "Check its name, or remove the declaration (--read-as, or fields." + name + ".read_as)");
  }
}

void append(JsonlSchema& schema, SchemaEntry field) {
  if (field.kind_open) schema.kind_open.insert(field.spec.name);
  if (field.element_open) schema.element_open.insert(field.spec.name);
  if (field.wide_integer) schema.wide_integers.emplace(field.spec.name, *field.wide_integer);
  schema.fields.push_back(std::move(field.spec));
  schema.origins.push_back(field.origin);
}

SchemaEntry schema_entry(const JsonlSchema& schema, std::size_t index) {
  const FieldSpec& spec = schema.fields[index];
  SchemaEntry field{spec, schema.origins[index], schema.kind_open.contains(spec.name),
                    schema.element_open.contains(spec.name)};
  if (const auto wide = schema.wide_integers.find(spec.name); wide != schema.wide_integers.end())
    field.wide_integer = wide->second;
  return field;
}

std::optional<DType> common_dtype(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::boolean || b == DType::boolean) return std::nullopt;
  return DType::float32;
}

JsonlSchema merge(const JsonlSchema& a, const JsonlSchema& b, const LineNames& names) {
  if (a.empty) return b;
  if (b.empty) return a;
  JsonlSchema merged;
  merged.empty = false;
  merged.first_line = std::min(a.first_line, b.first_line);
  merged.ignored = a.ignored;
  for (const auto& [name, reasons] : b.ignored) merged.ignored[name].insert(reasons.begin(), reasons.end());
  for (std::size_t i = 0; i < std::max(a.fields.size(), b.fields.size()); ++i) {
    const bool in_a = i < a.fields.size() && (i >= b.fields.size() || a.fields[i].name <= b.fields[i].name);
    const bool in_b = i < b.fields.size() && (i >= a.fields.size() || b.fields[i].name <= a.fields[i].name);
    if (!in_a || !in_b) {
      const JsonlSchema& has = in_a ? a : b;
      const std::string element = has.fields[i].dtype == DType::boolean ? "boolean" : "number";
      const bool elements = !is_counted(has.fields[i].kind);
      throw_conflict(
          names, has.fields[i].name,
          {elements ? "holds " + element + "s" : "is present", has.origins[i].kind},
          {elements ? "is missing, empty or not a " + element : "is missing", (in_a ? b : a).first_line});
    }
    append(merged, merge(schema_entry(a, i), schema_entry(b, i), names));
  }
  return merged;
}

std::string describe_skip_reasons(const std::set<SkipReason>& reasons) {
  return join(reasons, skip_reason_word);
}

std::string undecided_fields(const JsonlSchema& schema) {
  std::string text;
  for (const std::string& name : schema.kind_open) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

std::string describe_ignored_fields(const JsonlSchema& schema) {
  std::string text;
  for (const auto& [name, reasons] : schema.ignored) {
    text += (text.empty() ? "'" : ", '") + name + "' (" + describe_skip_reasons(reasons) + ")";
  }
  return text;
}

}  // namespace evenkeel
