#include "buffer/intake/received_fields.hpp"

#include <simdjson.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/json_lines.hpp"

namespace evenkeel {
namespace {

using simdjson::dom::element;

Uid parse_line_uid(const JsonLine& line, const element& value) {
  std::string_view text;
  std::int64_t integer = 0;
  std::uint64_t large = 0;
  if (!value.get(text)) return std::string(text);
  if (!value.get(integer)) return integer;
  if (!value.get(large)) return large;
  line.fail("has a uid that is neither a string nor an integer", "Send the uid of a stored sample");
}

std::int64_t parse_index(const JsonLine& line, const element& value) {
  std::int64_t index = 0;
  if (value.get(index)) line.fail("has an index that is not an integer", "Send the index of a stored sample");
  return index;
}

[[noreturn]] void reject_field(const JsonLine& line, const std::string& name,
                               std::span<const std::string> late_fields) {
  line.fail("has the field '" + name + "', which is not a late field of this buffer",
            late_fields.empty() ? "List the fields that are added later when you start the buffer "
                                  "(--late-fields, or stream.late_fields "
                                  "for a job's own buffer)"
                                : "Send only its late fields: " + join(late_fields));
}

ReceivedFields parse_fields_line(const JsonLine& line, std::span<const std::string> late_fields) {
  ReceivedFields fields{{}, {}, line.ref.number};
  std::set<std::string_view> keys;
  for (const auto& [key, value] : line.object) {
    if (!keys.insert(key).second)
      line.fail("has the key '" + std::string(key) + "' twice", "Remove one of them");
    const std::string name(key);
    if (name == "uid") {
      fields.key.uid = parse_line_uid(line, value);
    } else if (name == "index") {
      fields.key.index = parse_index(line, value);
    } else if (std::ranges::find(late_fields, name) == late_fields.end()) {
      reject_field(line, name, late_fields);
    } else {
      fields.values.emplace(name, simdjson::minify(value));
    }
  }
  constexpr const char* hint = R"(Send {"uid": "q1", "index": 0, "NAME": VALUE})";
  if (!keys.contains("uid")) line.fail("has no uid", hint);
  if (!keys.contains("index")) line.fail("has no index", hint);
  if (fields.values.empty()) line.fail("has no field to add", hint);
  return fields;
}

}  // namespace

std::vector<ReceivedFields> read_fields(const InputFile& body, std::span<const std::string> late_fields) {
  std::vector<ReceivedFields> fields;
  for_each_json_line(body, scan_lines(body).lines,
                     [&](const JsonLine& line) { fields.push_back(parse_fields_line(line, late_fields)); });
  return fields;
}

std::uint32_t hash_value(std::string_view value) {
  return static_cast<std::uint32_t>(hash_of_bytes(std::as_bytes(std::span(value))));
}

void append_field(std::string& body, const std::string& name, const std::string& value) {
  body.append(body.empty() ? "" : ",").append(nlohmann::json(name).dump()).append(":").append(value);
}

std::string add_fields_to_line(std::string_view line, std::string_view fields) {
  const std::size_t end = line.rfind('}');
  return std::string(line.substr(0, end)).append(fields).append(line.substr(end));
}

ReceivedSamples make_samples_with_fields(std::span<const ReceivedFields* const> fields,
                                         std::span<const SampleLengths> lengths) {
  RequestBody body;
  std::int64_t lines = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    // Add blank lines before the sample's line so that it has the same line number as in the request, to
    // which errors refer.
    std::string line(static_cast<std::size_t>(fields[i]->line - lines), '\n');
    std::string keys = R"("uid":0,"index":0,"version":0)";
    for (const auto& [name, value] : fields[i]->values) append_field(keys, name, value);
    line.append(make_line_with_zero_tokens(keys, lengths[i].prompt, lengths[i].response));
    body.write(line);
    lines = fields[i]->line;
  }
  ReceivedSamples samples(std::move(body));
  for (const auto& [name, reasons] : samples.schema().ignored) {
    throw InputError(fields.front()->error_location(),
                     "has a value of field '" + name +
                         "' that cannot be stored as a field: " + describe_skip_reasons(reasons),
                     "Send a number, or a list with one number per token or response token");
  }
  return samples;
}

JsonlSchema select_fields(const JsonlSchema& schema, std::span<const std::string> fields) {
  JsonlSchema part;
  for (std::size_t f = 0; f < schema.fields.size(); ++f)
    if (std::ranges::find(fields, schema.fields[f].name) != fields.end())
      append(part, schema_entry(schema, f));
  part.empty = part.fields.empty();
  return part;
}

JsonlSchema combine_disjoint_schemas(const JsonlSchema& a, const JsonlSchema& b) {
  std::map<std::string, SchemaEntry> fields;
  for (const JsonlSchema* const schema : {&a, &b})
    for (std::size_t f = 0; f < schema->fields.size(); ++f)
      fields.emplace(schema->fields[f].name, schema_entry(*schema, f));
  JsonlSchema all;
  all.empty = a.empty && b.empty;
  for (auto& [name, field] : fields) append(all, std::move(field));
  return all;
}

JsonlSchema join_late_field_schemas(const JsonlSchema& so_far, const JsonlSchema& more, bool may_widen) {
  std::vector<std::string> known;
  std::vector<std::string> fresh;
  std::vector<std::string> others;
  for (const FieldSpec& field : more.fields)
    (so_far.has_field(field.name) ? known : fresh).push_back(field.name);
  for (const FieldSpec& field : so_far.fields)
    if (!more.has_field(field.name)) others.push_back(field.name);
  const JsonlSchema joined =
      join_schemas(select_fields(so_far, known), select_fields(more, known), may_widen);
  return combine_disjoint_schemas(combine_disjoint_schemas(joined, select_fields(more, fresh)),
                                  select_fields(so_far, others));
}

}  // namespace evenkeel
