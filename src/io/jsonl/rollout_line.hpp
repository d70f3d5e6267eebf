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

/// A key of a line and its value.
using KeyValue = std::pair<std::string_view, simdjson::dom::element>;

/// A rollout's parts, as views into the parsed line.
struct RolloutLine {
  simdjson::dom::array prompt;
  simdjson::dom::array response;
  std::int64_t prompt_tokens = 0;
  std::int64_t response_tokens = 0;
  std::uint64_t group = 0;
  std::vector<KeyValue> fields;  ///< everything but the three keys above, sorted by name

  /// Takes the line apart; reuses the memory of `fields`. Tokens are counted, not looked at. Throws
  /// InputError at the line when a key is there twice, when prompt_ids or response_ids is missing or no list,
  /// or when the uid is neither text nor an integer.
  void assign(const JsonLine& line);
};

/// Throws InputError at the line when a key is there twice.
void require_unique_keys(const JsonLine& line);

/// The group that the line's uid stands for; see read_samples(). Throws InputError at the line where it is
/// neither text nor an integer.
[[nodiscard]] std::uint64_t group_of(const JsonLine& line);

/// The line's uid. Throws likewise.
[[nodiscard]] Uid uid_of(const JsonLine& line);

}  // namespace evenkeel
