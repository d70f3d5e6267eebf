#include "page/advice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_layout.hpp"

namespace evenkeel {
namespace {

// Minimum values for adding advice. Below them, other settings would gain little, or the measured times are
// too short to be conclusive.
constexpr double least_share = 0.02;
constexpr double least_padding = 0.05;
constexpr double least_wait = 0.1;
constexpr double least_seconds = 0.5;

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

double fraction_of(double part, double whole) noexcept {
  return whole > 0 ? part / whole : 0;
}

/// Returns "In 3 of 8 steps the costliest sample" for some = 3 and all = 8, or "The costliest sample" if
/// `all` is 1.
std::string costliest_sample_text(std::int64_t some, std::size_t all) {
  if (all == 1) return "The costliest sample";
  return "In " + format_with_commas(some) + " of " + format_with_commas(static_cast<std::int64_t>(all)) +
         " steps the costliest sample";
}

std::size_t longest_phase(const PhaseTimes& seconds) {
  return static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
}

/// Sets `why` and `action` of advice about DP ranks with uneven work.
void explain_uneven_ranks(const RunPicture& run, const PassFigures& sums, Advice& advice) {
  const PlanningPicture& planning = run.planning();
  const std::int64_t a_rank =
      sums.samples / std::max<std::int64_t>(1, std::ssize(run.dp_ranks()) * std::ssize(run.points()));
  if (planning.in_source_order) {
    advice.why = "balance.algorithm: none gives DP ranks equal runs of samples in the order of the source.";
    advice.action = "Try balance.algorithm: auto.";
  } else if (run.num_giant_sample_steps() > 0) {
    advice.why = costliest_sample_text(run.num_giant_sample_steps(), run.points().size()) +
                 " alone is more than a DP rank's mean work: no assignment of whole samples makes that even.";
    advice.action =
        "A larger batch.global_batch gives the other ranks more to do; a larger mesh.cp with fewer DP ranks "
        "splits the sample; batch.delay_outliers puts such samples into one step.";
  } else if (!planning.preset.empty()) {
    advice.why = "balance.preset: " + planning.preset + " reproduces how that system assigns samples.";
    advice.action = "evenkeel plan --compare shows Evenkeel's own planning of the same lengths.";
  } else if (planning.pads_micro_batches) {
    advice.why =
        "micro_batch.mode: padded assigns samples by length, so that those that are padded together are "
        "similar.";
    advice.action = "Try micro_batch.mode: packed, which balances work.";
  } else if (planning.equal_count) {
    advice.why = "balance.equal_count requires the same number of samples on every DP rank.";
    advice.action = "Without it, work can be more even.";
  } else if (a_rank < 8) {
    advice.why = "A DP rank has " + format_count(a_rank, "sample") + " per step, too few to balance well.";
    advice.action = "Try a larger batch.global_batch, or fewer DP ranks.";
  } else {
    advice.why = planning.shares_prefixes ? "Samples that share prefixes go to one DP rank together."
                                          : "Samples do not divide more evenly under these settings.";
    advice.action = "Try a larger batch.global_batch.";
  }
}

void add_uneven_ranks_advice(const RunPicture& run, const PassFigures& sums, std::vector<Advice>& all) {
  const double share = 1 - fraction_of(run.mean_time(), run.longest_time());
  if (run.longest_time() <= 0 || share < least_share) return;
  const auto& ranks = run.dp_ranks();
  const auto waits = std::ranges::max_element(ranks, {}, &DpRankTotals::waits_at_end);
  const auto works = std::ranges::max_element(ranks, {}, &DpRankTotals::time);
  Advice& advice = all.emplace_back();
  advice.share = share;
  advice.what = fmt::format(
      "dp {} waits {} of the planned work's time for slower DP ranks, and a DP rank waits {} on average; dp "
      "{} "
      "has the most work, {} above the mean.",
      waits - ranks.begin(), percent_text(fraction_of(waits->waits_at_end, run.longest_time())),
      percent_text(share), works - ranks.begin(),
      percent_text(fraction_of(works->time, run.mean_time()) - 1));
  explain_uneven_ranks(run, sums, advice);
}

void add_uneven_micro_batches_advice(const RunPicture& run, std::vector<Advice>& all) {
  const double at_end = 1 - fraction_of(run.mean_time(), run.longest_time());
  const double at_each = 1 - fraction_of(run.mean_time(), run.meeting_time());
  if (run.meeting_time() <= 0 || at_each - at_end < least_share) return;
  const PlanningPicture& planning = run.planning();
  Advice& advice = all.emplace_back();
  advice.share = at_each - at_end;
  advice.what = fmt::format(
      "If DP ranks meet after every micro-batch, a DP rank waits {} of the planned work's time on average, "
      "and {} "
      "if they meet at the end of the step.",
      percent_text(at_each), percent_text(at_end));
  if (planning.has_fixed_micro_batches) {
    advice.why = "micro_batch.mode: fixed cuts micro-batches by the number of samples.";
    advice.action = "Try micro_batch.mode: packed, which balances them.";
  } else if (run.num_large_sample_steps() > 0) {
    advice.why = costliest_sample_text(run.num_large_sample_steps(), run.points().size()) +
                 " alone is more than a mean micro-batch.";
    advice.action =
        "If memory allows, try a larger cap (micro_batch.max_tokens or max_tokens_per_rank): fewer "
        "micro-batches, each with more work.";
  } else if (!planning.preset.empty()) {
    advice.why = "balance.preset: " + planning.preset + " reproduces how that system packs micro-batches.";
    advice.action = "evenkeel plan --compare shows Evenkeel's own planning of the same lengths.";
  } else {
    advice.why = "The first, second, third ... micro-batches of DP ranks differ in work.";
    advice.action =
        planning.could_use_grid
            ? "Try balance.strategy: grid, which packs the micro-batches of all DP ranks at once; auto uses "
              "it if a step then ends earlier and you set balance.meet: micro-batch."
            : "A larger batch.global_batch gives more to choose from.";
  }
}

void add_excess_micro_batches_advice(const RunPicture& run, const PassFigures& sums,
                                     std::vector<Advice>& all) {
  const std::int64_t more = sums.micro_batches - sums.lower_bound;
  const double share = fraction_of(static_cast<double>(more), static_cast<double>(sums.micro_batches));
  if (share < least_share) return;
  const std::string empty = sums.empty == 0
                                ? ""
                                : fmt::format(" {} over all DP ranks {} empty.",
                                              format_with_commas(sums.empty), sums.empty == 1 ? "is" : "are");
  all.push_back(
      {share,
       fmt::format("A DP rank has {}{}; judging by the tokens and the cap, {} could be enough.{}",
                   format_count(sums.micro_batches, "micro-batch", "micro-batches"),
                   run.points().size() == 1 ? "" : " over all steps", format_with_commas(sums.lower_bound),
                   empty),
       run.planning().may_require_more
           ? "micro_batch.count, min_count or multiple_of (its "
             "default is pp if mesh.vpp is above 1) may require more."
           : "All DP ranks have as many as the one that needs most, and samples do not always fill the cap.",
       run.planning().may_require_more
           ? "If nothing needs them, leave these keys out."
           : "A slightly larger cap (micro_batch.max_tokens or max_tokens_per_rank) may save one per step."});
}

void add_padding_advice(const RunPicture& run, const PassFigures& sums, std::vector<Advice>& all) {
  const double share =
      fraction_of(static_cast<double>(sums.rows - sums.filled), static_cast<double>(sums.rows));
  if (share < least_padding) return;
  const PlanningPicture& planning = run.planning();
  const std::string what = percent_text(share) + " of the delivered rows are padding, not tokens.";
  if (planning.pads_micro_batches) {
    all.push_back({share, what, "micro_batch.mode: padded pads every sample to its micro-batch's longest.",
                   "Try micro_batch.mode: packed, if the model takes packed sequences."});
    return;
  }
  const std::int64_t mean = sums.samples == 0 ? 0 : sums.tokens / sums.samples;
  all.push_back(
      {share, what,
       fmt::format("Lengths are aligned to {}, and a sample has {} on average.",
                   format_count(planning.alignment, "token"), format_count(mean, "token")),
       "The alignment follows from mesh.tp, mesh.cp, pack.align and pack.align_lcm: for samples this "
       "short, fewer CP ranks waste less."});
}

void add_broken_caps_advice(const RunPicture& run, const PassFigures& sums, std::vector<Advice>& all) {
  if (sums.above_cap == 0) return;
  const double number = static_cast<double>(sums.micro_batches) * static_cast<double>(run.dp_ranks().size());
  all.push_back({fraction_of(static_cast<double>(sums.above_cap), number),
                 fmt::format("{} {} above the cap, with up to {} rows; {} are allowed.",
                             format_count(sums.above_cap, "micro-batch", "micro-batches"),
                             sums.above_cap == 1 ? "is" : "are", format_with_commas(sums.widest),
                             format_with_commas(run.planning().cap)),
                 "balance.preset: " + run.planning().preset +
                     " reproduces another system's plan, which does not keep the cap.",
                 "Leave balance.preset out to keep the cap, or leave memory for the widest."});
}

/// Adds advice about steps in which no token carries loss.
void add_no_loss_advice(const RunPicture& run, const PassFigures& sums, std::vector<Advice>& all) {
  const std::int64_t steps = std::ranges::count_if(run.points(), &StepPoint::has_no_loss);
  if (steps == 0) return;
  const auto of_all = static_cast<std::int64_t>(run.points().size());
  all.push_back(
      {fraction_of(static_cast<double>(steps), static_cast<double>(of_all)),
       fmt::format("In {} of {} no token carries loss: all loss weights are 0, and nothing is trained.",
                   format_with_commas(steps), format_count(of_all, "step")),
       fmt::format("Samples without such a token: {} of {}. Responses are empty or cut off, or loss masks "
                   "are 0.",
                   format_with_commas(sums.without_loss + sums.left_out),
                   format_with_commas(sums.samples + sums.left_out)),
       "Check loss_mask, prompt_ids and batch.max_length; batch.without_loss: drop leaves such samples out, "
       "and "
       "error ends the job at the first."});
}

/// Adds advice for runs that prepare each step only when the trainer requests it.
void add_waits_advice(const RunCircumstances& circumstances, const PassFigures& sums,
                      std::vector<Advice>& all) {
  if (circumstances.prefetch != 0 || sums.waited < least_seconds) return;
  const double share = fraction_of(sums.waited, circumstances.seconds);
  if (share < least_wait) return;
  all.push_back({std::min(share, 1.0),
                 fmt::format("The trainer waited {:.1f} s of {:.1f} s for steps; the longest phase is {}.",
                             sums.waited, circumstances.seconds, phase_names.at(longest_phase(sums.seconds))),
                 "exchange.prefetch: 0 makes no steps ahead.",
                 "exchange.prefetch: 1 makes the next step while the trainer computes."});
}

void add_slow_readers_advice(const RunPicture& run, const PassFigures& sums, std::vector<Advice>& all) {
  const double more = sums.slowest[0] - sums.seconds[0];
  const double share = fraction_of(more, sum_of(sums.seconds));
  if (more < least_seconds || share < least_wait || sums.slowest[0] < 2 * sums.seconds[0]) return;
  const auto reads = [](const RankPicture& rank) { return rank.seconds[0]; };
  const auto slowest = std::ranges::max_element(run.ranks(), {}, reads);
  if (slowest == run.ranks().end()) return;
  all.push_back(
      {std::min(share, 1.0),
       fmt::format("Reading took {:.1f} s on rank {} and {:.1f} s on average; the others waited in gather.",
                   slowest->seconds[0], slowest - run.ranks().begin(), sums.seconds[0]),
       "Ranks meet before a step is planned, and wait for the slowest reader.",
       "Check that rank's disk and node."});
}

}  // namespace

std::vector<Advice> advice_on(const RunPicture& run, const RunCircumstances& circumstances) {
  const PassFigures sums = run.totals().total();
  std::vector<Advice> all;
  add_no_loss_advice(run, sums, all);
  add_broken_caps_advice(run, sums, all);
  add_uneven_ranks_advice(run, sums, all);
  add_uneven_micro_batches_advice(run, all);
  add_excess_micro_batches_advice(run, sums, all);
  add_padding_advice(run, sums, all);
  add_waits_advice(circumstances, sums, all);
  add_slow_readers_advice(run, sums, all);
  std::ranges::stable_sort(all, std::greater(), &Advice::share);
  return all;
}

}  // namespace evenkeel
