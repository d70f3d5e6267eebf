#pragma once

#include <cstdint>

namespace evenkeel::testing_support {

/// Which allocation of this process's operator new fails: with failing_new.cpp in the program, all go through
/// it. The program's threads share one count.
class FailingNew {
 public:
  enum class Reach : std::uint8_t {
    one,   ///< that one allocation
    rest,  ///< all from that one on
  };

  /// Counts from here on; allocation number `fails` (0-based) throws std::bad_alloc, or none below 0.
  static void arm(std::int64_t fails, Reach reach = Reach::one) noexcept;
  /// No further allocation fails. Returns how many there were since arm().
  static std::int64_t disarm() noexcept;
  /// Whether any failed since arm().
  [[nodiscard]] static bool fired() noexcept;

  /// While it stands, no allocation is counted, and none fails.
  class Paused {
   public:
    Paused() noexcept;
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;
    ~Paused();

   private:
    bool was_armed_;
  };
};

}  // namespace evenkeel::testing_support
