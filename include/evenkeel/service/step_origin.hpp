#pragma once

#include <cstdint>
#include <utility>

namespace evenkeel {

/// Where a step comes from, so that one is not taken for another: equal on all ranks, and on copies of the
/// step. What it is moved from comes from nowhere.
class StepOrigin {
 public:
  StepOrigin() = default;
  /// What service number `service`, which is not 0, made as its `serial`th; `cut` is a hash of how it cuts
  /// samples for the ranks of its mesh.
  StepOrigin(std::uint64_t service, std::uint64_t serial, std::uint64_t cut) noexcept
      : service_(service), serial_(serial), cut_(cut) {}
  StepOrigin(const StepOrigin&) = default;
  StepOrigin& operator=(const StepOrigin&) = default;
  StepOrigin(StepOrigin&& other) noexcept
      : service_(std::exchange(other.service_, 0)), serial_(other.serial_), cut_(other.cut_) {}
  StepOrigin& operator=(StepOrigin&& other) noexcept {
    std::swap(service_, other.service_);
    std::swap(serial_, other.serial_);
    std::swap(cut_, other.cut_);
    if (this != &other) other.service_ = 0;
    return *this;
  }
  ~StepOrigin() = default;

  /// Whether any service made it.
  [[nodiscard]] bool known() const noexcept { return service_ != 0; }
  [[nodiscard]] std::uint64_t service() const noexcept { return service_; }
  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }
  [[nodiscard]] std::uint64_t cut() const noexcept { return cut_; }

 private:
  std::uint64_t service_ = 0;
  std::uint64_t serial_ = 0;
  std::uint64_t cut_ = 0;
};

}  // namespace evenkeel
