#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "data_ranks/hosted/passes.hpp"
#include "data_ranks/least_of_all.hpp"
#include "service/ahead/around_steps.hpp"

namespace evenkeel {

/// What a data rank does around the steps that it makes for a trainers' Prefetcher: it keeps the passes as
/// long as trainers hold them, and stops when these do.
class HostedSteps final : public AroundSteps {
 public:
  /// `passes` must outlive it. Takes the memory of begin().
  explicit HostedSteps(HostedPasses& passes)
      : passes_(passes), service_room_(HostedPasses::room_for_service()) {}

  [[nodiscard]] AssignedBy assigned_by() const noexcept override { return AssignedBy::first_without_a_place; }
  void begin(const StepMaker& maker) override {
    service_ = maker.service();
    passes_.open(service_, std::move(service_room_));
  }
  [[nodiscard]] bool all_go_on(const Communicator& everyone, bool /*goes_on*/) override {
    const auto [goes_on, held] = least_.of({1, std::numeric_limits<std::int64_t>::max()}, everyone, false);
    if (goes_on == 0) return false;
    passes_.drop_before(service_, static_cast<std::uint64_t>(held));
    return true;
  }
  [[nodiscard]] RaggedBatch read(const Reader& reader, std::int64_t step) override {
    room_ = HostedPasses::room_for_pass();
    return reader(step);
  }
  [[nodiscard]] Step keep(Step made) override {
    passes_.add(std::move(made), std::move(room_));
    return {};
  }
  [[nodiscard]] bool hands_out() const noexcept override { return false; }

 private:
  HostedPasses& passes_;
  std::uint64_t service_ = 0;
  HostedPasses::ServiceRoom service_room_;
  HostedPasses::PassRoom room_;
  LeastOfAll least_;
};

}  // namespace evenkeel
