#pragma once

#include <memory>
#include <string>

#include "evenkeel/config/config.hpp"

namespace evenkeel {

class Spool;

/// A buffer in this process, with its door, for a job that has none elsewhere. Producers find it from here
/// on.
class OwnBuffer {
 public:
  /// `token`: empty if everybody may come in. source.path is the folder of a Spool, if there is
  /// one, and `fields` say how lines write fields. Throws as the buffer, its store, its door and its spool
  /// do: ConfigError, IoError for a folder that another buffer has or an address that another program has.
  OwnBuffer(const Config& config, const std::string& token);
  ~OwnBuffer();
  OwnBuffer(const OwnBuffer&) = delete;
  OwnBuffer& operator=(const OwnBuffer&) = delete;

  /// For ranks of this machine, or of others where the door is open to them.
  [[nodiscard]] std::string url() const;
  /// Whether no other server shares its store.
  [[nodiscard]] bool is_alone() const;
  /// Whether ranks of other machines can reach it.
  [[nodiscard]] bool is_open_to_others() const;

  class Parts;

 private:
  std::unique_ptr<Parts> parts_;
  std::unique_ptr<Spool> spool_;  // ends before the door that it sends to
};

}  // namespace evenkeel
