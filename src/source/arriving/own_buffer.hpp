#pragma once

#include <memory>
#include <string>

#include "evenkeel/config/config.hpp"

namespace evenkeel {

class Spool;

/// A buffer and its server in this process, for a job that does not connect to an external buffer. Producers
/// can connect as soon as this object is constructed.
class OwnBuffer {
 public:
  /// `token` is empty if clients do not need a token. If source.path is set, it is the folder of a Spool.
  /// Throws ConfigError for invalid settings, and IoError if another buffer uses the store's folder or
  /// another program uses the address.
  OwnBuffer(const Config& config, const std::string& token);
  ~OwnBuffer();
  OwnBuffer(const OwnBuffer&) = delete;
  OwnBuffer& operator=(const OwnBuffer&) = delete;

  /// Returns a URL for ranks on this machine and, if is_open_to_others(), on other machines.
  [[nodiscard]] std::string url() const;
  /// Returns whether no other server shares the store.
  [[nodiscard]] bool has_exclusive_store() const;
  /// Returns whether ranks on other machines can reach the buffer.
  [[nodiscard]] bool is_open_to_others() const;

  class Parts;

 private:
  std::unique_ptr<Parts> parts_;
  std::unique_ptr<Spool> spool_;  // sends files to the server, so it is destroyed before the server
};

}  // namespace evenkeel
