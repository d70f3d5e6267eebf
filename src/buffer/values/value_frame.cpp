#include "buffer/values/value_frame.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_set>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "stream/event.hpp"
#include "stream/ledger.hpp"

namespace evenkeel {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t alignment_of_values = 64;

[[noreturn]] void reject(const std::string& what,
                         const std::string& hint = "See docs/formats.md for the JSON of values") {
  throw InputError("body", what, hint);
}

ordered_json parse_object(std::string_view text) {
  ordered_json parsed = ordered_json::parse(text, nullptr, false);
  if (parsed.is_discarded()) reject("has malformed JSON");
  if (!parsed.is_object()) reject("has JSON that is not an object");
  return parsed;
}

/// Throws InputError if the object has a member that is not one of `names`.
void require_known_members(const ordered_json& in, std::initializer_list<std::string_view> names,
                           const std::string& whose) {
  for (const auto& [name, value] : in.items()) {
    if (std::ranges::find(names, name) == names.end())
      reject("has the unknown key '" + name + "' in " + whose);
  }
}

/// Throws LimitError if a request has so many values that their descriptions would take too much memory.
void require_few_values(std::size_t indexes, std::size_t fields) {
  if (fields == 0 || indexes <= max_values_of_frame / fields) return;
  throw LimitError("body",
                   "has " + format_plain_count(static_cast<std::int64_t>(indexes), "index", "indexes") +
                       " and " + format_plain_count(static_cast<std::int64_t>(fields), "field") +
                       "; a request may have at most " + std::to_string(max_values_of_frame) + " values",
                   "Send fewer values in a request");
}

std::int64_t parse_number(const ordered_json& value, const char* what, const std::string& whose = {}) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= most) return value.get<std::int64_t>();
  reject("has " + value.dump(-1, ' ', false, ordered_json::error_handler_t::replace).substr(0, 40) + " as " +
         what + (whose.empty() ? "" : " of " + whose) + "; it must be an integer of at least 0");
}

const ordered_json& require_list(const ordered_json& in, const char* name, const std::string& whose) {
  const auto found = in.find(name);
  if (found == in.end() || !found->is_array()) reject("has no list '" + std::string(name) + "' in " + whose);
  return *found;
}

std::vector<std::int64_t> parse_numbers(const ordered_json& list, const char* what) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(list.size());
  for (const ordered_json& number : list) numbers.push_back(parse_number(number, what));
  return numbers;
}

std::string describe_field(const std::string& name) {
  return "field '" + name.substr(0, 64) + "'";
}

void require_valid_name(const std::string& name) {
  if (!name.empty() && std::ssize(name) <= stream::max_name_bytes) return;
  reject("has a field whose name has " + format_plain_count(std::ssize(name), "byte") +
         "; it must have from 1 to " + std::to_string(stream::max_name_bytes));
}

ValueType parse_type(const ordered_json& name, const std::string& whose) {
  const std::optional<ValueType> type =
      name.is_string() ? parse_value_type(name.get_ref<const std::string&>()) : std::nullopt;
  if (!type) {
    reject("has dtype " + name.dump(-1, ' ', false, ordered_json::error_handler_t::replace).substr(0, 40) +
               " in " + whose,
           "Send a dtype of safetensors, or BYTES");
  }
  return *type;
}

TensorShape parse_shape(const ordered_json& given, const std::string& whose) {
  if (!given.is_array() || given.size() > TensorShape::max_axes) {
    reject("has a shape in " + whose + " that is not a list of at most " +
           std::to_string(TensorShape::max_axes) + " sizes");
  }
  TensorShape shape;
  for (const ordered_json& size : given) shape.push_back(parse_number(size, "a size", whose));
  return shape;
}

/// Calls set(i, item) for each of `count` indexes. The item is the member `shared` of `in`, which applies to
/// all indexes, or element i of the member `own`. Throws InputError unless `in` has exactly one of these
/// members.
template <typename Set>
void for_each_index(const ordered_json& in, const char* shared, const char* own, std::size_t count,
                    const std::string& whose, const Set& set) {
  const auto one = in.find(shared);
  const auto list = in.find(own);
  if ((one == in.end()) == (list == in.end()))
    reject("must have either '" + std::string(shared) + "' or '" + own + "' in " + whose + ", but not both");
  if (list != in.end() && (!list->is_array() || list->size() != count))
    reject("has '" + std::string(own) + "' in " + whose + " that is not a list of " + std::to_string(count) +
           ", one per index");
  for (std::size_t i = 0; i < count; ++i) set(i, one != in.end() ? *one : (*list)[i]);
}

