#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/jsonl/json_lines.hpp"

namespace evenkeel {

inline constexpr std::string_view uid_key = "uid";
inline constexpr std::string_view prompt_key = "prompt_ids";
inline constexpr std::string_view response_key = "response_ids";

/// A key of a line's object, and its value.
using KeyValue = std::pair<std::string_view, simdjson::dom::element>;

/// Parts of a rollout, as views into the parsed line.
struct RolloutLine {
  simdjson::dom::array prompt;
  simdjson::dom::array response;
  std::int64_t prompt_tokens = 0;
  std::int64_t response_tokens = 0;
  std::uint64_t group = 0;
  std::vector<KeyValue> fields;  ///< all keys except uid, prompt_ids and response_ids, sorted by name

  /// Assigns the parts of the line, reusing the memory of `fields`. Counts the tokens but does not check
  /// them. Throws InputError at the line if a key is repeated, if prompt_ids or response_ids is missing or
  /// not a list, or if the uid is not a string, an integer or null.
  void assign(const JsonLine& line);
};

/// Throws InputError at the line if a key is repeated.
void require_unique_keys(const JsonLine& line);

/// Returns the group of the line's uid; see read_samples(). Throws InputError at the line if the uid is
/// not a string, an integer or null.
[[nodiscard]] std::uint64_t group_of(const JsonLine& line);

/// Returns the line's uid, or std::monostate if it is missing or null. Throws InputError at the line if the
/// uid is anything but a string, an integer or null.
[[nodiscard]] Uid uid_of(const JsonLine& line);

}  // namespace evenkeel
