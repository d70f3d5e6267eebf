#include "buffer/values/tensor_form.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace evenkeel {
namespace {

// Types and the sizes of their elements in bytes. A type's number is its position in this list. Stores
// contain these numbers, so the order must not change.
constexpr std::array<std::pair<std::string_view, std::int64_t>, 17> value_types{{{"BYTES", 1},
                                                                                 {"BOOL", 1},
                                                                                 {"U8", 1},
                                                                                 {"I8", 1},
                                                                                 {"U16", 2},
                                                                                 {"I16", 2},
                                                                                 {"F16", 2},
                                                                                 {"BF16", 2},
                                                                                 {"U32", 4},
                                                                                 {"I32", 4},
                                                                                 {"F32", 4},
                                                                                 {"U64", 8},
                                                                                 {"I64", 8},
                                                                                 {"F64", 8},
                                                                                 {"C64", 8},
                                                                                 {"F8_E4M3", 1},
                                                                                 {"F8_E5M2", 1}}};
constexpr std::int64_t max_bytes_of_value = std::int64_t{1} << 48;

}  // namespace

std::optional<ValueType> parse_value_type(std::string_view name) noexcept {
  const auto* const found =
      std::ranges::find(value_types, name, &std::pair<std::string_view, std::int64_t>::first);
  if (found == value_types.end()) return std::nullopt;
  return static_cast<ValueType>(found - value_types.begin());
}

std::string_view value_type_name(ValueType type) noexcept {
  return value_types[type].first;
}

bool is_value_type(std::int64_t number) noexcept {
  return number >= 0 && number < std::ssize(value_types);
}

std::int64_t bytes_of_element(ValueType type) noexcept {
  return value_types[type].second;
}

std::optional<std::int64_t> bytes_of(const TensorForm& form) noexcept {
  std::int64_t bytes = bytes_of_element(form.type);
  bool is_empty = false;
  for (const std::int64_t dimension : form.shape) {
    if (dimension < 0 || (dimension > 0 && bytes > max_bytes_of_value / dimension)) return std::nullopt;
    is_empty = is_empty || dimension == 0;
    bytes *= std::max<std::int64_t>(dimension, 1);
  }
  return is_empty ? 0 : bytes;
}

}  // namespace evenkeel
