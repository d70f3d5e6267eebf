#include "plan/loss_weights.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {
namespace {

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// The exact totals of a whole mini-batch, and the weights that depend only on them.
class MiniBatchTotals {
 public:
  MiniBatchTotals(const LengthTable& table, std::span<const EntryId> entries, const LossSettings& settings,
                  std::int64_t ahead)
      : settings_(settings), ahead_(ahead) {
    for (const EntryId at : entries) {
      const LengthEntry& entry = table[at];
      tokens_ += loss_tokens(entry);
      if (!counts(entry)) continue;
      ++samples_;
      ++samples_of_prompt_[entry.shape.group];
    }
  }

  [[nodiscard]] bool counts(const LengthEntry& entry) const {
    return settings_.fully_masked == FullyMasked::count || loss_tokens(entry) > 0;
  }
  [[nodiscard]] std::int64_t loss_tokens(const LengthEntry& entry) const {
    return loss_tokens_ahead(entry, ahead_);
  }
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }

  /// Returns omega, the weight of each loss token of the entry. Precondition: the entry has loss tokens.
  [[nodiscard]] double token_weight(const LengthEntry& entry) const {
    const std::int64_t own = loss_tokens(entry);
    EVENKEEL_PRECONDITION(cheap, own > 0, own, entry.shape.id);
    switch (settings_.aggregation) {
      case LossAggregation::token_mean:
        return ratio(1, tokens_);
      case LossAggregation::token_sum:
        return 1;
      case LossAggregation::seq_mean_token_sum:
        return ratio(1, samples_);
      case LossAggregation::seq_mean_token_mean:
        return ratio(1, samples_ * own);
      case LossAggregation::seq_mean_token_sum_norm:
        return ratio(1, samples_ * settings_.norm_length);
      case LossAggregation::prompt_mean: {
        const auto prompts = static_cast<std::int64_t>(samples_of_prompt_.size());
        return ratio(1, prompts * samples_of_prompt_.at(entry.shape.group) * own);
      }
      case LossAggregation::mindspeed_rl:
        break;  // depends on the micro-batch, so loss_weights() computes it
    }
    return 0;
  }

 private:
  const LossSettings& settings_;
  std::int64_t ahead_;
  std::int64_t tokens_ = 0;
  std::int64_t samples_ = 0;
  std::unordered_map<std::uint64_t, std::int64_t> samples_of_prompt_;
};

/// The loss tokens and counted samples of one micro-batch.
struct MicroBatchTotals {
  std::int64_t tokens = 0;
  std::int64_t samples = 0;
};

MicroBatchTotals totals_of(const LengthTable& table, const MicroBatchPlan& plan,
                           const MiniBatchTotals& whole) {
  MicroBatchTotals totals;
  for (const EntryId entry : plan.entries) {
    totals.tokens += whole.loss_tokens(table[entry]);
    totals.samples += whole.counts(table[entry]) ? 1 : 0;
  }
  return totals;
}

// Returns the weight of a micro-batch's own mean loss in the loss of the mini-batch. If the aggregation does
// not define a mean over a micro-batch, returns the sum of the micro-batch's token weights.
double share_of(const MicroBatchTotals& m, const MiniBatchTotals& whole, const LossSettings& settings,
                double sum_of_weights) {
  switch (settings.aggregation) {
    case LossAggregation::token_mean:
      return ratio(m.tokens, whole.tokens());
    case LossAggregation::token_sum:
      return static_cast<double>(m.tokens);
    case LossAggregation::seq_mean_token_sum:
    case LossAggregation::seq_mean_token_mean:
    case LossAggregation::seq_mean_token_sum_norm:
      return ratio(m.samples, whole.samples());
    case LossAggregation::prompt_mean:
    case LossAggregation::mindspeed_rl:
      break;
  }
  return sum_of_weights;
}

}  // namespace

