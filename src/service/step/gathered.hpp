#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/step.hpp"
#include "exchange/samples/field_ranges.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/step_context.hpp"
#include "service/step/time_reports.hpp"
#include "service/step_record.hpp"

namespace evenkeel {

/// The settings of a pass, and the seconds that its stages took so far.
struct Pass {
  std::string profile;
  PlanSettings settings;  // the strategy may still be open
  DerivedFieldSettings derived;
  std::uint64_t cut = 0;  // hash of how samples are cut
  PhaseSeconds seconds;
  Stopwatch stopwatch;
};

/// The first stage of every pass: what all ranks know of its samples before it is planned. Replicated.
struct Gathered {
  Pass pass;
  std::int64_t index = 0;  // of the step
  StepOrigin origin;
  CostInUse cost;  // used for balancing
  std::shared_ptr<const StepSamples> samples;
};

/// Collective over everyone: reads this rank's samples of step `index` with `read`, and gathers what all
/// ranks must know of everyone's. Returns this rank's samples, too. All ranks throw, or nobody does. Later
/// errors of this rank go to `work`; so below.
[[nodiscard]] std::pair<Gathered, RaggedBatch> gather_brought(const StepContext& context,
                                                              const std::function<RaggedBatch()>& read,
                                                              std::string_view profile, std::int64_t index,
                                                              GuardedWork& work);

/// Fields that a later pass adds to the samples of a step.
struct Added {
  std::vector<FieldSpec> fields;  // agreed on
  OwnRanges ranges;
  const RaggedBatch& mine;  // of this rank's samples; the caller's
};

/// Collective over everyone: the same for another pass over the samples of `before`. The fields of `mine` are
/// added to them.
[[nodiscard]] std::pair<Gathered, Added> gather_added(const StepContext& context, const Step& before,
                                                      std::string_view profile, const RaggedBatch& mine,
                                                      GuardedWork& work);

/// Collective if integers are narrowed: how agreed fields travel. The input is replicated, so all ranks throw
/// the same error, or nobody throws.
[[nodiscard]] std::vector<CarriedField> carried(const StepContext& context, std::span<const FieldSpec> fields,
                                                OwnRanges& ranges);

}  // namespace evenkeel
