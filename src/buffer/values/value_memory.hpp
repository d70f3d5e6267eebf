#pragma once

#include <cstdint>
#include <memory>

namespace evenkeel {

/// Returns uninitialized memory for values. Freed memory is kept for later values, because getting new pages
/// from the system takes longer than filling them. Thread-safe.
[[nodiscard]] std::shared_ptr<char[]> make_value_memory(std::int64_t bytes);

}  // namespace evenkeel
