#pragma once

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"

namespace evenkeel {

/// What a service goes on from.
struct Resumption {
  const ServiceState& state;
  ChangedJob changed;
  const ServiceState* sources =
      nullptr;  ///< the job's, as SampleStream::describe fills them in; null: unknown
};

/// Collective over `comm`: throws ConfigError on every rank unless all bring the same state, and a service
/// of this configuration may go on from it (see require_same_job).
void require_resumable(const Communicator& comm, const Config& config, const Resumption& from);

}  // namespace evenkeel
