#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace evenkeel {

/// Returns the number of bytes that this process can allocate before the system would have to kill a process
/// for lack of memory, or nullopt if the system does not report it. Never negative. Takes about 0.1 ms.
///
/// The result is the minimum of two limits, each reduced by 1/64 of its total as a reserve for other
/// processes:
/// - the memory that the machine has free or can make free, including swap;
/// - the memory that remains within the limits of this process's control groups (version 1 or 2, up to the
///   root), not counting the page cache.
///
/// `root` is the folder that contains proc and sys.
[[nodiscard]] std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

/// Throws LimitError, with both numbers, if `bytes` exceeds available_memory(). Linux overcommits: it grants
/// memory that it does not have, and kills a process when the memory is written. This check detects the
/// shortage earlier.
void require_memory(std::size_t bytes);

}  // namespace evenkeel
