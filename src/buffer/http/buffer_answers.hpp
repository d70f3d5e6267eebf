#pragma once

#include <memory>
#include <string>

#include "buffer/buffer.hpp"
#include "buffer/http/answers.hpp"

namespace evenkeel {

/// A buffer's calls (docs/streams.md has them), for who knows the token. The buffer stays as long as an
/// answer is being sent.
[[nodiscard]] HttpAnswer answers_of(std::shared_ptr<Buffer> buffer, const std::string& token);

}  // namespace evenkeel
