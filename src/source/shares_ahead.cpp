#include "source/shares_ahead.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

SharesAhead::SharesAhead(BatchSchedule& schedule, std::int64_t entries, Reader reader, std::int64_t window,
                         Prefetch prefetch)
    : schedule_(schedule),
      entries_(entries),
      reader_(std::move(reader)),
      window_(window),
      prefetch_(std::move(prefetch)) {
  EVENKEEL_PRECONDITION(cheap, std::ranges::binary_search(reader_.node_ranks, reader_.rank), reader_.rank);
}

std::vector<std::int64_t> SharesAhead::fetch_share(std::int64_t step) {
  if (shares_.empty() || step != first_step_) {
    shares_.clear();
    entries_to_prefetch_.clear();
    num_prefetched_ = 0;
    first_step_ = step;
    window_end_ = step;
    draw_shares_until(step + 1);
    prefetch_(shares_.front());
  }
  draw_shares_until(std::min(step + 2, schedule_.num_steps()));
  if (shares_.size() > 1) prefetch_(shares_[1]);
  if (window_ > 1) prefetch_window_part(step);
  // The statements from here on do not throw, so a share is removed only if it is returned.
  std::vector<std::int64_t> share = std::move(shares_.front());
  shares_.pop_front();
  ++first_step_;
  return share;
}

void SharesAhead::draw_shares_until(std::int64_t step) {
  while (end_of_drawn_steps() < step)
    shares_.push_back(schedule_.share_of(end_of_drawn_steps(), reader_.rank, reader_.num_ranks));
}

/// Draws the shares of all ranks on this node for all steps before `step`. Stores the entries that this rank
/// prefetches in entries_to_prefetch_, in ascending order.
void SharesAhead::collect_entries_until(std::int64_t step) {
  const auto part = std::ranges::find(reader_.node_ranks, reader_.rank) - reader_.node_ranks.begin();
  const auto parts = std::ssize(reader_.node_ranks);
  const std::int64_t begin = entries_ / parts * part + entries_ % parts * part / parts;
  const std::int64_t end = entries_ / parts * (part + 1) + entries_ % parts * (part + 1) / parts;
  entries_to_prefetch_.clear();
  num_prefetched_ = 0;
  while (end_of_drawn_steps() < step) {
    const std::int64_t drawn = end_of_drawn_steps();
    for (const int rank : reader_.node_ranks) {
      std::vector<std::int64_t> share = schedule_.share_of(drawn, rank, reader_.num_ranks);
      std::ranges::copy_if(share, std::back_inserter(entries_to_prefetch_),
                           [&](std::int64_t entry) { return begin <= entry && entry < end; });
      if (rank == reader_.rank) shares_.push_back(std::move(share));
    }
  }
  std::ranges::sort(entries_to_prefetch_);
}

void SharesAhead::prefetch_window_part(std::int64_t step) {
  if (step >= window_end_) {
    const std::int64_t steps = std::min(2 * (end_of_drawn_steps() - step), window_);
    const std::int64_t epoch = schedule_.steps_per_epoch();
    window_end_ = end_of_drawn_steps();
    // Stop at the end of the epoch, since drawing the first step of the next epoch computes the order of that
    // epoch.
    collect_entries_until(std::min(window_end_ + steps, (step / epoch + 1) * epoch));
  }
  const auto left = static_cast<std::int64_t>(entries_to_prefetch_.size() - num_prefetched_);
  const std::int64_t steps = window_end_ - step;
  const auto now = static_cast<std::size_t>((left + steps - 1) / steps);
  if (now > 0) prefetch_(std::span(entries_to_prefetch_).subspan(num_prefetched_, now));
  num_prefetched_ += now;
}

}  // namespace evenkeel
