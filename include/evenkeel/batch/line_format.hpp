#pragma once

#include <cstdint>
#include <string_view>

namespace evenkeel {

/// How JSON lines write a field where its lists do not tell that themselves.
enum class LineFormat : std::uint8_t {
  rows,   ///< [row, row, ...], any number of rows a sample: FieldKind::rows
  text,   ///< a text: FieldKind::text
  bytes,  ///< base64: FieldKind::bytes
  axes,   ///< [[x of token 0, x of token 1, ...], [y of token 0, ...]]: a row of all axes for each token
  runs,   ///< [[value, count], ...]: the value for so many tokens, one run after the other
};

[[nodiscard]] std::string_view name_of(LineFormat format) noexcept;

}  // namespace evenkeel
