#include "evenkeel/service/prefetcher.hpp"

#include <utility>

#include "mesh/fail_together.hpp"
#include "service/resume_checks.hpp"
#include "service/steps_ahead.hpp"

namespace evenkeel {

// Its memory is taken before ranks communicate, on all of them or on none.
struct Prefetcher::Parts {
  std::optional<StepsAhead> steps;
};

Prefetcher::Prefetcher(const boost::mpi::communicator& world, const Config& config, std::int64_t steps,
                       Reader read, std::string profile) {
  require_ranks_of_one_group(world);
  parts_ = together(world, [] { return std::make_unique<Parts>(); });
  parts_->steps.emplace(world, config, steps, std::move(read), std::move(profile), ServiceState{});
}

Prefetcher::Prefetcher(const boost::mpi::communicator& world, const Config& config, std::int64_t steps,
                       Reader read, const ServiceState& from, ChangedJob changed, std::string profile) {
  require_ranks_of_one_group(world);
  parts_ = together(world, [] { return std::make_unique<Parts>(); });
  require_resumable(world, config, from, changed);
  parts_->steps.emplace(world, config, steps, std::move(read), std::move(profile), from);
}

Prefetcher::~Prefetcher() = default;

bool Prefetcher::in_background() const noexcept {
  return parts_->steps->in_background();
}

ServiceState Prefetcher::state() const {
  return parts_->steps->state();
}

std::optional<Step> Prefetcher::next() {
  return parts_->steps->next();
}

void Prefetcher::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->steps->maker().report_time(step, micro_batch, seconds);
}

bool Prefetcher::progress() {
  return parts_->steps->progress();
}

}  // namespace evenkeel
