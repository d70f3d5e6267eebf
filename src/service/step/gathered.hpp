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

/// Settings of a pass, and the durations of its stages so far.
struct Pass {
  std::string profile;
  PlanSettings settings;  // settings of the pass; the strategy may still be undecided
  DerivedFieldSettings derived;
  std::uint64_t cut = 0;  // hash of how samples are cut for the ranks (StepContext::cut_hash())
  PhaseSeconds seconds;
  Stopwatch stopwatch;
};

/// Result of the first stage of every pass: all data about the pass's samples that every rank has before
/// planning. Replicated, except for the durations in `pass` and the members of StepSamples that are not
/// replicated.
struct Gathered {
  Pass pass;
  std::int64_t index = 0;  // index of the step
  StepOrigin origin;
  CostInUse cost;  // cost model with which the pass is balanced
  std::shared_ptr<const StepSamples> samples;
};

/// Collective over all ranks: reads this rank's samples of step `index` with `read`, and gathers the data
/// about all samples that every rank needs. Also returns this rank's samples. Either all ranks throw the same
/// error or no rank does. Errors that occur on this rank after the ranks have agreed go to `work`.
[[nodiscard]] std::pair<Gathered, RaggedBatch> gather_first_pass(const StepContext& context,
                                                                 const std::function<RaggedBatch()>& read,
                                                                 std::string_view profile, std::int64_t index,
                                                                 GuardedWork& work);

/// Fields that a later pass adds to the samples of a step.
struct FieldsToAdd {
  std::vector<FieldSpec> fields;  // the added fields, on which all ranks have agreed
  OwnRanges ranges;
  const RaggedBatch& mine;  // this rank's samples with only the added fields; owned by the caller
};

/// Collective over all ranks: same as gather_first_pass(), for another pass over the samples of `before`, to
/// which the fields of `mine` are added. Errors are handled in the same way.
[[nodiscard]] std::pair<Gathered, FieldsToAdd> gather_later_pass(const StepContext& context,
                                                                 const Step& before, std::string_view profile,
                                                                 const RaggedBatch& mine, GuardedWork& work);

/// Returns how these fields, on which all ranks have agreed, are transferred. Collective if integers are
/// narrowed. Either all ranks throw the same error or no rank does, since the input is replicated.
[[nodiscard]] std::vector<CarriedField> carried_fields_of(const StepContext& context,
                                                          std::span<const FieldSpec> fields,
                                                          const OwnRanges& ranges);

}  // namespace evenkeel
