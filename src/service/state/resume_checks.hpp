#pragma once

#include <string_view>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"

namespace evenkeel {

/// The name, in errors, of the state that a service resumes from.
inline constexpr std::string_view state_to_resume_from = "the state to resume from";

/// Collective over `comm`: throws ConfigError on every rank unless all bring the same state, and a service of
/// this configuration may resume from it (see require_same_job), or changes are accepted. Does not compare
/// sources.
void require_resumable(const Communicator& comm, const Config& config, const ServiceState& from,
                       ChangedJob changed);

/// Throws ConfigError for a state with sources that nobody has compared.
[[noreturn]] void throw_unknown_sources(const ServiceState& saved);

}  // namespace evenkeel
