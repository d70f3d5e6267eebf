#include "evenkeel/service/prefetcher.hpp"

#include "evenkeel/service/data_service.hpp"
#include "service/ahead/prefetcher_parts.hpp"

// Its constructors are in the room above that chooses what is done around its steps (data_ranks/choice.cpp).
namespace evenkeel {

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
  require_ranks_of_one_group(parts_->steps->maker().mesh().everyone());
  return parts_->steps->next();
}

void Prefetcher::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->steps->maker().report_time(step, micro_batch, seconds);
}

bool Prefetcher::progress() {
  require_ranks_of_one_group(parts_->steps->maker().mesh().everyone());
  return parts_->steps->progress();
}

}  // namespace evenkeel
