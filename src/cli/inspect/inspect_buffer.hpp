#pragma once

#include <string>

namespace evenkeel::cli {

/// Whether this is the address of a buffer's door, or a folder that a buffer keeps samples in.
[[nodiscard]] bool is_buffer(const std::string& place);

/// What is in a buffer and what became of its samples, in words. `token`: that its door asks for. Throws
/// IoError if it cannot be reached, or if the folder is in use: then its door tells.
[[nodiscard]] std::string explain_buffer(const std::string& place, const std::string& token);

}  // namespace evenkeel::cli
