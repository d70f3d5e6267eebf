#pragma once

#include <optional>
#include <string>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/service_state.hpp"
#include "service/ahead/steps_ahead.hpp"
#include "service/step/step_maker.hpp"

namespace evenkeel {

/// State shared by a DataService and its Steps. Allocated on all ranks before any of them communicates about
/// the service.
struct ServiceParts {
  std::optional<StepMaker> maker;         // makes later passes, and steps of samples that the trainer brings
  std::optional<ServiceState> unchecked;  // the state to resume from, until its sources were compared
  bool has_made_steps = false;            // from samples that the trainer brought
  const RaggedBatch no_fields;
  std::optional<ServiceState> position;  // where the Steps before `ahead` ended
  std::optional<StepsAhead> ahead;       // the latest; keeps its position when its Steps end
  bool makes_ahead = false;              // Steps exist

  [[nodiscard]] ServiceState state() const;
};

}  // namespace evenkeel
