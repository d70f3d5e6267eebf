#include "page/run_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

/// Returns, for each micro-batch index, the maximum time over the DP ranks. This is how long the micro-batch
/// takes if DP ranks synchronize after every micro-batch.
std::vector<double> meeting_times(const StepPicture& step) {
  std::vector<double> longest(static_cast<std::size_t>(step.micro_batches));
  for (const DpRankPicture& rank : step.dp_ranks) {
    for (std::size_t j = 0; j < rank.micro_batches.size(); ++j)
      longest[j] = std::max(longest[j], rank.time_of(rank.micro_batches[j].cost));
  }
  return longest;
}

double time_of(const DpRankPicture& rank) {
  return rank.time_of(rank.sum(&MicroBatchPicture::cost));
}

/// Copies the DP ranks of a step, in order, but keeps the micro-batches of only `most` ranks: half of them
/// the slowest and half the fastest.
std::vector<DpRankPicture> keep_fastest_and_slowest(const StepPicture& step, std::size_t most) {
  std::vector<std::size_t> order(step.dp_ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t r) { return time_of(step.dp_ranks[r]); });
  std::vector<DpRankPicture> kept = step.dp_ranks;
  for (std::size_t i = (most + 1) / 2; i < order.size() - most / 2; ++i) kept[order[i]].micro_batches.clear();
  return kept;
}

}  // namespace

void RunPicture::add(const StepPicture& step) {
  profile_ = step.profile;
  planning_ = step.planning;
  for (const std::int64_t length : step.lengths) lengths_.add(length);
  points_.push_back({step, step.step});
  totals_.add(step);
  add_times(step);
  add_ranks(step);
  update_kept_steps(step);
}

double RunPicture::mean_time() const noexcept {
  double sum = 0;
  for (const DpRankTotals& rank : dp_ranks_) sum += rank.time;
  return dp_ranks_.empty() ? 0 : sum / static_cast<double>(dp_ranks_.size());
}

void RunPicture::add_times(const StepPicture& step) {
  dp_ranks_.resize(step.dp_ranks.size());
  const std::vector<double> meetings = meeting_times(step);
  const double meeting = std::accumulate(meetings.begin(), meetings.end(), 0.0);
  double longest = 0;
  double sum = 0;
  std::int64_t micro_batches = 0;
  for (const DpRankPicture& rank : step.dp_ranks) {
    longest = std::max(longest, time_of(rank));
    sum += time_of(rank);
    for (const MicroBatchPicture& m : rank.micro_batches) micro_batches += m.rows > 0 ? 1 : 0;
  }
  for (std::size_t r = 0; r < step.dp_ranks.size(); ++r) {
    const DpRankPicture& rank = step.dp_ranks[r];
    DpRankTotals& totals = dp_ranks_[r];
    totals.samples += rank.sum(&MicroBatchPicture::samples);
    totals.tokens += rank.sum(&MicroBatchPicture::tokens);
    totals.rows += rank.sum(&MicroBatchPicture::rows);
    totals.cost += rank.sum(&MicroBatchPicture::cost);
    totals.cost_before += rank.cost_before;
    totals.tokens_before += rank.tokens_before;
    totals.time += time_of(rank);
    totals.waits_at_end += longest - time_of(rank);
    totals.waits_at_each += meeting - time_of(rank);
  }
  longest_time_ += longest;
  meeting_time_ += meeting;
  const auto costliest = static_cast<double>(step.costliest_sample);
  if (costliest * static_cast<double>(step.dp_ranks.size()) > sum) ++giant_sample_steps_;
  if (costliest * static_cast<double>(micro_batches) > sum * 1.02) ++large_sample_steps_;
}

void RunPicture::add_ranks(const StepPicture& step) {
  ranks_.resize(std::max(ranks_.size(), step.ranks.size()));
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const RankPicture& of_step = step.ranks[r];
    for (std::size_t p = 0; p < phase_names.size(); ++p) ranks_[r].seconds[p] += of_step.seconds[p];
    ranks_[r].waited += of_step.waited;
    ranks_[r].peak_bytes = std::max(ranks_[r].peak_bytes, of_step.peak_bytes);
    ranks_[r].sent_bytes += of_step.sent_bytes;
    ranks_[r].kept_bytes += of_step.kept_bytes;
  }
  if (step.links) links_ = links_ ? * links_ += *step.links : *step.links;
}

void RunPicture::update_kept_steps(const StepPicture& step) {
  const auto k = static_cast<std::size_t>(std::max<std::int64_t>(step.micro_batches, 1));
  const std::size_t max_ranks = std::max<std::size_t>(2, max_kept_micro_batches / k);
  KeptStep kept{step.step, step_waiting(step.balance).every_micro_batch,
                step.dp_ranks.size() > max_ranks ? keep_fastest_and_slowest(step, max_ranks) : step.dp_ranks};
  if (!first_) {
    first_ = std::move(kept);
    return;
  }
  if (latest_) {
    const auto place =
        std::ranges::find_if(worst_, [&](const KeptStep& other) { return other.waiting < latest_->waiting; });
    worst_.insert(place, *std::move(latest_));
    if (worst_.size() > max_kept_steps - 2) worst_.pop_back();
  }
  latest_ = std::move(kept);
}

std::vector<KeptStep> RunPicture::kept_steps() const {
  std::vector<KeptStep> steps = worst_;
  if (first_) steps.push_back(*first_);
  if (latest_) steps.push_back(*latest_);
  std::ranges::sort(steps, {}, &KeptStep::step);
  return steps;
}

namespace {

std::vector<std::int64_t> merged_pairs(const std::vector<std::int64_t>& bins) {
  std::vector<std::int64_t> merged((bins.size() + 1) / 2);
  for (std::size_t i = 0; i < bins.size(); ++i) merged[i / 2] += bins[i];
  return merged;
}

}  // namespace

void LengthHistogram::add(std::int64_t length) {
  EVENKEEL_PRECONDITION(cheap, length >= 0, length);
  shortest_ = samples_.empty() ? length : std::min(shortest_, length);
  longest_ = std::max(longest_, length);
  while (length / width_ >= most_bins) widen();
  const auto bin = static_cast<std::size_t>(length / width_);
  if (bin >= samples_.size()) {
    samples_.resize(bin + 1);
    tokens_.resize(bin + 1);
  }
  ++samples_[bin];
  tokens_[bin] += length;
}

void LengthHistogram::widen() {
  width_ *= 2;
  samples_ = merged_pairs(samples_);
  tokens_ = merged_pairs(tokens_);
}

std::string to_text(const MeshPicture& mesh) {
  const std::string cp = mesh.flexible_cp ? "flexible" : std::to_string(mesh.sizes.cp);
  return fmt::format("tp {} x cp {} x dp {} x pp {}", mesh.sizes.tp, cp, mesh.sizes.dp, mesh.sizes.pp);
}

nlohmann::json to_json(const MeshPicture& mesh) {
  return {{"tp", mesh.sizes.tp},
          {"cp", mesh.flexible_cp ? nlohmann::json("flexible") : nlohmann::json(mesh.sizes.cp)},
          {"dp", mesh.sizes.dp},
          {"pp", mesh.sizes.pp}};
}

}  // namespace evenkeel
