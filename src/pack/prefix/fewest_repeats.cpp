#include "pack/prefix/fewest_repeats.hpp"

#include <algorithm>
#include <compare>
#include <deque>
#include <numeric>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t to_index(std::int64_t i) noexcept {
  return static_cast<std::size_t>(i);
}

/// Returns, for each number, the index of the next smaller number after it, or the count of numbers if there
/// is none.
std::vector<std::int64_t> next_smaller(std::span<const std::int64_t> numbers) {
  const std::int64_t count = std::ssize(numbers);
  std::vector<std::int64_t> next(numbers.size(), count);
  for (std::int64_t i = count - 1; i >= 0; --i) {
    std::int64_t candidate = i + 1;
    while (candidate < count && numbers[to_index(candidate)] >= numbers[to_index(i)])
      candidate = next[to_index(candidate)];
    next[to_index(i)] = candidate;
  }
  return next;
}

std::vector<std::int64_t> previous_smaller(std::vector<std::int64_t> numbers) {
  std::ranges::reverse(numbers);
  std::vector<std::int64_t> previous = next_smaller(numbers);
  std::ranges::reverse(previous);
  for (std::int64_t& i : previous) i = std::ssize(numbers) - 1 - i;
  return previous;
}

/// The total amounts of a run of consecutive samples, one per PartLimit.
class RunAmounts {
 public:
  explicit RunAmounts(std::span<const PartLimit> limits) : limits_(limits), amounts_(limits.size(), 0) {}

  void add(std::int64_t sample) noexcept {
    for (std::size_t l = 0; l < amounts_.size(); ++l)
      amounts_[l] += limits_[l].sample_amounts[to_index(sample)];
  }
  void remove(std::int64_t sample) noexcept {
    for (std::size_t l = 0; l < amounts_.size(); ++l)
      amounts_[l] -= limits_[l].sample_amounts[to_index(sample)];
  }
  [[nodiscard]] bool are_within_limits() const noexcept {
    for (std::size_t l = 0; l < amounts_.size(); ++l)
      if (amounts_[l] > limits_[l].most) return false;
    return true;
  }

 private:
  std::span<const PartLimit> limits_;
  std::vector<std::int64_t> amounts_;
};

/// Price of cutting all samples from some index on into runs; lower is better.
struct CutPrice {
  std::int64_t repeated = 0;
  std::int64_t runs = 0;

  friend auto operator<=>(const CutPrice&, const CutPrice&) = default;
};

}  // namespace

RunRows::RunRows(const OrderedSamples& samples, std::int64_t alignment)
    : samples_(&samples),
      alignment_(alignment),
      next_smaller_(next_smaller(samples.shared)),
      previous_smaller_(previous_smaller(samples.shared)),
      begin_(samples.size()),
      end_(samples.size()) {
  EVENKEEL_PRECONDITION(cheap, alignment >= 1, alignment);
}

/// Returns the number of rows that a branch after `tokens` tokens of a path adds, if its neighbors on the
/// path branch off after `below` and `above` tokens. Returns 0 if the branch coincides with one of its
/// neighbors.
std::int64_t RunRows::rows_added_by_branch(std::int64_t below, std::int64_t tokens,
                                           std::int64_t above) const noexcept {
  if (tokens == below || tokens == above) return 0;
  return align_up(tokens - below, alignment_) + align_up(above - tokens, alignment_) -
         align_up(above - below, alignment_);
}

/// Returns the number of rows that a branch after `tokens` tokens of `sample` adds to the tree of the run's
/// samples from `sample` on. The other samples leave the path of `sample` at each new minimum of `shared`.
std::int64_t RunRows::rows_added_by_branch_after(std::int64_t sample, std::int64_t tokens) const noexcept {
  std::int64_t above = samples_->lengths[to_index(sample)];
  std::int64_t other = sample + 1;
  while (other < end_ && samples_->shared[to_index(other)] > tokens) {
    above = samples_->shared[to_index(other)];
    other = next_smaller_[to_index(other)];
  }
  return rows_added_by_branch(other < end_ ? samples_->shared[to_index(other)] : 0, tokens, above);
}

/// Same as rows_added_by_branch_after(), for the tree of the run's samples up to `sample`.
std::int64_t RunRows::rows_added_by_branch_before(std::int64_t sample, std::int64_t tokens) const noexcept {
  std::int64_t above = samples_->lengths[to_index(sample)];
  std::int64_t other = sample;
  while (other > begin_ && samples_->shared[to_index(other)] > tokens) {
    above = samples_->shared[to_index(other)];
    other = previous_smaller_[to_index(other)];
  }
  return rows_added_by_branch(other > begin_ ? samples_->shared[to_index(other)] : 0, tokens, above);
}

