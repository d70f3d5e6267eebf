#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace evenkeel {

/// Bytes that this process can take before the system would have to end a process for lack of memory: what
/// the machine has free or can free, swap included, and what the limits of this process's control groups
/// (version 1 or 2, up to the root) leave, page cache not counted. A 64th of each is kept back, since others
/// take memory too. Never below 0; nothing where the system does not tell. `root` stands for the root folder.
/// Takes some 0.1 ms.
[[nodiscard]] std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

/// Throws LimitError, with both numbers, when `bytes` are more than available_memory(). Linux grants memory
/// that it does not have and ends a process when it is written to: this asks before.
void require_memory(std::size_t bytes);

}  // namespace evenkeel
