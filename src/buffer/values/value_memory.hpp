#pragma once

#include <cstdint>
#include <memory>

namespace evenkeel {

/// Returns uninitialized memory for values. Freed memory is kept for the next values, because the system
/// takes longer to provide pages than it takes to fill them. Thread-safe.
[[nodiscard]] std::shared_ptr<char[]> make_value_memory(std::int64_t bytes);

}  // namespace evenkeel
