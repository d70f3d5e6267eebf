#pragma once

#include <filesystem>
#include <vector>

#include "buffer/store/store.hpp"
#include "buffer/values/value_index.hpp"

namespace evenkeel {

/// Writes all values of a store to a file, which appears completely or not at all, and survives a loss of
/// power. The store must not change meanwhile. Throws IoError, and what reading the store throws.
void write_value_file(const std::filesystem::path& path, const ValueIndex& index, const Store& store);
/// Reads such a file. Throws IoError, and InputError if it is not such a file or is damaged.
[[nodiscard]] std::vector<NewRecord> read_value_file(const std::filesystem::path& path);

}  // namespace evenkeel
