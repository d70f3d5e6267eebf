#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "buffer/buffer.hpp"

namespace evenkeel {

struct DoorSettings {
  std::string address = "127.0.0.1";
  int port = 8710;                      ///< 0: any that is free
  std::string token{};                  ///< empty: everybody may come in
  std::filesystem::path certificate{};  ///< PEM; empty: without TLS
  std::filesystem::path key{};
};

class Front;

/// A buffer's calls over HTTP/1.1 (docs/streams.md has them). Each connection has a thread. A request's head
/// and body have deadlines, and a connection that has sent nothing for a while is closed.
class Door {
 public:
  /// Listens from here on. Throws ConfigError for an address other than the loopback without a token, and for
  /// one of certificate and key without the other; IoError if nobody can listen there, or for a certificate
  /// that cannot be used.
  Door(Buffer& buffer, const DoorSettings& settings);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  [[nodiscard]] int port() const noexcept;
  /// "http://127.0.0.1:8710"
  [[nodiscard]] std::string url() const;
  /// Answers until stop() is called, from any thread. Returns a few seconds later, whatever clients do.
  void serve();
  void stop();

 private:
  std::unique_ptr<Front> front_;
};

/// The token of a file: its first line. Throws IoError, and ConfigError if it is empty or if others than the
/// file's owner can read it.
[[nodiscard]] std::string read_token(const std::filesystem::path& path);

}  // namespace evenkeel
