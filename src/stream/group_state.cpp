#include "stream/group_state.hpp"

#include <algorithm>
#include <limits>

namespace evenkeel::stream {

std::int64_t GroupState::first_event() const {
  std::int64_t least = events.empty() ? std::numeric_limits<std::int64_t>::max() : events.front();
  for (const WaitingSample& sample : samples) least = std::min(least, sample.arrival);
  return least;
}

std::int64_t GroupState::last_event() const {
  std::int64_t last = events.empty() ? 0 : events.back();
  for (const WaitingSample& sample : samples) last = std::max(last, sample.arrival);
  return last;
}

GroupVerdict evaluate_group(const GroupState& group, const StreamSettings& settings, std::int64_t version,
                            bool ended) {
  GroupVerdict verdict;
  auto gone = std::ssize(group.gone);
  std::vector<std::int64_t> kept;
  for (const WaitingSample& sample : group.samples) {
    if (group.aborted || group.gone.contains(sample.index)) {
      verdict.due.emplace_back(sample.arrival, DropReason::aborted);
    } else if (settings.on_stale != OnStale::mask && settings.is_stale(sample.version, version)) {
      verdict.due.emplace_back(sample.arrival, DropReason::stale);
      ++gone;
    } else if (group.expired && sample.missing > 0) {
      verdict.due.emplace_back(sample.arrival, DropReason::late);
      ++gone;
    } else {
      kept.push_back(sample.arrival);
    }
  }
  const bool is_closed = group.closed || group.aborted || ended;
  const std::int64_t most = is_closed ? std::ssize(kept) : settings.group_size - gone;
  const bool too_small = most < settings.min_trained_samples();
  if (too_small)
    for (const std::int64_t arrival : kept) verdict.due.emplace_back(arrival, DropReason::too_small);
  const bool is_complete = is_closed || std::ssize(kept) + gone >= settings.group_size;
  verdict.is_over = group.samples.empty() && (too_small || is_complete);
  const auto has_all_fields = [](const WaitingSample& sample) { return sample.missing == 0; };
  verdict.is_ready = verdict.due.empty() && is_complete && !kept.empty() &&
                     std::ranges::all_of(group.samples, has_all_fields);
  return verdict;
}

}  // namespace evenkeel::stream
