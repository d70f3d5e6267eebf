#pragma once

#include <optional>
#include <string>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/service_state.hpp"
#include "service/ahead/steps_ahead.hpp"
#include "service/step/step_maker.hpp"

namespace evenkeel {

/// What a DataService shares with its Steps. All ranks take this memory before any of them communicates about
/// the service.
struct ServiceParts {
  std::optional<StepMaker> maker;         // of later passes, and of steps that the trainer makes itself
  std::optional<ServiceState> unchecked;  // the state to resume from, until its sources were compared
  std::string profile_ahead;              // of the latest steps made ahead
  bool has_made_steps = false;            // of samples that the trainer brought
  const RaggedBatch no_fields;
  std::optional<StepsAhead> ahead;  // the latest, which keeps its position when its Steps end
  bool makes_ahead = false;         // there are Steps

  [[nodiscard]] ServiceState state() const;
};

}  // namespace evenkeel
