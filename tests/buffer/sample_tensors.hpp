#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors/safetensors.hpp"

namespace evenkeel::testing_support {

/// Returns a safetensors file with one sample of group 1: tokens 5, 6 and 7, where 5 is the prompt.
inline std::string sample_tensors(std::int64_t index = 1) {
  const std::vector<std::int64_t> tokens{5, 6, 7};
  const std::vector<std::int64_t> offsets{0, 3};
  const std::vector<std::int64_t> one{1};
  const std::vector<std::int64_t> indexes{index};
  const auto tensor = [](const char* name, const std::vector<std::int64_t>& values) {
    return TensorView{name, DType::int64, {std::ssize(values)}, std::as_bytes(std::span(values))};
  };
  const std::vector<TensorView> sample{tensor("input_ids", tokens),   tensor("offsets", offsets),
                                       tensor("prompt_lengths", one), tensor("uid", one),
                                       tensor("index", indexes),      tensor("version", one)};
  return safetensors_bytes(sample, {{"evenkeel_fields", R"({"index": "sample", "version": "sample"})"}});
}

}  // namespace evenkeel::testing_support
