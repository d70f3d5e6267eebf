#pragma once

#include <filesystem>
#include <vector>

#include "buffer/store/store.hpp"
#include "buffer/values/value_index.hpp"

namespace evenkeel {

/// Writes all values of a store to a file. The file appears completely or not at all, and survives a power
/// failure. The store must not change during the call. Throws IoError, and the errors of reading the store.
void write_value_file(const std::filesystem::path& path, const ValueIndex& index, const Store& store);
/// Reads a file written by write_value_file(). Throws IoError if it cannot be read, and InputError if it has
/// a different format or is damaged.
[[nodiscard]] std::vector<NewRecord> read_value_file(const std::filesystem::path& path);

}  // namespace evenkeel
