#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "buffer/buffer.hpp"

namespace evenkeel {

struct ServerSettings {
  std::string address = "127.0.0.1";
  int port = 8710;                      ///< TCP port; 0 for any free port
  std::string token{};                  ///< token that clients must send; empty if they do not need a token
  std::filesystem::path certificate{};  ///< PEM file of the server's certificate; empty for no TLS
  std::filesystem::path key{};          ///< PEM file of the certificate's private key
  /// Path of a UNIX socket on which the server also listens, without TLS, for processes of the same user.
  /// Empty for no UNIX socket.
  std::filesystem::path socket{};
};

class HttpListener;

/// HTTP/1.1 server with one thread per connection. The headers and body of a request must arrive within
/// deadlines, and idle connections are closed. The constructors of derived classes start listening. They
/// throw ConfigError for a non-loopback address without a token, and for a certificate without a key or vice
/// versa; they throw IoError if the server cannot listen on the address or cannot use the certificate.
class ListeningServer {
 public:
  ~ListeningServer();
  ListeningServer(const ListeningServer&) = delete;
  ListeningServer& operator=(const ListeningServer&) = delete;

  [[nodiscard]] int port() const noexcept;
  /// Example: "http://127.0.0.1:8710".
  [[nodiscard]] std::string url() const;
  /// Answers requests until stop() is called from any thread. Returns within a few seconds after that, even
  /// if clients are slow.
  void serve();
  void stop();

 protected:
  explicit ListeningServer(std::unique_ptr<HttpListener> listener);

 private:
  std::unique_ptr<HttpListener> listener_;
};

/// Server for a buffer. docs/streams.md lists its API calls.
class BufferServer : public ListeningServer {
 public:
  BufferServer(Buffer& buffer, const ServerSettings& settings);
};

/// Returns the first line of a token file. Throws IoError if the file cannot be opened, and ConfigError if
/// the line is empty or users other than the owner can access the file.
[[nodiscard]] std::string read_token(const std::filesystem::path& path);

}  // namespace evenkeel
