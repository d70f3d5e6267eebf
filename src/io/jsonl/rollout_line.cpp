#include "io/jsonl/rollout_line.hpp"

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>

namespace evenkeel {
namespace {

simdjson::dom::array token_list(const JsonLine& line, std::string_view key) {
  simdjson::dom::element value;
  if (line.object.at_key(key).get(value)) {
    const bool is_to_be_converted =
        !line.object.at_key("input_ids").get(value) || !line.object.at_key("messages").get(value);
    line.fail("has no " + std::string(key),
              std::string("A rollout needs prompt_ids and response_ids") +
                  (is_to_be_converted ? "; python3 -m evenkeel.convert makes them from input_ids with a mask "
                                        "or labels, or from chats"
                                      : ""));
  }
  simdjson::dom::array list;
  if (value.get(list))
    line.fail(std::string(key) + " is " + text_of(value) + "; it must be a list of tokens");
  return list;
}

void sort_and_require_unique(const JsonLine& line, std::vector<KeyValue>& fields) {
  std::ranges::sort(fields, {}, &KeyValue::first);
  const auto twice = std::ranges::adjacent_find(fields, {}, &KeyValue::first);
  if (twice != fields.end())
    line.fail("has the key '" + std::string(twice->first) + "' twice", "Remove one of them");
}

/// Fills `fields` with all keys except uid, prompt_ids and response_ids, sorted by name. Throws InputError if
/// a key is repeated.
void collect_fields(const JsonLine& line, std::vector<KeyValue>& fields) {
  fields.clear();
  for (const auto [key, value] : line.object) fields.emplace_back(key, value);
  sort_and_require_unique(line, fields);
  std::erase_if(fields, [](const KeyValue& field) {
    return field.first == uid_key || field.first == prompt_key || field.first == response_key;
  });
}

/// Passes the line's uid to `visit`, and returns the result. The uid is a string, an integer, or
/// std::monostate if it is missing or null.
template <typename Visit>
auto visit_uid(const JsonLine& line, Visit visit) {
  simdjson::dom::element uid;
  if (line.object.at_key(uid_key).get(uid) || uid.is_null()) return visit(std::monostate{});
  if (std::string_view text; !uid.get(text)) return visit(text);
  if (std::int64_t value = 0; !uid.get(value)) return visit(value);
  if (std::uint64_t value = 0; !uid.get(value)) return visit(value);
  line.fail("uid is " + text_of(uid) + "; it must be a string or an integer");
}

}  // namespace

void RolloutLine::assign(const JsonLine& line) {
  collect_fields(line, fields);
  prompt = token_list(line, prompt_key);
  response = token_list(line, response_key);
  prompt_tokens = count_of(prompt);
  response_tokens = count_of(response);
  group = group_of(line);
}

void require_unique_keys(const JsonLine& line) {
  std::vector<KeyValue> fields;
  for (const auto [key, value] : line.object) fields.emplace_back(key, value);
  sort_and_require_unique(line, fields);
}

std::uint64_t group_of(const JsonLine& line) {
  return visit_uid(line, [&]<typename Value>(Value value) {
    if constexpr (std::is_same_v<Value, std::monostate>) {
      return own_group(line.ref.number);
    } else {
      return group_of_uid(value);
    }
  });
}

Uid uid_of(const JsonLine& line) {
  return visit_uid(line, []<typename Value>(Value value) {
    if constexpr (std::is_same_v<Value, std::string_view>) {
      return Uid(std::string(value));
    } else {
      return Uid(value);
    }
  });
}

}  // namespace evenkeel
