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
 public:
  /// A pass that was made just now, with a greater serial than those before it.
  void add(std::uint64_t serial, const std::shared_ptr<const StepRecord>& record) {
    held_.emplace_back(serial, record);
  }
  /// The serial of the first that is still held, if any is. Forgets those before it.
  [[nodiscard]] std::optional<std::uint64_t> first() {
    while (!held_.empty() && held_.front().second.expired()) held_.pop_front();
    return held_.empty() ? std::nullopt : std::optional(held_.front().first);
  }
  /// Whether none was held when first() was last asked.
  [[nodiscard]] bool empty() const noexcept { return held_.empty(); }

 private:
  // A list takes no memory before its first element, when ranks are on their own.
  std::list<std::pair<std::uint64_t, std::weak_ptr<const StepRecord>>> held_;
};

}  // namespace evenkeel
