#include "report/gather_figures.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <boost/mpi/datatype.hpp>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/activity.hpp"
#include "base/id_range.hpp"
#include "base/narrow.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/settings/field_costs.hpp"
#include "plan/strategies/strategy.hpp"
#include "report/step_figures.hpp"
#include "service/step_record.hpp"
#include "transport/gather_lists.hpp"
#include "transport/shared/shared_heap.hpp"

namespace evenkeel {
namespace {

// Reduces each number over all ranks with `operation`. Only rank 0 gets the result.
template <typename Number, std::size_t Size>
std::array<Number, Size> reduce_to_root(const boost::mpi::communicator& world,
                                        const std::array<Number, Size>& mine, MPI_Op operation) {
  std::array<Number, Size> combined{};
  const Waiting waiting("MPI_Reduce");
  check_mpi(MPI_Reduce(mine.data(), combined.data(), static_cast<int>(Size),
                       boost::mpi::get_mpi_datatype<Number>(), operation, 0, world),
            "MPI_Reduce");
  return combined;
}

// Sets, on rank 0, the figures of the exchange and `left_out` to their sums over all ranks.
void reduce_exchange_volume(const boost::mpi::communicator& world, const Step& step, PassFigures& figures) {
  const ExchangeVolume& mine = step.volume;
  const std::array<std::int64_t, 7> sums = reduce_to_root(
      world,
      std::array<std::int64_t, 7>{mine.sent, mine.between_nodes, mine.kept, mine.copied, mine.forwarded,
                                  mine.messages, step.record->samples->left_out},
      MPI_SUM);
  figures.sent_bytes = sums[0];
  figures.node_bytes = sums[1];
  figures.kept_bytes = sums[2];
  figures.copied_bytes = sums[3];
  figures.forwarded_bytes = sums[4];
  figures.node_messages = sums[5];
  figures.left_out = sums[6];
}

// Returns, on rank 0, the bytes of each field: sums over all ranks, and the maximum of any rank. All ranks
// have the same list of fields.
std::vector<FieldFigures> field_figures(const boost::mpi::communicator& world,
                                        std::span<const FieldVolume> volumes) {
  if (volumes.empty()) return {};
  std::vector<std::int64_t> mine;
  for (const FieldVolume& volume : volumes) mine.insert(mine.end(), {volume.received, volume.copied});
  const auto size = narrow<int>(mine.size(), "fields");
  const auto combined = [&](MPI_Op operation) {
    std::vector<std::int64_t> words(mine.size());
    const Waiting waiting("MPI_Reduce");
    check_mpi(MPI_Reduce(mine.data(), words.data(), size, boost::mpi::get_mpi_datatype<std::int64_t>(),
                         operation, 0, world),
              "MPI_Reduce");
    return words;
  };
  const std::vector<std::int64_t> sums = combined(MPI_SUM);
  const std::vector<std::int64_t> most = combined(MPI_MAX);
  std::vector<FieldFigures> fields;
  for (std::size_t f = 0; f < volumes.size(); ++f)
    fields.push_back({volumes[f].name, volumes[f].changed, sums[2 * f], sums[2 * f + 1], most[2 * f]});
  return fields;
}

// Returns, on rank 0, the peak memory of columns on the rank with the highest peak.
std::int64_t max_column_bytes(const boost::mpi::communicator& world) {
  return reduce_to_root(world, std::array<std::int64_t, 1>{SharedHeap::instance().usage().peak}, MPI_MAX)
      .front();
}

// Sets, on rank 0, the mean times over ranks and, for each phase, the slowest rank and its time.
void add_seconds(const boost::mpi::communicator& world, const Step& mine, StepFigures& figures) {
  constexpr std::size_t phases = phase_names.size();
  std::array<double, phases + 1> values{};
  std::ranges::copy(times_of(mine.seconds), values.begin());
  values.back() = mine.waited_seconds;
  std::array<std::pair<double, int>, values.size()> ranked;
  std::ranges::transform(values, ranked.begin(),
                         [&](double value) { return std::pair(value, world.rank()); });
  std::array<double, values.size()> means = reduce_to_root(world, values, MPI_SUM);
  const auto slowest = reduce_to_root(world, ranked, MPI_MAXLOC);
  for (double& mean : means) mean /= world.size();
  std::copy_n(means.begin(), phases, figures.seconds.begin());
  for (std::size_t p = 0; p < phases; ++p)
    std::tie(figures.slowest[p], figures.slowest_ranks[p]) = slowest[p];
  figures.waited = means.back();
  figures.longest_waited = slowest.back().first;
}

// Returns the figures of a DP rank's plan as a list of numbers. Ranks whose position along tp, cp or pp is
// not 0 return an empty list.
std::vector<std::int64_t> serialize_plan(const Mesh& mesh, const Step& step, const PlanSettings& settings) {
  const DpRankPlan& plan = step.record->plan;
  const GridPoint& here = mesh.here();
  if (here.tp != 0 || here.cp != 0 || here.pp != 0) return {};
  std::vector<std::int64_t> numbers{plan.lower_bound};
  for (const MicroBatchPlan& plan_of_one : plan.micro_batches) {
    const MicroBatchPicture m = picture_of(step.record->table(), plan_of_one, settings, DpRank{here.dp});
    const PackedShape shape = plan_of_one.shape.value_or(PackedShape{});
    numbers.insert(numbers.end(), {m.samples, m.tokens, m.rows, m.cost, m.longest, m.mini_batch, m.first_rank,
                                   m.ranks, shape.rows, shape.sequences, shape.max_seqlen, shape.cp});
  }
  return numbers;
}

/// Figures of a DP rank's plan.
struct PlannedDpRank {
  std::int64_t lower_bound = 0;
  std::vector<MicroBatchPicture> micro_batches;
  // Shape of each micro-batch; empty shapes unless the number of shapes is limited.
  std::vector<PackedShape> shapes;
};

std::vector<PlannedDpRank> deserialize_plans(const Grid& grid, const GatheredLists<std::int64_t>& gathered) {
  std::vector<PlannedDpRank> plans;
  for (const WorldRank rank : grid.line_through({}, Axis::dp)) {
    const std::span<const std::int64_t> numbers = gathered.list_of(rank.index());
    PlannedDpRank& plan = plans.emplace_back();
    plan.lower_bound = numbers[0];
    for (std::size_t i = 1; i < numbers.size(); i += 12) {
      plan.micro_batches.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3],
                                    numbers[i + 4], numbers[i + 5], numbers[i + 6], numbers[i + 7]});
      plan.shapes.push_back({numbers[i + 8], numbers[i + 9], numbers[i + 10], numbers[i + 11]});
    }
  }
  return plans;
}

