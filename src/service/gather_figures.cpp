#include <algorithm>
#include <array>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <boost/serialization/vector.hpp>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>

#include "evenkeel/exchange/shared_heap.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/plan/dp_assignment.hpp"
#include "evenkeel/service/step_figures.hpp"

namespace evenkeel {
namespace {

// Sums on rank 0 over all ranks. Other ranks get what they brought.
ExchangeVolume sum_of_volumes(const boost::mpi::communicator& world, const ExchangeVolume& mine) {
  const std::array<std::int64_t, 6> values{mine.sent,   mine.between_nodes, mine.kept,
                                           mine.copied, mine.passed_on,     mine.messages};
  std::array<std::int64_t, 6> sums{};
  boost::mpi::reduce(world, values.data(), 6, sums.data(), std::plus<>(), 0);
  return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]};
}

// The most memory of any rank's columns, on rank 0.
std::int64_t most_column_bytes(const boost::mpi::communicator& world) {
  const std::int64_t mine = SharedHeap::of_process().usage().peak;
  std::int64_t most = mine;
  boost::mpi::reduce(world, mine, most, boost::mpi::maximum<std::int64_t>(), 0);
  return most;
}

constexpr std::size_t num_phases = 6;

PhaseSeconds phases_of(std::span<const double> s) {
  return {s[0], s[1], s[2], s[3], s[4], s[5]};
}

// On rank 0: means over ranks, and of each phase what the slowest rank took.
void add_seconds(const boost::mpi::communicator& world, const Step& mine, StepFigures& figures) {
  const PhaseSeconds& s = mine.seconds;
  const std::array<double, num_phases + 1> values{s.read,     s.gather, s.plan,     s.agree,
                                                  s.exchange, s.pack,   mine.waited};
  constexpr auto count = static_cast<int>(num_phases + 1);
  std::array<double, num_phases + 1> sums{};
  std::array<double, num_phases + 1> slowest{};
  boost::mpi::reduce(world, values.data(), count, sums.data(), std::plus<>(), 0);
  boost::mpi::reduce(world, values.data(), count, slowest.data(), boost::mpi::maximum<double>(), 0);
  for (double& sum : sums) sum /= world.size();
  figures.seconds = phases_of(sums);
  figures.slowest_seconds = phases_of(slowest);
  figures.waited = sums[num_phases];
}

// The plans of all DP ranks, on world rank 0, from the ranks of the grid's line through it.
std::vector<DpRankPlan> gather_plans(const Mesh& mesh, const DpRankPlan& mine) {
  const GridPoint& here = mesh.here();
  if (here.tp != 0 || here.cp != 0 || here.pp != 0) return {};
  std::vector<std::int64_t> flat{mine.lower_bound, mine.needed};
  for (const MicroBatchPlan& m : mine.micro_batches)
    flat.insert(flat.end(), {m.tokens, m.aligned_tokens, m.cost});
  std::vector<std::vector<std::int64_t>> all;
  boost::mpi::gather(mesh.along(Axis::dp), flat, all, 0);
  std::vector<DpRankPlan> plans;
  for (const std::vector<std::int64_t>& numbers : all) {
    DpRankPlan& plan = plans.emplace_back();
    plan.lower_bound = numbers[0];
    plan.needed = numbers[1];
    for (std::size_t i = 2; i < numbers.size(); i += 3) {
      MicroBatchPlan& m = plan.micro_batches.emplace_back();
      m.tokens = numbers[i];
      m.aligned_tokens = numbers[i + 1];
      m.cost = numbers[i + 2];
    }
  }
  return plans;
}