std::vector<MicroBatchLoss> loss_weights(const LengthTable& table, std::span<const EntryId> mini_batch,
                                         std::span<const MicroBatchPlan> micro_batches,
                                         const LossSettings& settings, int dp, std::int64_t ahead) {
  if (settings.norm_length < 1) {
    throw ConfigError("loss.norm_length",
                      "is " + std::to_string(settings.norm_length) + "; it must be at least 1");
  }
  const MiniBatchTotals whole(table, mini_batch, settings, ahead);
  std::int64_t samples_of_rank = 0;
  for (const MicroBatchPlan& plan : micro_batches) samples_of_rank += totals_of(table, plan, whole).samples;
  const double scale =
      (settings.micro_batches == Reduction::mean ? static_cast<double>(micro_batches.size()) : 1.0) *
      (settings.dp_ranks == Reduction::mean ? static_cast<double>(dp) : 1.0);

  std::vector<MicroBatchLoss> losses;
  for (const MicroBatchPlan& plan : micro_batches) {
    const MicroBatchTotals totals = totals_of(table, plan, whole);
    const double mindspeed = ratio(totals.samples, samples_of_rank * dp);
    MicroBatchLoss& loss = losses.emplace_back();
    loss.scale = scale;
    double sum_of_weights = 0;
    for (const EntryId entry : plan.entries) {
      const std::int64_t own = whole.loss_tokens(table[entry]);
      const bool by_micro_batch = settings.aggregation == LossAggregation::mindspeed_rl;
      double weight = 0;
      if (own > 0)
        weight = by_micro_batch ? mindspeed / static_cast<double>(totals.tokens)
                                : whole.token_weight(table[entry]);
      loss.token_weights.push_back(weight);
      sum_of_weights += weight * static_cast<double>(own);
    }
    loss.mean_weight = scale * share_of(totals, whole, settings, sum_of_weights);
  }
  return losses;
}

namespace {

/// Returns the weights of a DP rank's micro-batches, mini-batch by mini-batch. `entries_of` returns a
/// mini-batch's entries over all DP ranks.
template <typename EntriesOf>
std::vector<MicroBatchLoss> loss_weights_by_mini_batch(const LengthTable& table,
                                                       std::int64_t num_mini_batches, EntriesOf entries_of,
                                                       std::span<const MicroBatchPlan> micro_batches,
                                                       const LossSettings& settings, int dp,
                                                       std::int64_t ahead = 0) {
  std::vector<MicroBatchLoss> losses;
  auto begin = micro_batches.begin();
  for (const MiniBatchId m : ids_below<MiniBatchId>(num_mini_batches)) {
    const auto end = std::find_if(begin, micro_batches.end(),
                                  [&](const MicroBatchPlan& plan) { return plan.mini_batch != m; });
    std::ranges::move(loss_weights(table, entries_of(m), {begin, end}, settings, dp, ahead),
                      std::back_inserter(losses));
    begin = end;
  }
  return losses;
}

/// Returns the entries of each mini-batch over all DP ranks.
std::vector<std::vector<EntryId>> entries_by_mini_batch(const StepPlan& plan) {
  std::vector<std::vector<EntryId>> entries(plan.counts.size());
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    for (const MicroBatchPlan& m : plan.ranks[r].micro_batches) {
      if (!m.is_led_by(DpRank{static_cast<int>(r)})) continue;
      std::vector<EntryId>& of_mini_batch = entries[m.mini_batch.index()];
      of_mini_batch.insert(of_mini_batch.end(), m.entries.begin(), m.entries.end());
    }
  }
  return entries;
}

}  // namespace

std::vector<MicroBatchLoss> loss_weights(const LengthTable& table, const StepAssignment& assignment,
                                         std::span<const MicroBatchPlan> micro_batches,
                                         const LossSettings& settings, int dp, std::int64_t ahead) {
  return loss_weights_by_mini_batch(
      table, std::ssize(assignment.mini_batches), [&](MiniBatchId m) { return assignment.entries_of(m); },
      micro_batches, settings, dp, ahead);
}

std::vector<std::vector<MicroBatchLoss>> step_losses(const LengthTable& table, const StepPlan& plan,
                                                     const LossSettings& settings) {
  const std::vector<std::vector<EntryId>> entries = entries_by_mini_batch(plan);
  const auto entries_of = [&](MiniBatchId m) { return std::span(entries[m.index()]); };
  std::vector<std::vector<MicroBatchLoss>> losses;
  for (const DpRankPlan& rank : plan.ranks) {
    losses.push_back(loss_weights_by_mini_batch(table, std::ssize(entries), entries_of, rank.micro_batches,
                                                settings, static_cast<int>(plan.ranks.size())));
  }
  return losses;
}

}  // namespace evenkeel
