#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "evenkeel/pack/padded.hpp"

namespace evenkeel::golden {

using nlohmann::json;
using Integers = std::vector<std::int64_t>;

/// Returns the numbers of a nested list, in order.
template <typename T>
void flatten_into(const json& nested, std::vector<T>& flat) {
  if (!nested.is_array()) return flat.push_back(nested.get<T>());
  for (const json& inner : nested) flatten_into(inner, flat);
}

template <typename T>
std::vector<T> flatten(const json& nested) {
  std::vector<T> flat;
  flatten_into(nested, flat);
  return flat;
}

/// Returns a flat row-major list as nested lists with the given shape.
template <typename T>
json nest(std::span<const T> flat, std::span<const std::size_t> shape) {
  if (shape.size() == 1) return std::vector<T>(flat.begin(), flat.end());
  json nested = json::array();
  const std::size_t step = shape[0] == 0 ? 0 : flat.size() / shape[0];
  for (std::size_t i = 0; i < shape[0]; ++i) {
    nested.push_back(nest(flat.subspan(i * step, step), shape.subspan(1)));
  }
  return nested;
}

/// A [batch, seq] attention mask that owns its entries.
class Mask {
 public:
  explicit Mask(const json& rows) : entries_(flatten<std::uint8_t>(rows)), batch_(rows.size()) {
    seq_ = batch_ == 0 ? 0 : rows.at(0).size();
  }

  [[nodiscard]] PaddedMask view() const {
    return {static_cast<std::int64_t>(batch_), static_cast<std::int64_t>(seq_), entries_};
  }
  [[nodiscard]] Integers lengths() const { return lengths_of(view()); }
  /// Returns the tokens of a padded [batch, seq] tensor, concatenated.
  [[nodiscard]] Integers remove_padding_of(const json& padded) const {
    const Integers flat = flatten<std::int64_t>(padded);
    Integers ragged(count());
    remove_padding(view(), sizeof(std::int64_t), std::as_bytes(std::span(flat)),
                   std::as_writable_bytes(std::span(ragged)));
    return ragged;
  }

 private:
  [[nodiscard]] std::size_t count() const {
    std::size_t tokens = 0;
    for (const std::int64_t length : lengths()) tokens += static_cast<std::size_t>(length);
    return tokens;
  }

  std::vector<std::uint8_t> entries_;
  std::size_t batch_ = 0;
  std::size_t seq_ = 0;
};

}  // namespace evenkeel::golden