FrameHead::Field parse_field(const std::string& name, const ordered_json& in, std::size_t indexes) {
  const std::string whose = describe_field(name);
  require_valid_name(name);
  if (!in.is_object()) reject("has " + whose + " that is not an object");
  require_known_members(in, {"dtype", "dtypes", "shape", "shapes"}, whose);
  FrameHead::Field field{name, std::vector<TensorForm>(indexes)};
  for_each_index(in, "dtype", "dtypes", indexes, whose, [&](std::size_t i, const ordered_json& type) {
    field.forms[i].type = parse_type(type, whose);
  });
  for_each_index(in, "shape", "shapes", indexes, whose, [&](std::size_t i, const ordered_json& shape) {
    field.forms[i].shape = parse_shape(shape, whose);
  });
  const ValueType opaque = *parse_value_type("BYTES");
  for (const TensorForm& form : field.forms) {
    if (form.type == opaque && form.shape.size() != 1)
      reject("has a shape with " +
                 format_plain_count(static_cast<std::int64_t>(form.shape.size()), "axis", "axes") +
                 " for the dtype BYTES in " + whose,
             "Send a shape with one size");
    if (!bytes_of(form)) reject("has a shape in " + whose + " of more bytes than a value can have");
  }
  return field;
}

/// Throws InputError unless the last range ends at or after its start, and starts at or after the end of the
/// range before it, if any.
void require_valid_order(std::span<const AxisRange> ranges, const std::string& whose) {
  const AxisRange& last = ranges.back();
  const auto describe = [](const AxisRange& range) {
    return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + "]";
  };
  const std::string what = "has range " + describe(last) + " of " + whose;
  if (last.begin > last.end) {
    reject(what + ", which ends before it starts",
           "Send ranges as [BEGIN, END], with END greater than or equal to BEGIN");
  }
  if (ranges.size() == 1) return;
  const AxisRange& previous = ranges[ranges.size() - 2];
  if (last.begin >= previous.end) return;
  reject(what + (last.end <= previous.begin ? ", which comes before" : ", which overlaps") +
             " the previous range, " + describe(previous),
         "Send ranges in ascending order, without overlaps");
}

std::vector<AxisRange> parse_ranges(const ordered_json& list, const std::string& whose) {
  if (!list.is_array()) reject("has ranges of " + whose + " that are not a list");
  std::vector<AxisRange> ranges;
  for (const ordered_json& range : list) {
    if (!range.is_array() || range.size() != 2)
      reject("has a range of " + whose + " that is not [BEGIN, END]");
    ranges.push_back({parse_number(range[0], "the start of a range", whose),
                      parse_number(range[1], "the end of a range", whose)});
    require_valid_order(ranges, whose);
  }
  return ranges;
}

AxisSlice parse_slice(const ordered_json& in, std::size_t indexes, const std::string& whose) {
  if (!in.is_object() || !in.contains("axis")) reject("has slices of " + whose + " without an 'axis'");
  require_known_members(in, {"axis", "ranges", "ranges_per_index"}, "slices of " + whose);
  AxisSlice slice{parse_number(in["axis"], "an axis", whose), {}};
  if (in.contains("ranges") && !in.contains("ranges_per_index")) {
    slice.ranges.push_back(parse_ranges(in["ranges"], whose));
    return slice;
  }
  for_each_index(
      in, "ranges", "ranges_per_index", indexes, "slices of " + whose,
      [&](std::size_t, const ordered_json& list) { slice.ranges.push_back(parse_ranges(list, whose)); });
  return slice;
}

std::vector<AxisSlice> parse_slices(const ordered_json& in, std::size_t indexes, const std::string& whose) {
  std::vector<AxisSlice> slices;
  if (in.is_array()) {
    for (const ordered_json& one : in) slices.push_back(parse_slice(one, indexes, whose));
  } else {
    slices.push_back(parse_slice(in, indexes, whose));
  }
  std::ranges::sort(slices, {}, &AxisSlice::axis);
  if (std::ranges::adjacent_find(slices, {}, &AxisSlice::axis) != slices.end())
    reject("has two slices of " + whose + " along the same axis");
  return slices;
}

std::vector<std::string> parse_names(const ordered_json& list) {
  std::vector<std::string> names;
  for (const ordered_json& name : list) {
    if (!name.is_string()) reject("has a field name that is not a string");
    names.push_back(name.get<std::string>());
    require_valid_name(names.back());
  }
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    reject("has " + describe_field(*twice) + " twice");
  return names;
}

void append_integers(std::string& out, std::span<const std::int64_t> shape) {
  out += '[';
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) out += ',';
    out += std::to_string(shape[axis]);
  }
  out += ']';
}

void append_type(std::string& out, ValueType type) {
  out.append("\"").append(value_type_name(type)).append("\"");
}

