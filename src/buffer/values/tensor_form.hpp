#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace evenkeel {

/// Element type of a value: a number that is part of the store's format, so its meaning never changes.
using ValueType = std::uint8_t;

/// Shape of a value. The sizes are stored inline, since a store may have millions of values.
class TensorShape {
 public:
  static constexpr std::size_t max_axes = 8;
  using value_type = std::int64_t;
  using const_iterator = const std::int64_t*;

  TensorShape() = default;
  /// Precondition: there are at most max_axes sizes.
  TensorShape(std::initializer_list<std::int64_t> sizes) {
    for (const std::int64_t size : sizes) push_back(size);
  }

  /// Precondition: size() < max_axes.
  void push_back(std::int64_t size) noexcept { sizes_[axes_++] = size; }
  [[nodiscard]] std::size_t size() const noexcept { return axes_; }
  [[nodiscard]] const std::int64_t* begin() const noexcept { return sizes_.data(); }
  [[nodiscard]] const std::int64_t* end() const noexcept { return sizes_.data() + axes_; }
  [[nodiscard]] std::int64_t operator[](std::size_t axis) const noexcept { return sizes_[axis]; }
  [[nodiscard]] std::int64_t& operator[](std::size_t axis) noexcept { return sizes_[axis]; }

  friend bool operator==(const TensorShape&, const TensorShape&) = default;

 private:
  std::array<std::int64_t, max_axes> sizes_{};
  std::uint8_t axes_ = 0;
};

/// Element type and shape of a value. The value's bytes are its elements in C order.
struct TensorForm {
  ValueType type = 0;
  TensorShape shape{};

  friend bool operator==(const TensorForm&, const TensorForm&) = default;
};

/// Returns the type with this name: a safetensors name, or "BYTES" for bytes that the store does not
/// interpret. Returns nullopt if no type has this name.
[[nodiscard]] std::optional<ValueType> parse_value_type(std::string_view name) noexcept;
/// Returns the name of a type. Precondition: the type is a result of parse_value_type().
[[nodiscard]] std::string_view value_type_name(ValueType type) noexcept;
[[nodiscard]] bool is_value_type(std::int64_t number) noexcept;
[[nodiscard]] std::int64_t bytes_of_element(ValueType type) noexcept;
/// Returns the number of bytes of a value. Returns nullopt if a dimension is negative, or if the number would
/// exceed 2^48 without the dimensions of size 0.
[[nodiscard]] std::optional<std::int64_t> bytes_of(const TensorForm& form) noexcept;

}  // namespace evenkeel
