#include "bench/plan/scale_bench.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>

#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/transfer/transfer_plan.hpp"

namespace evenkeel::bench {
namespace {

constexpr int dp = 2048;
constexpr int cp_size = 8;
constexpr std::size_t num_samples = 1U << 20U;

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Samples of these lengths, owned in turn by all ranks.
LengthTable made_up_table() {
  const std::vector<std::int64_t> lengths = made_up_lengths(num_samples, 7);
  std::vector<LengthEntry> entries;
  entries.reserve(lengths.size());
  constexpr std::int64_t world = std::int64_t{dp} * cp_size;
  for (std::int64_t id = 0; id < static_cast<std::int64_t>(lengths.size()); ++id) {
    const SampleShape shape{SampleId{id}, 0, 0, lengths[static_cast<std::size_t>(id)]};
    entries.push_back(
        {shape, WorldRank{static_cast<int>(id % world)}, static_cast<std::int32_t>(id / world)});
  }
  return LengthTable(std::move(entries));
}

PlanSettings made_up_settings() {
  PlanSettings settings;
  settings.dp = dp;
  settings.cp.size = cp_size;
  settings.micro_batch.max_tokens = 65536;
  for (int rank = 0; rank < dp * cp_size; ++rank) settings.dp_of_rank.push_back(rank / cp_size);
  return settings;
}

/// A plan, stage by stage, as computed by the ranks of a job: each computes its own micro-batches and
/// transfers.
class LargePlan {
 public:
  void assign() { assignment_ = assign_step(problem()); }

  void pack(DpRank rank) {
    PlanningPeers nobody;
    micro_batches_ = std::move(plan_dp_ranks(problem(), assignment_, {&rank, 1}, nobody).ranks.front());
  }

  /// Determines who sends what to whom, and how received samples are cut for this CP rank.
  void plan_transfers_of_one() {
    const TransferPlan<SegmentId> plan = plan_transfers(table_, assignment_.segments, assignment_.groups,
                                                        {WorldRank{0}, DataPlace{0}, dp * cp_size});
    for (const std::vector<SegmentId>& segments : plan.from_owner) {
      for (const SegmentId s : segments) {
        const Segment& segment = assignment_.segments[s];
        const SampleShape& shape = table_[segment.entry].shape;
        for (const RowCopy& move :
             rows_to_copy(FieldKind::token, {shape.prompt, shape.length(), segment.rows,
                                             segment.aligned_length, settings_.cp, CpRank{0}})) {
          rows_ += move.source.size();
        }
      }
    }
  }

  void plan_all() { all_ = plan_step(problem()); }

  [[nodiscard]] std::size_t num_micro_batches() const { return micro_batches_.micro_batches.size(); }
  [[nodiscard]] std::int64_t num_rows() const { return rows_; }
  [[nodiscard]] std::int64_t num_of_all() const { return all_.num_micro_batches() * dp; }

 private:
  [[nodiscard]] StepProblem problem() const { return {table_, settings_}; }

  LengthTable table_ = made_up_table();
  PlanSettings settings_ = made_up_settings();
  StepAssignment assignment_;
  DpRankPlan micro_batches_;
  std::int64_t rows_ = 0;
  StepPlan all_;
};

}  // namespace

Table plan_of_a_million(const PlanOptions& options) {
  LargePlan plan;
  Table table(
      "scale", fmt::format("A plan of {} samples on dp {}, cp {}, cap 65536", num_samples, dp, cp_size),
      {{"stage", "stage"}, {"made", "made"}, {"ms", "ms, median", 1}, {"peak_mib", "peak memory, MiB", 0}});
  const auto time = [&](const std::function<void()>& work) {
    std::vector<double> seconds;
    for (int round = 0; round < options.rounds; ++round) seconds.push_back(seconds_of(work));
    return median(seconds) * 1e3;
  };
  const auto add = [&](const char* stage, double ms, std::string made) {
    table.add({stage, std::move(made), ms, peak_mib()});
  };
  const double assigning = time([&] { plan.assign(); });
  add("assignment to DP ranks, placed", assigning, fmt::format("{} shares", dp));
  const double packing = time([&] { plan.pack(DpRank{0}); });
  add("micro-batches of one DP rank", packing, fmt::format("{} micro-batches", plan.num_micro_batches()));
  const double moving = time([&] { plan.plan_transfers_of_one(); });
  add("transfer plan of one rank", moving, fmt::format("{} rows", plan.num_rows() / options.rounds));
  add("all that one rank plans", assigning + packing + moving, "");
  const double all = time([&] { plan.plan_all(); });
  add("assignment and micro-batches of all DP ranks, in one process", all,
      fmt::format("{} micro-batches", plan.num_of_all()));
  return table;
}

}  // namespace evenkeel::bench