void add_lengths(const Step& step, const PlanSettings& settings, StepFigures& figures) {
  std::int64_t longest = 0;
  for (const EntryId entry : ids_below<EntryId>(step.record->table().size())) {
    std::int64_t rows = 0;
    for (const SegmentId segment : step.record->assignment.segments.path_of(entry))
      rows += step.record->assignment.segments[segment].aligned_length;
    longest = std::max(longest, rows);
  }
  const std::vector<std::int64_t> lengths = step.record->table().sample_lengths();
  const std::int64_t width = lengths.empty() ? 0 : std::ranges::max(lengths);
  figures.metrics = dynamic_batching_metrics(lengths, figures.rows, width);
  // Balance figures are only meaningful if DP ranks run whole samples.
  if (!strategy_of(settings).has_flexible_groups()) {
    std::ranges::move(seqlen_balance_metrics(lengths, step.record->assignment.shares.items()),
                      std::back_inserter(figures.metrics));
  }
  figures.samples = step.record->table().size();
  figures.tokens = step.record->table().num_tokens();
  add_loss_counts(step.record->table(), figures);
  figures.padded_rows = figures.samples * longest;
}

void add_sharing(const Step& step, StepFigures& figures) {
  if (!step.record->assignment.has_shared_prefixes()) return;
  const std::int64_t alignment = figures.alignment;
  for (const LengthEntry& entry : step.record->table().entries())
    figures.unshared_rows += align_up(entry.shape.length(), alignment);
  figures.sharing = savings_of(step.record->assignment.units);
  figures.repeated = step.record->assignment.units.repeated();
}

void add_plans(const std::vector<PlannedDpRank>& plans, std::span<const std::int64_t> speeds,
               StepFigures& figures) {
  std::vector<std::vector<Cost>> costs;
  for (const PlannedDpRank& plan : plans) {
    add_to_figures(figures, plan.micro_batches, figures.cap);
    figures.lower_bound = std::max(figures.lower_bound, plan.lower_bound);
    std::vector<Cost>& of_rank = costs.emplace_back();
    for (const MicroBatchPicture& m : plan.micro_batches) of_rank.push_back(m.cost);
  }
  figures.balance = step_balance(costs, speeds);
}

