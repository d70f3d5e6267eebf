#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "service/ahead/around_steps.hpp"
#include "service/ahead/steps_ahead.hpp"
#include "service/state/resume_checks.hpp"

namespace evenkeel {

/// What a Prefetcher has. Its memory is taken before ranks communicate, on all of them or on none.
struct PrefetcherParts {
  explicit PrefetcherParts(std::unique_ptr<AroundSteps> around_steps) : around(std::move(around_steps)) {}
  PrefetcherParts(const PrefetcherParts&) = delete;
  PrefetcherParts& operator=(const PrefetcherParts&) = delete;
  ~PrefetcherParts() {
    if (steps) around->end(*steps);
  }

  /// Collective over `everyone`, once, when all ranks have the memory; `from` is what it goes on from, if
  /// anything.
  void begin(const Communicator& everyone, const Config& config, StepsWanted wanted, const Resumption* from) {
    if (from != nullptr) require_resumable(everyone, config, *from);
    const ServiceState fresh;  // not a copy of `from`, which would take memory
    steps.emplace(everyone, config, std::move(wanted), from == nullptr ? fresh : from->state, *around);
  }

  std::unique_ptr<AroundSteps> around;
  std::optional<StepsAhead> steps;  // last: it uses the other
};

}  // namespace evenkeel
