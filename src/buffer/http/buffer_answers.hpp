#pragma once

#include <memory>

#include "buffer/buffer.hpp"
#include "buffer/http/answers.hpp"

namespace evenkeel {

/// A buffer's calls (docs/streams.md has them). The buffer stays as long as an
/// answer is being sent.
[[nodiscard]] HttpAnswer answers_of(std::shared_ptr<Buffer> buffer);

}  // namespace evenkeel