void add_lengths(const Step& step, StepFigures& figures) {
  std::int64_t longest = 0;
  for (const Segment& segment : step.dealt.segments.segments())
    figures.aligned_tokens += segment.aligned_length;
  for (const LengthEntry& entry : step.table.entries()) {
    std::int64_t rows = 0;
    for (const std::int64_t segment : step.dealt.segments.path_of(&entry - step.table.entries().data()))
      rows += step.dealt.segments[segment].aligned_length;
    longest = std::max(longest, rows);
  }
  const std::vector<std::int64_t> lengths = step.table.sample_lengths();
  const std::int64_t width = lengths.empty() ? 0 : std::ranges::max(lengths);
  figures.metrics = dynamic_batching_metrics(lengths, figures.aligned_tokens, width);
  std::ranges::move(seqlen_balance_metrics(lengths, step.dealt.shares), std::back_inserter(figures.metrics));
  figures.samples = step.table.size();
  figures.tokens = step.table.num_tokens();
  figures.padded_tokens = figures.samples * longest;
}

void add_sharing(const Step& step, StepFigures& figures) {
  if (!step.dealt.shared) return;
  std::vector<std::int64_t> entries(static_cast<std::size_t>(step.table.size()));
  std::iota(entries.begin(), entries.end(), std::int64_t{0});
  const std::vector<SharedGroup> whole = step.trees.empty() ? prompt_groups(step.table, entries) : step.trees;
  const std::int64_t alignment = figures.alignment;
  for (const LengthEntry& entry : step.table.entries())
    figures.unshared_rows += align_up(entry.shape.length(), alignment);
  figures.sharing.emplace();
  for (const DealtMiniBatch& mini_batch : step.dealt.mini_batches)
    *figures.sharing += savings_of(mini_batch.atoms);
  figures.tokens_repeated_by_cap = figures.sharing->tokens;
  for (const SharedGroup& group : whole) figures.tokens_repeated_by_cap -= group.tree.num_rows();
}

void add_plans(const std::vector<DpRankPlan>& plans, std::span<const std::int64_t> speeds,
               StepFigures& figures) {
  std::vector<std::vector<Cost>> costs;
  for (const DpRankPlan& plan : plans) {
    figures.micro_batches = static_cast<std::int64_t>(plan.micro_batches.size());
    figures.micro_batches_lower_bound = std::max(figures.micro_batches_lower_bound, plan.lower_bound);
    std::vector<Cost>& of_rank = costs.emplace_back();
    for (const MicroBatchPlan& m : plan.micro_batches) {
      of_rank.push_back(m.cost);
      figures.widest_micro_batch = std::max(figures.widest_micro_batch, m.aligned_tokens);
      if (m.aligned_tokens == 0) ++figures.empty_micro_batches;
      if (m.aligned_tokens > figures.cap) ++figures.micro_batches_above_cap;
    }
  }
  figures.balance = step_balance(costs, speeds);
}

// The service may have measured anew since the step was planned.
double max_over_mean_before(const Step& step, PlanSettings settings) {
  settings.balance.cost = step.cost.model;
  return max_over_mean(unbalanced_dp_costs(step.table, settings), settings.balance.speeds);
}

}  // namespace

std::optional<StepFigures> gather_figures(const Mesh& mesh, const PlanSettings& settings, const Step& step) {
  StepFigures figures;
  figures.volume = sum_of_volumes(mesh.world(), step.volume);
  figures.column_bytes = most_column_bytes(mesh.world());
  add_seconds(mesh.world(), step, figures);
  const std::vector<DpRankPlan> plans = gather_plans(mesh, step.plan);
  if (mesh.rank() != WorldRank{0}) return std::nullopt;

  figures.step = step.index;
  figures.profile = step.profile;
  figures.cap = settings.micro_batch.max_tokens;
  figures.alignment = settings.alignment();
  figures.pads_micro_batches = settings.micro_batch.mode == MicroBatchMode::padded;
  add_lengths(step, figures);
  add_plans(plans, settings.balance.speeds, figures);
  add_sharing(step, figures);
  figures.cost = step.cost;
  figures.cost_is_measured = settings.balance.measured.has_value();
  figures.dp_max_over_mean_before = max_over_mean_before(step, settings);
  return figures;
}

}  // namespace evenkeel
