#pragma once

#include <filesystem>
#include <vector>

#include "buffer/store/store.hpp"
#include "buffer/values/value_index.hpp"

namespace evenkeel {

/// Writes all values of a store to a file, atomically and durably. The store must not change during the call.
/// Throws IoError if the file cannot be written or the store cannot be read, and InputError if the store is
/// damaged.
void write_value_file(const std::filesystem::path& path, const ValueIndex& index, const Store& store);
/// Reads a file written by write_value_file(). Throws IoError if it cannot be read, and InputError if it has
/// a different format or is damaged.
[[nodiscard]] std::vector<NewRecord> read_value_file(const std::filesystem::path& path);

}  // namespace evenkeel
