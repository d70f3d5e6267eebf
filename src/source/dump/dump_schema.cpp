#include "source/dump/dump_schema.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "io/jsonl/json_lines.hpp"

namespace evenkeel {
namespace {

using Json = nlohmann::json;

constexpr std::array cut_words{std::pair{CpLayout::zigzag, std::string_view("zigzag")},
                               std::pair{CpLayout::contiguous, std::string_view("contiguous")}};

Json json_of_point(const GridPoint& point) {
  return {{"dp", point.dp}, {"cp", point.cp}, {"tp", point.tp}, {"pp", point.pp}};
}

Json json_of_field(const DumpedField& field) {
  Json json{{"name", field.spec.name},
            {"kind", std::string(name_of(field.spec.kind))},
            {"dtype", std::string(name_of(field.spec.dtype))},
            {"trailing", field.spec.trailing}};
  if (field.layers) json["layers"] = *field.layers;
  if (!field.cut_by.empty()) json["cut_by"] = field.cut_by;
  return json;
}

/// Parses the text that text_of() returns.
class SchemaReader {
 public:
  using Element = simdjson::dom::element;
  using Object = simdjson::dom::object;

  explicit SchemaReader(const std::string& path) : path_(path) {}

  [[nodiscard]] DumpSchema read(const Object& object) const {
    DumpSchema schema;
    if (const std::int64_t format = integer(object, "format"); format != DumpSchema::current_format) {
      throw InputError(path_,
                       "belongs to a dump of format " + std::to_string(format) + ", but only format " +
                           std::to_string(DumpSchema::current_format) + " can be read",
                       "Dump the job again with this version");
    }
    schema.step = integer(object, "step");
    schema.samples = integer(object, "samples");
    schema.profile = text(object, "profile");
    if (object["flexible"].get(schema.flexible)) fail("'flexible' is neither true nor false");
    schema.mesh = point(object, "mesh", 1);
    schema.place = point(object, "place", 0);
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp})
      if (schema.place[axis] >= schema.mesh[axis]) fail("'place' is outside 'mesh'");
    schema.writers = integer(object, "writers", 1);
    schema.micro_batches = integer(object, "micro_batches", 1);
    schema.micro_batch = integer(object, "micro_batch");
    schema.context = context(object);
    schema.cut = cut(text(object, "cut"));
    schema.fields = fields(list(object, "fields"));
    schema.prompts = integers(list(object, "prompts"), "prompts");
    schema.groups = groups(list(object, "groups"));
    if (schema.groups.size() != schema.prompts.size()) fail("'prompts' and 'groups' have different lengths");
    return schema;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(path_, "has metadata " + std::string(DumpSchema::metadata_name) + " in which " + what,
                     "Check that evenkeel run --dump wrote the file, and that it was not modified");
  }

 private:
  [[nodiscard]] std::int64_t integer(const Object& object, std::string_view name,
                                     std::int64_t least = 0) const {
    std::int64_t value = 0;
    if (object[name].get(value) || value < least)
      fail("'" + std::string(name) + "' is not an integer of at least " + std::to_string(least));
    return value;
  }

  [[nodiscard]] std::string text(const Object& object, std::string_view name) const {
    std::string_view value;
    if (object[name].get(value)) fail("'" + std::string(name) + "' is not a string");
    return std::string(value);
  }

  [[nodiscard]] simdjson::dom::array list(const Object& object, std::string_view name) const {
    simdjson::dom::array values;
    if (object[name].get(values)) fail("'" + std::string(name) + "' is not a list");
    return values;
  }

  [[nodiscard]] Object read_object(const Object& object, std::string_view name) const {
    Object inner;
    if (object[name].get(inner)) fail("'" + std::string(name) + "' is not an object");
    return inner;
  }

