#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "buffer/buffer.hpp"

namespace evenkeel {

struct ServerSettings {
  std::string address = "127.0.0.1";
  int port = 8710;                      ///< 0 for any free port
  std::string token{};                  ///< empty if clients need no token
  std::filesystem::path certificate{};  ///< PEM file; empty for no TLS
  std::filesystem::path key{};          ///< PEM file of the certificate's private key
};

class HttpListener;

/// HTTP/1.1 server for a buffer. docs/streams.md lists the calls. There is one thread per connection. Heads
/// and bodies of requests have deadlines, and silent connections are closed.
class BufferServer {
 public:
  /// Starts to listen. Throws ConfigError for a non-loopback address without a token, and for a certificate
  /// without a key or vice versa. Throws IoError if it cannot listen on the address, or the certificate
  /// cannot be used.
  BufferServer(Buffer& buffer, const ServerSettings& settings);
  ~BufferServer();
  BufferServer(const BufferServer&) = delete;
  BufferServer& operator=(const BufferServer&) = delete;

  [[nodiscard]] int port() const noexcept;
  /// Example: "http://127.0.0.1:8710".
  [[nodiscard]] std::string url() const;
  /// Answers requests until stop() is called from any thread. Returns within a few seconds after that, even
  /// if clients are slow.
  void serve();
  void stop();

 private:
  std::unique_ptr<HttpListener> listener_;
};

/// Returns the first line of a token file. Throws IoError if the file cannot be opened, and ConfigError if
/// the line is empty or users other than the owner can access the file.
[[nodiscard]] std::string read_token(const std::filesystem::path& path);

}  // namespace evenkeel