void RunRows::grow() noexcept {
  const std::int64_t added = --begin_;
  std::int64_t shared = 0;
  if (added + 1 < end_) {
    shared = samples_->shared[to_index(added + 1)];
    rows_ += rows_added_by_branch_after(added + 1, shared);
  }
  rows_ += align_up(samples_->lengths[to_index(added)] - shared, alignment_);
}

void RunRows::shrink() noexcept {
  const std::int64_t removed = --end_;
  const std::int64_t shared = samples_->shared[to_index(removed)];
  rows_ -= align_up(samples_->lengths[to_index(removed)] - shared, alignment_);
  rows_ -= rows_added_by_branch_before(removed - 1, shared);
}

namespace {

/// Returns the 1-based index of the first limit that these samples together exceed. Index 0 stands for the
/// row limit, which is not checked here. Precondition: the samples exceed one of `limits`.
std::size_t find_first_broken_limit(std::span<const PartLimit> limits, RowRange samples) {
  std::size_t broken = 1;
  for (const PartLimit& limit : limits) {
    const auto begin = limit.sample_amounts.begin();
    if (std::accumulate(begin + samples.begin, begin + samples.end, std::int64_t{0}) > limit.most) break;
    ++broken;
  }
  return broken;
}

std::int64_t rows_of_run(const OrderedSamples& samples, std::int64_t alignment, RowRange range) {
  const auto part = [&](const std::vector<std::int64_t>& numbers) {
    return std::vector<std::int64_t>(numbers.begin() + range.begin, numbers.begin() + range.end);
  };
  const OrderedSamples own{part(samples.lengths), part(samples.shared)};
  RunRows run(own, alignment);
  while (run.begin() > 0) run.grow();
  return run.rows();
}

/// Returns, for each sample, the end of the first run in the best cut of this sample and all later ones.
std::vector<std::int64_t> ends_of_first_runs(const OrderedSamples& samples, std::int64_t alignment,
                                             std::int64_t max_rows, std::span<const PartLimit> limits) {
  const std::int64_t count = samples.size();
  std::vector<CutPrice> from(to_index(count + 1));  // price of the best cut of the samples from each index on
  std::vector<std::int64_t> first_end(to_index(count));
  RunRows run(samples, alignment);
  RunAmounts amounts(limits);
  // Candidates for the end of a first run that starts at `begin` or earlier. Ends are in descending order,
  // and their prices are in ascending order.
  std::deque<std::int64_t> ends;
  const auto price = [&](std::int64_t end) {  // price of cutting the samples from `end` on
    CutPrice rest = from[to_index(end)];
    if (end < count) rest.repeated += samples.shared[to_index(end)];
    return rest;
  };
  for (std::int64_t begin = count - 1; begin >= 0; --begin) {
    run.grow();
    amounts.add(begin);
    while (run.end() > begin + 1 && (run.rows() > max_rows || !amounts.are_within_limits())) {
      run.shrink();
      amounts.remove(run.end());
    }
    while (!ends.empty() && price(ends.back()) > price(begin + 1)) ends.pop_back();
    ends.push_back(begin + 1);
    while (ends.front() > run.end()) ends.pop_front();
    first_end[to_index(begin)] = ends.front();
    from[to_index(begin)] = price(ends.front());
    ++from[to_index(begin)].runs;
  }
  return first_end;
}

}  // namespace

std::vector<OrderedRun> runs_with_fewest_repeats(const OrderedSamples& samples, std::int64_t alignment,
                                                 std::int64_t max_rows, std::span<const PartLimit> limits) {
  const std::vector<std::int64_t> first_end = ends_of_first_runs(samples, alignment, max_rows, limits);
  std::vector<OrderedRun> runs;
  for (std::int64_t begin = 0; begin < samples.size(); begin = runs.back().samples.end) {
    OrderedRun run{{begin, first_end[to_index(begin)]}};
    if (!runs.empty()) {
      run.repeated = samples.shared[to_index(begin)];
      const RowRange both{runs.back().samples.begin, run.samples.end};
      if (rows_of_run(samples, alignment, both) <= max_rows)
        run.exceeded_limit = find_first_broken_limit(limits, both);
    }
    runs.push_back(run);
  }
  return runs;
}

}  // namespace evenkeel
