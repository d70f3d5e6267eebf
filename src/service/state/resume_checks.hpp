#pragma once

#include <string_view>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"

namespace evenkeel {

/// Name, used in errors, for the state that a service resumes from.
inline constexpr std::string_view state_to_resume_from = "the state to resume from";

/// Collective over `comm`: throws ConfigError on every rank if ranks pass different states or, unless
/// `changed` accepts changes, if a service of this configuration may not resume from the state (see
/// require_same_job). The table `consequences` in service_state.cpp lists the keys that may change, such as
/// `mesh.*`. Does not compare sources.
void require_resumable(const Communicator& comm, const Config& config, const ServiceState& from,
                       ChangedJob changed);

/// Throws ConfigError for a state with sources, since they have not been compared with this job's sources.
[[noreturn]] void throw_unchecked_sources(const ServiceState& saved);

}  // namespace evenkeel
