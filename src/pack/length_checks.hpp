#pragma once

#include <cstdint>
#include <string>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Throws InputError naming sequence `index` unless 0 <= prompt <= length.
inline void require_valid_prompt(std::int64_t index, std::int64_t prompt, std::int64_t length) {
  if (prompt >= 0 && prompt <= length) return;
  throw InputError("sequence " + std::to_string(index),
                   "has a prompt of " + format_plain_count(prompt, "token") +
                       "; the prompt's length must be from 0 to that of the sequence, " +
                       std::to_string(length));
}

}  // namespace evenkeel
