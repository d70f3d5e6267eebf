#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "service/any_service.hpp"
#include "service/state/resume_checks.hpp"
#include "service/step/step_maker.hpp"

namespace evenkeel {

/// A DataService of ranks that all have a place in the mesh, and a part of every other one.
class PlainService final : public AnyService {
 public:
  /// Collective over `everyone`, as DataService's constructors; `from` is what it goes on from, if anything.
  [[nodiscard]] static std::unique_ptr<PlainService> make(const Communicator& everyone, const Config& config,
                                                          const Resumption* from);

  /// Takes its memory, which a rank may lack before all ranks begin.
  PlainService() = default;
  /// Collective over `everyone`, once, when all ranks have the memory.
  void begin(const Communicator& everyone, const Config& config, const Resumption* from, AssignedBy by);
  [[nodiscard]] bool has_begun() const noexcept { return maker_.has_value(); }
  /// Precondition: has_begun(); so below.
  [[nodiscard]] StepMaker& maker() noexcept { return *maker_; }

  [[nodiscard]] const Mesh& mesh() const noexcept override { return maker_->mesh(); }
  [[nodiscard]] ServiceState state() const override { return maker_->state(); }
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile) const override {
    return maker_->plan_settings(profile);
  }
  [[nodiscard]] Step first_pass(const Reader& read, std::string_view profile) override {
    return maker_->first_pass(read, profile);
  }
  [[nodiscard]] Step later_pass(Step before, std::string_view profile, const RaggedBatch& added,
                                const GuardedWork& error) override {
    return maker_->later_pass(std::move(before), profile, added, error);
  }
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results) override {
    return maker_->collect(step, results);
  }
  [[nodiscard]] RaggedBatch collect_on(const Step& step, const StepResults& results, int root) override {
    return maker_->collect_on(step, results, root);
  }
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const override {
    maker_->report_time(step, micro_batch, seconds);
  }

 private:
  std::optional<StepMaker> maker_;
};

}  // namespace evenkeel
