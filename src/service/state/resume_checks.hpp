#pragma once

#include <optional>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"

namespace evenkeel {

/// What a service goes on from.
struct Resumption {
  const ServiceState& state;
  ChangedJob changed;
  /// With the job's sources, as SampleStream::describe fills them in; nullopt if they are unknown.
  std::optional<ServiceState> sources = std::nullopt;
};

/// Collective over `comm`: throws ConfigError on every rank unless all bring the same state, and a service
/// of this configuration may go on from it (see require_same_job).
void require_resumable(const Communicator& comm, const Config& config, const Resumption& from);

}  // namespace evenkeel
