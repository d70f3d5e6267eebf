#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "evenkeel/batch/dtype.hpp"
#include "io/jsonl/json_lines.hpp"
#include "io/jsonl/rollout_line.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// Returns whether the value is an integer that float32 cannot represent exactly.
[[nodiscard]] bool is_integer_inexact_in_float32(const simdjson::dom::element& value);

/// Shape and element type of a value, determined in one pass over its elements.
struct Survey {
  std::vector<std::int64_t> dimensions;  ///< sizes of the nested lists, outermost first
  /// Number of lists that enclose each leaf. A leaf is a value that is not a list.
  std::optional<std::size_t> leaf_depth;
  std::optional<DType> dtype;
  bool ragged = false;             ///< whether lists at the same depth differ in length, or leaves in depth
  bool mixed = false;              ///< whether the value has both booleans and numbers
  bool has_wide_integers = false;  ///< whether it has an integer that float32 cannot represent exactly
  std::set<SkipReason> others;     ///< kinds of leaves that are neither numbers nor booleans

  /// Adds a value that is nested in `depth` lists. `depth` is 0 for the field's value as a whole.
  void walk(const simdjson::dom::element& value, std::size_t depth);

 private:
  void walk_leaf(const simdjson::dom::element& value, std::size_t depth);
  void merge_dtype(DType found);
};

/// Result of inferring a field from a value: the field, or the reasons why the value does not form one.
using Inferred = std::variant<SchemaEntry, std::set<SkipReason>>;

/// Infers the field `name` from its value in one line. Uses only the token counts of `rollout`. Throws
/// InputError at the line if the value is malformed.
[[nodiscard]] Inferred infer_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                                   const simdjson::dom::element& value, const DeclaredFormats& declared);
/// Infers a field from a value that has already been surveyed and whose format is not declared. Precondition:
/// the value does not have both numbers (or booleans) and other leaves.
[[nodiscard]] Inferred infer_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                                   const Survey& survey);

/// Adds the result for one value to the schema of its line. Call this in ascending order of `name`.
void append(JsonlSchema& schema, const std::string& name, Inferred inferred);

}  // namespace evenkeel
