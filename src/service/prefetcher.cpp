#include "evenkeel/service/prefetcher.hpp"

#include <utility>

#include "mesh/fail_together.hpp"
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
  parts_->steps.emplace(world, config, steps, std::move(read), std::move(profile));
}

Prefetcher::~Prefetcher() = default;

bool Prefetcher::in_background() const noexcept {
  return parts_->steps->in_background();
}

std::optional<Step> Prefetcher::next() {
  return parts_->steps->next();
}

void Prefetcher::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->steps->service().report_time(step, micro_batch, seconds);
}

bool Prefetcher::progress() {
  return parts_->steps->progress();
}

}  // namespace evenkeel
