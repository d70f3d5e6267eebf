#pragma once

#include <filesystem>
#include <string>

#include "buffer/buffer.hpp"
#include "buffer/http/http_listener.hpp"

namespace evenkeel {

/// Server for a buffer. docs/streams.md lists its API calls.
class BufferServer : public HttpListener {
 public:
  BufferServer(Buffer& buffer, const ServerSettings& settings);
};

/// Returns the first line of a token file. Throws IoError if the file cannot be opened, and ConfigError if
/// the line is empty or users other than the owner can access the file.
[[nodiscard]] std::string read_token(const std::filesystem::path& path);

}  // namespace evenkeel