  [[nodiscard]] GridPoint point(const Object& object, std::string_view name, std::int64_t least) const {
    const Object inner = read_object(object, name);
    GridPoint point;
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp}) {
      const std::int64_t value = integer(inner, name_of(axis), least);
      if (value > std::numeric_limits<int>::max()) fail("'" + std::string(name) + "' is too large");
      point[axis] = static_cast<int>(value);
    }
    return point;
  }

  [[nodiscard]] DumpedContext context(const Object& object) const {
    const Object inner = read_object(object, "context");
    const DumpedContext context{integer(inner, "first"), integer(inner, "size", 1), integer(inner, "rank"),
                                integer(inner, "number")};
    if (context.rank >= context.size || context.size > std::numeric_limits<int>::max())
      fail("'context' has rank " + std::to_string(context.rank) + " in a group of size " +
           std::to_string(context.size));
    return context;
  }

  [[nodiscard]] CpLayout cut(const std::string& word) const {
    for (const auto& [layout, name] : cut_words)
      if (word == name) return layout;
    fail("'cut' is '" + word + "'; it must be zigzag or contiguous");
  }

  [[nodiscard]] std::vector<std::int64_t> integers(const simdjson::dom::array& list,
                                                   const std::string& name) const {
    std::vector<std::int64_t> values;
    for (const Element element : list) {
      std::int64_t value = -1;
      if (element.get(value) || value < 0) fail("'" + name + "' is not a list of integers of at least 0");
      values.push_back(value);
    }
    return values;
  }

  [[nodiscard]] std::vector<std::optional<std::uint64_t>> groups(const simdjson::dom::array& list) const {
    std::vector<std::optional<std::uint64_t>> values;
    for (const Element element : list) {
      std::uint64_t value = 0;
      if (element.is_null()) {
        values.emplace_back();
      } else if (element.get(value) || is_single_sample_group(value)) {
        fail("'groups' has an entry that is neither null nor an integer below 2^63");
      } else {
        values.emplace_back(value);
      }
    }
    return values;
  }

  [[nodiscard]] std::vector<DumpedField> fields(const simdjson::dom::array& list) const {
    std::vector<DumpedField> fields;
    for (const Element element : list) {
      Object object;
      if (element.get(object)) fail("'fields' has an entry that is not an object");
      fields.push_back(field(object));
    }
    const auto name = [](const DumpedField& field) -> const std::string& { return field.spec.name; };
    if (std::ranges::adjacent_find(fields, std::ranges::greater_equal(), name) != fields.end())
      fail("'fields' is not sorted by name, or has a name twice");
    return fields;
  }

  [[nodiscard]] DumpedField field(const Object& object) const {
    DumpedField field;
    FieldSpec& spec = field.spec;
    spec.name = text(object, "name");
    const std::string kind = text(object, "kind");
    const std::string dtype = text(object, "dtype");
    const FieldRule* const rule = find_rule(kind);
    const auto* const of_dtype = std::ranges::find(all_dtypes, dtype, [](DType d) { return name_of(d); });
    if (rule == nullptr || of_dtype == all_dtypes.end())
      fail("field '" + spec.name + "' has an unknown " +
           (rule == nullptr ? "kind, '" + kind + "'" : "dtype, '" + dtype + "'"));
    spec.kind = rule->kind;
    spec.dtype = *of_dtype;
    spec.trailing = integers(list(object, "trailing"), "trailing");
    if (!object["cut_by"].error()) field.cut_by = text(object, "cut_by");
    if (!object["layers"].error()) field.layers = layers(object, spec);
    return field;
  }

  [[nodiscard]] std::vector<std::int64_t> layers(const Object& object, const FieldSpec& spec) const {
    std::vector<std::int64_t> layers = integers(list(object, "layers"), "layers");
    std::set<std::int64_t> named(layers.begin(), layers.end());
    const bool fits = !is_counted(spec.kind) && !spec.trailing.empty() && named.size() == layers.size() &&
                      (named.empty() || *named.rbegin() < spec.trailing.front());
    if (!fits) fail("the 'layers' of '" + spec.name + "' do not exist, or are repeated");
    return layers;
  }

  const std::string& path_;
};

}  // namespace

std::string text_of(const DumpSchema& schema) {
  Json json{{"format", DumpSchema::current_format},
            {"step", schema.step},
            {"samples", schema.samples},
            {"profile", schema.profile},
            {"flexible", schema.flexible},
            {"mesh", json_of_point(schema.mesh)},
            {"place", json_of_point(schema.place)},
            {"writers", schema.writers},
            {"micro_batches", schema.micro_batches},
            {"micro_batch", schema.micro_batch},
            {"context",
             {{"first", schema.context.first},
              {"size", schema.context.size},
              {"rank", schema.context.rank},
              {"number", schema.context.number}}},
            {"prompts", schema.prompts}};
  const auto layout_of = [](const auto& word) { return word.first; };
  json["cut"] = std::string(std::ranges::find(cut_words, schema.cut, layout_of)->second);
  json["fields"] = Json::array();
  for (const DumpedField& field : schema.fields) json["fields"].push_back(json_of_field(field));
  json["groups"] = Json::array();
  for (const auto& group : schema.groups) json["groups"].push_back(group ? Json(*group) : Json());
  return json.dump();
}

DumpSchema parse_dump_schema(const TensorFile& file) {
  const auto text = file.metadata().find(std::string(DumpSchema::metadata_name));
  if (text == file.metadata().end()) {
    throw InputError(file.path(),
                     "is not a file of a dump, or was written by an older version: its metadata has no " +
                         std::string(DumpSchema::metadata_name) + ", which says what it contains",
                     "Dump the job again with this version");
  }
  const SchemaReader reader(file.path());
  const JsonText json(text->second);
  if (!json.object()) reader.fail("the value is not a JSON object");
  return reader.read(*json.object());
}

}  // namespace evenkeel