void add_strategy(const Step& step, const PlanSettings& settings, StepFigures& figures) {
  const std::optional<StrategyChoice>& choice = step.record->strategy;
  if (!choice) return;
  const auto hierarchical = static_cast<double>(choice->hierarchical_end);
  const auto grid = static_cast<double>(choice->grid_end);
  const bool is_grid = choice->is_grid();
  figures.strategy = StrategyFigures{*settings.balance.meet, 1,    is_grid ? 1 : 0,
                                     hierarchical,           grid, is_grid ? grid : hierarchical};
}

void add_shapes(const Step& step, const std::vector<PlannedDpRank>& plans, const PlanSettings& settings,
                StepFigures& figures) {
  if (!settings.micro_batch.shapes || !step.record->shapes) return;
  ShapeFigures& shapes = figures.shapes.emplace();
  shapes.most = *settings.micro_batch.shapes;
  shapes.chosen = std::ssize(*step.record->shapes);
  for (const PlannedDpRank& plan : plans) {
    for (std::size_t m = 0; m < plan.shapes.size(); ++m) {
      shapes.used.insert(plan.shapes[m]);
      shapes.padding += plan.shapes[m].rows * settings.cp.size - plan.micro_batches[m].rows;
    }
  }
}

// Uses the cost with which the plan was balanced, since the service may have fitted new costs since then.
double max_over_mean_before(const Step& step, PlanSettings settings) {
  settings.balance.cost = step.record->cost.model;
  return max_over_mean(unbalanced_dp_costs(step.record->table(), settings), settings.balance.speeds);
}

void add_encoder(const Step& step, const PlanSettings& settings, StepFigures& figures) {
  figures.shares_encoder = settings.balance.encoder.has_value();
  if (!figures.shares_encoder) return;
  const EncoderWork work = encoder_work_of(step.record->table(), settings, step.record->assignment);
  figures.encoder_before = max_over_mean(work.in_source_order);
  figures.encoder = max_over_mean(work.assigned);
}

StepPicture picture_of(const Step& step, PlanSettings settings, const StepFigures& figures,
                       std::vector<PlannedDpRank> plans, RankFigures ranks) {
  StepPicture picture;
  static_cast<PassFigures&>(picture) = figures;
  picture.step = figures.step;
  picture.profile = figures.profile;
  settings.balance.cost = step.record->cost.model;
  for (PlannedDpRank& plan : plans)
    picture.dp_ranks.push_back({.micro_batches = std::move(plan.micro_batches)});
  add_common_figures(picture, step.record->table(), settings);
  picture.ranks = std::move(ranks.ranks);
  picture.links = std::move(ranks.links);
  return picture;
}

constexpr std::size_t num_seconds = phase_names.size() + 1;
// Three counts, and the bytes sent to each line of a LinkPicture.
constexpr std::size_t num_counts = 3 + std::size_t{LinkPicture::max_lines};

std::array<double, num_seconds> seconds_of(const Step& step) {
  std::array<double, num_seconds> values{};
  std::ranges::copy(times_of(step.seconds), values.begin());
  values.back() = step.waited_seconds;
  return values;
}

std::array<std::int64_t, num_counts> counts_of(const Step& step, const LinkPicture& links) {
  std::array<std::int64_t, num_counts> values{SharedHeap::instance().usage().peak, step.volume.sent,
                                              step.volume.kept};
  const auto per_line = static_cast<std::size_t>(links.ranks_per_line);
  const std::vector<std::int64_t>& bytes_to = step.record->bytes_to;
  for (std::size_t rank = 0; rank < bytes_to.size(); ++rank) values[3 + rank / per_line] += bytes_to[rank];
  return values;
}

}  // namespace

ShapeFigures& ShapeFigures::operator+=(const ShapeFigures& other) {
  most = std::max(most, other.most);
  chosen = std::max(chosen, other.chosen);
  used.insert(other.used.begin(), other.used.end());
  padding += other.padding;
  return *this;
}

