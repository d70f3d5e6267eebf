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

/// Whether it is an integer that float32 cannot hold exactly.
[[nodiscard]] bool is_wide_integer(const simdjson::dom::element& value);

/// The shape and element type of a value, found by walking it once.
struct Survey {
  std::vector<std::int64_t> dimensions;  ///< outermost first
  std::optional<std::size_t> leaf_depth;
  std::optional<DType> dtype;
  bool ragged = false;             ///< lists at one depth differ in length, or leaves differ in depth
  bool mixed = false;              ///< booleans and numbers
  bool has_wide_integers = false;  ///< float32 cannot hold one of its integers exactly
  std::set<LeftOut> others;        ///< what leaves are that are no numbers

  void walk(const simdjson::dom::element& value, std::size_t depth);

 private:
  void walk_leaf(const simdjson::dom::element& value, std::size_t depth);
  void add(DType found);
};

/// What a value makes: a field, or nothing, and then why.
using Inferred = std::variant<FieldView, std::set<LeftOut>>;

/// What the value of `name` makes in a rollout of so many tokens; of `rollout` nothing else is looked at.
/// Throws InputError at the line where it makes neither.
[[nodiscard]] Inferred infer_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                                   const simdjson::dom::element& value, const ToldFormats& told);
/// The same of a value that was surveyed, and whose format is not told.
[[nodiscard]] Inferred infer_field(const JsonLine& line, const RolloutLine& rollout, const std::string& name,
                                   const Survey& survey);

/// Adds what a value makes to the schema of its line; names are added in order.
void append(JsonlSchema& schema, const std::string& name, Inferred inferred);

}  // namespace evenkeel
