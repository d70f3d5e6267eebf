#pragma once

#include <cstddef>
#include <optional>

#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// A field and what is open about it: one entry of a schema.
struct FieldView {
  FieldSpec spec;
  FieldOrigin origin;
  bool kind_open = false;
  bool element_open = false;
};

/// Adds an entry; names are added in order.
void append(JsonlSchema& schema, FieldView field);

[[nodiscard]] FieldView field_view(const JsonlSchema& schema, std::size_t index);

/// The dtype that holds the elements of both; none when booleans meet numbers.
[[nodiscard]] std::optional<DType> join(DType a, DType b);

}  // namespace evenkeel