/// Appends a member with a single item if the items of all forms are equal, otherwise with a list of one item
/// per form.
template <typename Append>
void append_items(std::string& out, const std::string& name, const std::vector<TensorForm>& forms,
                  bool are_equal, const Append& append) {
  out.append("\"").append(name).append(are_equal ? "\":" : "s\":[");
  for (std::size_t i = 0; i < (are_equal ? 1 : forms.size()); ++i) {
    if (i > 0) out += ',';
    append(forms[i]);
  }
  if (!are_equal) out += ']';
}

void append_field(std::string& out, const FrameHead::Field& field) {
  const std::vector<TensorForm>& forms = field.forms;
  const auto all_have = [&](auto member) {
    return !forms.empty() && std::ranges::all_of(forms, [&](const TensorForm& form) {
      return form.*member == forms[0].*member;
    });
  };
  out.append(ordered_json(field.name).dump()).append(":{");
  append_items(out, "dtype", forms, all_have(&TensorForm::type),
               [&](const TensorForm& form) { append_type(out, form.type); });
  out += ',';
  append_items(out, "shape", forms, all_have(&TensorForm::shape),
               [&](const TensorForm& form) { append_integers(out, form.shape); });
  out += '}';
}

}  // namespace

FrameHead parse_frame_head(std::string_view text) {
  const ordered_json in = parse_object(text);
  require_known_members(in, {"indexes", "fields"}, "its JSON");
  FrameHead head{parse_numbers(require_list(in, "indexes", "its JSON"), "an index"), {}};
  std::unordered_set<std::int64_t> known;
  for (const std::int64_t index : head.indexes)
    if (!known.insert(index).second) reject("has index " + std::to_string(index) + " twice");
  const auto fields = in.find("fields");
  if (fields == in.end() || !fields->is_object()) reject("has no object 'fields' in its JSON");
  require_few_values(head.indexes.size(), fields->size());
  for (const auto& [name, field] : fields->items())
    head.fields.push_back(parse_field(name, field, head.indexes.size()));
  return head;
}

std::string encode_frame_start(const FrameHead& head) {
  std::string out(frame_prefix, '\0');
  out += "{\"indexes\":";
  append_integers(out, head.indexes);
  out += ",\"fields\":{";
  for (std::size_t i = 0; i < head.fields.size(); ++i) {
    if (i > 0) out += ',';
    append_field(out, head.fields[i]);
  }
  out += "}}";
  out.resize((out.size() + alignment_of_values - 1) / alignment_of_values * alignment_of_values, ' ');
  out.replace(0, frame_prefix, encode_size(out.size() - frame_prefix));
  return out;
}

std::string encode_size(std::uint64_t size) {
  std::string bytes(frame_prefix, '\0');
  for (std::size_t i = 0; i < frame_prefix; ++i) bytes[i] = static_cast<char>(size >> (8 * i));
  return bytes;
}

std::uint64_t decode_size(std::string_view bytes) noexcept {
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < frame_prefix; ++i)
    size |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return size;
}

ValueQuery parse_query(std::string_view text) {
  const ordered_json in = parse_object(text);
  require_known_members(in, {"indexes", "fields", "slices"}, "its JSON");
  ValueQuery query{parse_numbers(require_list(in, "indexes", "its JSON"), "an index"), {}};
  for (std::string& name : parse_names(require_list(in, "fields", "its JSON")))
    query.fields.push_back({std::move(name)});
  require_few_values(query.indexes.size(), query.fields.size());
  const ordered_json slices = in.value("slices", ordered_json::object());
  if (!slices.is_object()) reject("has 'slices' that are not an object");
  for (const auto& [name, slice] : slices.items()) {
    const auto field = std::ranges::find(query.fields, name, &ValueQuery::Field::name);
    if (field == query.fields.end())
      reject("has slices of " + describe_field(name) + ", which is not among its fields");
    field->slices = parse_slices(slice, query.indexes.size(), describe_field(name));
  }
  return query;
}

ValueSelection parse_selection(std::string_view text) {
  const ordered_json in = parse_object(text);
  if (in == ordered_json{{"all", true}}) return {};
  if (in.contains("all"))
    reject("has the key 'all' with another value than true, or with other keys",
           "Send {\"all\": true} to clear everything, or 'indexes' and optionally 'fields' without 'all'");
  require_known_members(in, {"indexes", "fields"}, "its JSON");
  ValueSelection selection{parse_numbers(require_list(in, "indexes", "its JSON"), "an index")};
  if (in.contains("fields")) selection.fields = parse_names(require_list(in, "fields", "its JSON"));
  return selection;
}

}  // namespace evenkeel
