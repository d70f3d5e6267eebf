#pragma once

#include <cstddef>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel {

/// What a DataService does, whose header has the contracts. A PlainService does it by itself; the room
/// data_ranks has a decorator of it, which first calls ranks that have no place in the mesh.
class AnyService {
 public:
  using Reader = DataService::Reader;

  AnyService() = default;
  AnyService(const AnyService&) = delete;
  AnyService& operator=(const AnyService&) = delete;
  virtual ~AnyService() = default;

  [[nodiscard]] virtual const Mesh& mesh() const noexcept = 0;
  [[nodiscard]] virtual ServiceState state() const = 0;
  [[nodiscard]] virtual PlanSettings plan_settings(std::string_view profile) const = 0;
  [[nodiscard]] virtual Step first_pass(const Reader& read, std::string_view profile) = 0;
  /// `error` is what this rank brings instead of fields.
  [[nodiscard]] virtual Step later_pass(Step before, std::string_view profile, const RaggedBatch& added,
                                        const GuardedWork& error) = 0;
  [[nodiscard]] virtual RaggedBatch collect(const Step& step, const StepResults& results) = 0;
  [[nodiscard]] virtual RaggedBatch collect_on(const Step& step, const StepResults& results, int root) = 0;
  virtual void report_time(const Step& step, std::size_t micro_batch, double seconds) const = 0;

  /// What a pass adds that adds no fields. Its memory is the service's, so that the pass needs none.
  [[nodiscard]] const RaggedBatch& no_fields() const noexcept { return no_fields_; }

 private:
  RaggedBatch no_fields_;
};

}  // namespace evenkeel
