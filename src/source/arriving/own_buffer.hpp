#pragma once

#include <memory>
#include <string>

#include "evenkeel/config/config.hpp"

namespace evenkeel {

/// A buffer in this process, with its door, for a job that has none elsewhere. Producers find it from here
/// on.
class OwnBuffer {
 public:
  /// `token`: empty if everybody may come in. Throws as the buffer, its store and its door do: ConfigError,
  /// IoError for a folder that another buffer has or an address that another program has.
  OwnBuffer(const ArrivalSettings& settings, const std::string& token);
  ~OwnBuffer();
  OwnBuffer(const OwnBuffer&) = delete;
  OwnBuffer& operator=(const OwnBuffer&) = delete;

  /// For ranks of this machine, or of others where the door is open to them.
  [[nodiscard]] std::string url() const;
  /// Whether ranks of other machines can reach it.
  [[nodiscard]] bool is_open_to_others() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace evenkeel
