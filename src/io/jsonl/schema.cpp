#include "io/jsonl/schema.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/field_inference.hpp"
#include "io/jsonl/json_lines.hpp"
#include "io/jsonl/rollout_line.hpp"

namespace evenkeel {
namespace {

JsonlSchema schema_of_line(const JsonLine& line, const RolloutLine& rollout, const ToldFormats& told) {
  JsonlSchema schema;
  schema.empty = false;
  schema.first_line = line.ref.number;
  for (const KeyValue& entry : rollout.fields) {
    const std::string name(entry.first);
    append(schema, name, infer_field(line, rollout, name, entry.second, told));
  }
  return schema;
}

}  // namespace

JsonlSchema infer_schema(const LineFiles& files, std::span<const LineRef> lines,
                         std::span<std::int64_t> tokens, const ToldFormats& told) {
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

void require_told_fields(const JsonlSchema& schema, const ToldFormats& told, const std::string& source) {
  for (const auto& [name, format] : told) {
    if (schema.empty || std::ranges::find(schema.fields, name, &FieldSpec::name) != schema.fields.end())
      continue;
    throw InputError(
        source, "no line has a field '" + name + "', which should be read as " + std::string(name_of(format)),
        "Bring the field, or do not set how it is written");
  }
}

}  // namespace evenkeel
