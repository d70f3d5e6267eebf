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
  /// A pass that was made just now, with a greater serial than those before it. Forgets those that nobody
  /// holds any more: what is known of a pass keeps the memory of its record, and a data rank never asks.
  void add(std::uint64_t serial, const std::shared_ptr<const StepRecord>& record) {
    forget_released();
    held_.emplace_back(serial, record);
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

  // A list takes no memory before its first element, when ranks are on their own.
  std::list<std::pair<std::uint64_t, std::weak_ptr<const StepRecord>>> held_;
};

}  // namespace evenkeel
