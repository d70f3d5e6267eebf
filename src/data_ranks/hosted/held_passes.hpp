#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "service/step_record.hpp"

namespace evenkeel {

/// The passes of a service that its trainer may still hold, from which data ranks learn what to keep.
class HeldPasses {
  using Passes = std::list<std::pair<std::uint64_t, std::weak_ptr<const StepRecord>>>;

 public:
  /// Memory for a pass, taken before ranks make it together.
  using PassRoom = Passes;
  [[nodiscard]] static PassRoom room_for_pass() { return PassRoom(1); }

  /// A pass that was made just now, with a greater serial than those before it. Forgets those that nobody
  /// holds any more: what is known of a pass keeps the memory of its record.
  void add(std::uint64_t serial, const std::shared_ptr<const StepRecord>& record, PassRoom room) noexcept {
    forget_released();
    room.front() = {serial, record};
    held_.splice(held_.end(), room);
  }
  /// The serial of the first that is still held, if any is. Forgets those that are not.
  [[nodiscard]] std::optional<std::uint64_t> first() {
    forget_released();
    return held_.empty() ? std::nullopt : std::optional(held_.front().first);
  }
  /// Whether none was held when first() was last asked.
  [[nodiscard]] bool empty() const noexcept { return held_.empty(); }

 private:
  void forget_released() {
    std::erase_if(held_, [](const auto& pass) { return pass.second.expired(); });
  }

  Passes held_;
};

}  // namespace evenkeel
