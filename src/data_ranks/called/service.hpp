#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "data_ranks/data_line.hpp"
#include "data_ranks/hosted/held_passes.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "service/any_service.hpp"
#include "service/plain_service.hpp"
#include "service/state/resume_checks.hpp"

namespace evenkeel {

/// A trainer's service over data ranks: calls them to what it does next, then does it with them.
class CalledService final : public AnyService {
 public:
  /// Collective over `everyone`, the trainers and then the data ranks, as PlainService::make().
  [[nodiscard]] static std::unique_ptr<CalledService> make(const Communicator& everyone, const Config& config,
                                                           const Resumption* from);
  CalledService() = default;
  ~CalledService() override;

  [[nodiscard]] const Mesh& mesh() const noexcept override { return plain_.mesh(); }
  [[nodiscard]] ServiceState state() const override { return plain_.state(); }
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile) const override {
    return plain_.plan_settings(profile);
  }
  [[nodiscard]] Step first_pass(const Reader& read, std::string_view profile) override;
  [[nodiscard]] Step later_pass(Step before, std::string_view profile, const RaggedBatch& added,
                                const GuardedWork& error) override;
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results) override;
  [[nodiscard]] RaggedBatch collect_on(const Step& step, const StepResults& results, int root) override;
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const override {
    plain_.report_time(step, micro_batch, seconds);
  }

 private:
  [[nodiscard]] DataCall call(DataCallKind kind);

  PlainService plain_;
  HeldPasses held_;
};

/// What a trainer may bring where data ranks read: throws InputError for any samples.
[[nodiscard]] RaggedBatch require_none(RaggedBatch brought);

}  // namespace evenkeel
