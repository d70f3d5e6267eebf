#pragma once

#include <functional>
#include <map>
#include <string>

#include "evenkeel/batch/field.hpp"

namespace evenkeel {

/// What fields have one row for, by name: what a file says of its tensors under tensor_names::field_kinds, as
/// a JSON object of name_of() words, such as {"data_source": "text"}.
using FieldKinds = std::map<std::string, FieldKind, std::less<>>;

[[nodiscard]] std::string text_of(const FieldKinds& kinds);

/// The kinds that a text tells. What is not as text_of() writes it tells nothing.
[[nodiscard]] FieldKinds parsed_kinds(const std::string& text);

}  // namespace evenkeel
