#include "pack/prefix/fewest_repeats.hpp"

#include <algorithm>
#include <compare>
#include <deque>
#include <numeric>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t nth(std::int64_t i) noexcept {
  return static_cast<std::size_t>(i);
}

/// For each number the nearest smaller one after it, or before it where they are listed backwards; their
/// count where there is none.
std::vector<std::int64_t> next_smaller(std::span<const std::int64_t> numbers) {
  const std::int64_t count = std::ssize(numbers);
  std::vector<std::int64_t> next(numbers.size(), count);
  for (std::int64_t i = count - 1; i >= 0; --i) {
    std::int64_t candidate = i + 1;
    while (candidate < count && numbers[nth(candidate)] >= numbers[nth(i)]) candidate = next[nth(candidate)];
    next[nth(i)] = candidate;
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

/// What a run of samples has of every limit.
class RunAmounts {
 public:
  explicit RunAmounts(std::span<const PartLimit> limits) : limits_(limits), amounts_(limits.size(), 0) {}

  void add(std::int64_t sample) noexcept {
    for (std::size_t l = 0; l < amounts_.size(); ++l) amounts_[l] += limits_[l].of_samples[nth(sample)];
  }
  void remove(std::int64_t sample) noexcept {
    for (std::size_t l = 0; l < amounts_.size(); ++l) amounts_[l] -= limits_[l].of_samples[nth(sample)];
  }
  [[nodiscard]] bool fit() const noexcept {
    for (std::size_t l = 0; l < amounts_.size(); ++l)
      if (amounts_[l] > limits_[l].most) return false;
    return true;
  }

 private:
  std::span<const PartLimit> limits_;
  std::vector<std::int64_t> amounts_;
};

/// How good a cut of the samples from one on is; less is better.
struct CutPrice {
  std::int64_t repeated = 0;
  std::int64_t runs = 0;

  friend auto operator<=>(const CutPrice&, const CutPrice&) = default;
};

}  // namespace

RunRows::RunRows(const OrderedSamples& samples, std::int64_t alignment)
    : samples_(&samples),
      alignment_(alignment),
      less_after_(next_smaller(samples.shared)),
      less_before_(previous_smaller(samples.shared)),
      begin_(samples.size()),
      end_(samples.size()) {
  EVENKEEL_PRECONDITION(cheap, alignment >= 1, alignment);
}

/// Of a branch between two others of the same path, after so many tokens each.
std::int64_t RunRows::rows_of_branch(std::int64_t below, std::int64_t tokens,
                                     std::int64_t above) const noexcept {
  if (tokens == below || tokens == above) return 0;
  return align_up(tokens - below, alignment_) + align_up(above - tokens, alignment_) -
         align_up(above - below, alignment_);
}

/// The rows that a branch after so many tokens of a sample adds to those of the run from the sample on: the
/// samples after it leave its path where each shares less than all those before.
std::int64_t RunRows::rows_of_branch_after(std::int64_t sample, std::int64_t tokens) const noexcept {
  std::int64_t above = samples_->lengths[nth(sample)];
  std::int64_t other = sample + 1;
  while (other < end_ && samples_->shared[nth(other)] > tokens) {
    above = samples_->shared[nth(other)];
    other = less_after_[nth(other)];
  }
  return rows_of_branch(other < end_ ? samples_->shared[nth(other)] : 0, tokens, above);
}

/// The same with the samples of the run before it.
std::int64_t RunRows::rows_of_branch_before(std::int64_t sample, std::int64_t tokens) const noexcept {
  std::int64_t above = samples_->lengths[nth(sample)];
  std::int64_t other = sample;
  while (other > begin_ && samples_->shared[nth(other)] > tokens) {
    above = samples_->shared[nth(other)];
    other = less_before_[nth(other)];
  }
  return rows_of_branch(other > begin_ ? samples_->shared[nth(other)] : 0, tokens, above);
}

void RunRows::grow() noexcept {
  const std::int64_t added = --begin_;
  std::int64_t shared = 0;
  if (added + 1 < end_) {
    shared = samples_->shared[nth(added + 1)];
    rows_ += rows_of_branch_after(added + 1, shared);
  }
  rows_ += align_up(samples_->lengths[nth(added)] - shared, alignment_);
}

void RunRows::shrink() noexcept {
  const std::int64_t removed = --end_;
  const std::int64_t shared = samples_->shared[nth(removed)];
  rows_ -= align_up(samples_->lengths[nth(removed)] - shared, alignment_);
  rows_ -= rows_of_branch_before(removed - 1, shared);
}

namespace {

/// The first limit after that of the rows which a run of samples breaks, counted from 1.
std::size_t first_broken(std::span<const PartLimit> limits, RowRange samples) {
  std::size_t broken = 1;
  for (const PartLimit& limit : limits) {
    const auto begin = limit.of_samples.begin();
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

/// Where the best first run of the samples from each on ends.
std::vector<std::int64_t> ends_of_first_runs(const OrderedSamples& samples, std::int64_t alignment,
                                             std::int64_t max_rows, std::span<const PartLimit> limits) {
  const std::int64_t count = samples.size();
  std::vector<CutPrice> from(nth(count + 1));  // of the best cut of the samples from each on
  std::vector<std::int64_t> first_end(nth(count));
  RunRows run(samples, alignment);
  RunAmounts amounts(limits);
  // Ends that may be best for a first run from here or further back: the last first, with rising prices.
  std::deque<std::int64_t> ends;
  const auto price = [&](std::int64_t end) {  // of what comes after it
    CutPrice rest = from[nth(end)];
    if (end < count) rest.repeated += samples.shared[nth(end)];
    return rest;
  };
  for (std::int64_t begin = count - 1; begin >= 0; --begin) {
    run.grow();
    amounts.add(begin);
    while (run.end() > begin + 1 && (run.rows() > max_rows || !amounts.fit())) {
      run.shrink();
      amounts.remove(run.end());
    }
    while (!ends.empty() && price(ends.back()) > price(begin + 1)) ends.pop_back();
    ends.push_back(begin + 1);
    while (ends.front() > run.end()) ends.pop_front();
    first_end[nth(begin)] = ends.front();
    from[nth(begin)] = price(ends.front());
    ++from[nth(begin)].runs;
  }
  return first_end;
}

}  // namespace

std::vector<OrderedRun> runs_with_fewest_repeats(const OrderedSamples& samples, std::int64_t alignment,
                                                 std::int64_t max_rows, std::span<const PartLimit> limits) {
  const std::vector<std::int64_t> first_end = ends_of_first_runs(samples, alignment, max_rows, limits);
  std::vector<OrderedRun> runs;
  for (std::int64_t begin = 0; begin < samples.size(); begin = runs.back().samples.end) {
    OrderedRun run{{begin, first_end[nth(begin)]}};
    if (!runs.empty()) {
      run.repeated = samples.shared[nth(begin)];
      const RowRange both{runs.back().samples.begin, run.samples.end};
      if (rows_of_run(samples, alignment, both) <= max_rows) run.forced_by = first_broken(limits, both);
    }
    runs.push_back(run);
  }
  return runs;
}

}  // namespace evenkeel