StrategyFigures& StrategyFigures::operator+=(const StrategyFigures& other) {
  steps += other.steps;
  grids += other.grids;
  hierarchical_end += other.hierarchical_end;
  grid_end += other.grid_end;
  chosen_end += other.chosen_end;
  return *this;
}

std::optional<StepFigures> gather_figures(const Mesh& mesh, const PlanSettings& settings, const Step& step,
                                          FiguresDetail detail) {
  StepFigures figures;
  GuardedWork work;
  std::vector<std::int64_t> mine;
  work([&] { mine = serialize_plan(mesh, step, settings); });
  const auto gathered =
      all_gather_lists<std::int64_t>(mesh.world(), mine, work.error(), "micro-batches of all ranks");
  reduce_exchange_volume(mesh.world(), step, figures);
  figures.fields = field_figures(mesh.world(), step.record->volumes);
  figures.peak_bytes = max_column_bytes(mesh.world());
  add_seconds(mesh.world(), step, figures);
  RankFigures ranks;
  if (detail == FiguresDetail::picture) ranks = gather_rank_figures(mesh, step);
  const bool is_reporter = mesh.rank() == WorldRank{0};
  if (is_reporter) {
    work([&] {
      figures.step = step.index;
      figures.profile = step.profile;
      figures.cap = settings.micro_batch.max_tokens;
      figures.alignment = settings.alignment();
      figures.pads_micro_batches = strategy_of(settings).pads_micro_batches();
      std::vector<PlannedDpRank> plans = deserialize_plans(mesh.grid(), gathered);
      add_plans(plans, settings.speeds_of_costs(), figures);
      add_lengths(step, settings, figures);
      add_sharing(step, figures);
      add_shapes(step, plans, settings, figures);
      add_strategy(step, settings, figures);
      figures.cost = step.record->cost;
      figures.cost_is_measured = settings.balance.measured.has_value();
      figures.max_over_mean_before = max_over_mean_before(step, settings);
      add_encoder(step, settings, figures);
      if (detail == FiguresDetail::picture) {
        figures.picture = std::make_shared<const StepPicture>(
            picture_of(step, settings, figures, std::move(plans), std::move(ranks)));
      }
    });
  }
  work.agree(mesh.world());
  if (!is_reporter) return std::nullopt;
  return figures;
}

RankFigures gather_rank_figures(const Mesh& mesh, const Step& step) {
  const boost::mpi::communicator& world = mesh.world();
  const bool is_root = world.rank() == 0;
  const auto size = static_cast<std::size_t>(world.size());
  LinkPicture links = LinkPicture::for_ranks(world.size());
  std::vector<double> seconds(is_root ? size * num_seconds : 0);
  std::vector<std::int64_t> counts(is_root ? size * num_counts : 0);
  const std::array<double, num_seconds> my_seconds = seconds_of(step);
  const std::array<std::int64_t, num_counts> my_counts = counts_of(step, links);
  const Waiting waiting("MPI_Gather");
  check_mpi(MPI_Gather(my_seconds.data(), num_seconds, MPI_DOUBLE, seconds.data(), num_seconds, MPI_DOUBLE, 0,
                       world),
            "MPI_Gather");
  check_mpi(
      MPI_Gather(my_counts.data(), num_counts, MPI_INT64_T, counts.data(), num_counts, MPI_INT64_T, 0, world),
      "MPI_Gather");
  RankFigures gathered;
  if (!is_root) return gathered;
  gathered.ranks.resize(size);
  const auto num_lines = static_cast<std::size_t>(links.num_lines());
  for (std::size_t r = 0; r < size; ++r) {
    RankPicture& rank = gathered.ranks[r];
    std::copy_n(&seconds[r * num_seconds], phase_names.size(), rank.seconds.begin());
    rank.waited = seconds[r * num_seconds + phase_names.size()];
    const std::span<const std::int64_t> of_rank = std::span(counts).subspan(r * num_counts, num_counts);
    rank.peak_bytes = of_rank[0];
    rank.sent_bytes = of_rank[1];
    rank.kept_bytes = of_rank[2];
    const std::size_t line = r / static_cast<std::size_t>(links.ranks_per_line);
    for (std::size_t other = 0; other < num_lines; ++other)
      links.bytes[line * num_lines + other] += of_rank[3 + other];
  }
  gathered.links = std::move(links);
  return gathered;
}

}  // namespace evenkeel
