#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/tensor_file.hpp"

namespace evenkeel {

/// Which layers a pipeline stage has of each field of layers, in the order in which its tensors have them.
using DumpedLayers = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

/// What a file of a dump tells of them (layers_name): nothing where it has no such metadata. Throws
/// InputError that names the file where these are no lists of layers, each named once, by field.
[[nodiscard]] DumpedLayers layers_told_by(const TensorFile& file);

/// Whether they count from 0, one by one.
[[nodiscard]] bool count_up(const std::vector<std::int64_t>& layers) noexcept;

}  // namespace evenkeel
