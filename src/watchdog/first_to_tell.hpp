#pragma once

namespace evenkeel {

/// Of the processes that one launcher has started on this machine, the first to find out what all find out,
/// for it to tell. Linux; elsewhere each is the first.
class FirstToTell {
 public:
  FirstToTell() = default;
  FirstToTell(const FirstToTell&) = delete;
  FirstToTell& operator=(const FirstToTell&) = delete;
  ~FirstToTell();

  /// Whether this process is the first, which then no other is until this one ends or the object goes. Leaves
  /// nothing behind. Where the system does not say, it is.
  [[nodiscard]] bool is_this() noexcept;

 private:
  int socket_ = -1;
};

}  // namespace evenkeel
