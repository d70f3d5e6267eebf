#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/step.hpp"
#include "exchange/samples/field_ranges.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/step_context.hpp"
#include "service/step/stopwatch.hpp"
#include "service/step_record.hpp"

namespace evenkeel {

/// A pass that has begun: how it will be planned and packed, and the memory that it needs beside what it
/// makes, which a rank may lack before all ranks begin.
struct BegunPass {
  std::string profile;
  PlanSettings settings;
  DerivedFieldSettings derived;
  std::uint64_t cut = 0;  // hash of how samples are cut
  std::shared_ptr<StepRecord>
      record;  // with the memory of what later stages make, the last of which fills it
  SampleExchange exchange;
  RaggedBatch no_samples;
  PhaseSeconds seconds;
  Stopwatch stopwatch;
};

/// Begins a pass; nothing where `work` has failed. Local, on replicated data.
[[nodiscard]] std::optional<BegunPass> begin_pass(const StepContext& context, std::string_view profile,
                                                  GuardedWork& work);

/// The first stage of every pass: what all ranks know of its samples before it is planned. Replicated, but
/// for this rank's own samples.
struct Gathered {
  BegunPass pass;
  std::int64_t index = 0;  // of the step
  StepOrigin origin;
  CostInUse cost;  // that it is balanced by
  std::shared_ptr<const StepSamples> samples;
};

/// What samples of a first pass bring, until it is known how their fields travel.
struct Brought {
  std::shared_ptr<StepSamples> samples;  // those of Gathered, to be completed
  std::vector<FieldSpec> fields;         // agreed on
  OwnRanges ranges;
  RaggedBatch mine;  // this rank's samples
};

/// Collective over everyone: the samples of step `index`, which `read` brings as this rank's own work. All
/// ranks throw, or nobody does. What goes wrong on this rank after ranks have met goes to `work`; so below.
[[nodiscard]] std::pair<Gathered, Brought> gather_brought(const StepContext& context,
                                                          const std::function<RaggedBatch()>& read,
                                                          std::string_view profile, std::int64_t index,
                                                          GuardedWork& work);

/// What a later pass adds to the samples of a step.
struct Added {
  std::vector<FieldSpec> fields;  // agreed on
  OwnRanges ranges;
  const RaggedBatch& mine;  // of this rank's samples; the caller's
  SampleExchange exchange;
};

/// Collective over everyone: the same for another pass over the samples of `before`, to which `mine` are
/// added.
[[nodiscard]] std::pair<Gathered, Added> gather_added(const StepContext& context, const Step& before,
                                                      std::string_view profile, const RaggedBatch& mine,
                                                      GuardedWork& work);

}  // namespace evenkeel
