#include "evenkeel/service/prefetcher.hpp"

#include <utility>

#include "evenkeel/service/data_service.hpp"
#include "mesh/fail_together.hpp"
#include "service/ahead/steps_ahead.hpp"
#include "service/state/resume_checks.hpp"

namespace evenkeel {

/// All ranks take this memory before any of them communicates about the prefetcher.
struct Prefetcher::Parts {
  std::optional<StepsAhead> steps;

  /// Collective over `world`.
  [[nodiscard]] static std::unique_ptr<Parts> make(const Communicator& world) {
    require_ranks_of_one_group(world);
    return together(world, [] { return std::make_unique<Parts>(); });
  }
  /// Begins a collective call, which without MPI also ends here.
  [[nodiscard]] StepsAhead& called() {
    require_ranks_of_one_group(steps->maker().mesh().world());
    return *steps;
  }
};

Prefetcher::Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
                       std::string profile)
    : parts_(Parts::make(world)) {
  parts_->steps.emplace(world, config, StepsWanted{steps, std::move(read), std::move(profile)},
                        ServiceState());
}

Prefetcher::Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
                       const ServiceState& from, ChangedJob changed, std::string profile)
    : Prefetcher(world, config, StepsWanted{steps, std::move(read), std::move(profile)},
                 Resumption{from, changed}) {}

Prefetcher::Prefetcher(const Communicator& world, const Config& config, StepsWanted wanted,
                       const Resumption& from)
    : parts_(Parts::make(world)) {
  require_resumable(world, config, from);
  parts_->steps.emplace(world, config, std::move(wanted), from.state);
}

Prefetcher::~Prefetcher() = default;

bool Prefetcher::in_background() const noexcept {
  return parts_->steps->in_background();
}

ServiceState Prefetcher::state() const {
  return parts_->steps->state();
}

ServiceState Prefetcher::state(const DataService& passes) const {
  ServiceState state = parts_->steps->state();
  for (const auto& [profile, cost] : passes.state().costs)
    if (profile != parts_->steps->profile()) state.costs.insert_or_assign(profile, cost);
  return state;
}

std::optional<Step> Prefetcher::next() {
  return parts_->called().next();
}

void Prefetcher::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->steps->maker().report_time(step, micro_batch, seconds);
}

bool Prefetcher::progress() {
  return parts_->called().progress();
}

}  // namespace evenkeel
