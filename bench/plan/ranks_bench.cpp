#include "bench/plan/ranks_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/transfer/transfer_plan.hpp"

namespace evenkeel::bench {
namespace {

constexpr int cp = 8;
constexpr int samples_per_rank = 8;

/// The computations of one rank of a job in a step, piece by piece, and the number of ranks with which it
/// communicates.
class RankOfMany {
 public:
  RankOfMany(int ranks, PlacementRule placement) : ranks_(ranks) {
    const auto samples = static_cast<std::size_t>(ranks) * samples_per_rank;
    for (const std::int64_t length : made_up_lengths(samples, 7)) {
      const auto id = std::ssize(entries_);
      entries_.push_back({{SampleId{id}, 0, 0, length},
                          WorldRank{static_cast<int>(id % ranks)},
                          static_cast<std::int32_t>(id / ranks)});
    }
    settings_.dp = ranks / cp;
    settings_.cp.size = cp;
    settings_.micro_batch.max_tokens = 65536;
    settings_.balance.placement = placement;
    for (int rank = 0; rank < ranks; ++rank) settings_.dp_of_rank.push_back(rank / cp);
  }

  void make_table() { table_ = LengthTable(entries_); }
  void assign() { units_ = assign_units(problem()); }
  void follow_assignment() { assignment_ = assign_step_by_units(problem(), units_); }
  void pack() {
    PlanningPeers nobody;
    constexpr DpRank first{0};
    static_cast<void>(plan_dp_ranks(problem(), assignment_, {&first, 1}, nobody));
  }
  void plan_transfers_of_one() {
    const TransferEnds ends{WorldRank{0}, DataPlace{0}, ranks_};
    segments_ = plan_transfers(table_, assignment_.segments, assignment_.groups, ends);
    static_cast<void>(plan_transfers(table_, assignment_.shares, assignment_.groups, ends));
  }

  [[nodiscard]] std::int64_t num_samples() const { return std::ssize(entries_); }
  /// Number of ranks to which this one sends, and from which it receives.
  [[nodiscard]] std::int64_t num_sends() const {
    return cp * std::ranges::count_if(segments_.to_group, [](const auto& list) { return !list.empty(); });
  }
  [[nodiscard]] std::int64_t num_receives() const {
    return std::ranges::count_if(segments_.from_owner, [](const auto& list) { return !list.empty(); });
  }

 private:
  [[nodiscard]] StepProblem problem() const { return {table_, settings_}; }

  int ranks_;
  std::vector<LengthEntry> entries_;
  PlanSettings settings_;
  LengthTable table_;
  std::vector<IdGroups<UnitId>> units_;
  StepAssignment assignment_;
  TransferPlan<SegmentId> segments_;
};

}  // namespace

Table pieces_by_ranks(const PlanOptions& options) {
  Table table(
      "ranks",
      fmt::format("What one rank works out in a step, {} samples a rank, cp {}", samples_per_rank, cp),
      {{"ranks", "ranks"},
       {"samples", "samples"},
       {"placement", "placement"},
       {"table_ms", "table, ms", 1},
       {"assign_ms", "assign, ms", 1},
       {"follow_ms", "follow, ms", 1},
       {"pack_ms", "micro-batches, ms", 2},
       {"transfers_ms", "transfers, ms", 1},
       {"sends", "sends to"},
       {"receives", "receives from"}});
  for (const int ranks : {1024, 16384, 102400}) {
    for (const auto& [name, rule] :
         {std::pair{"locality", PlacementRule::locality}, std::pair{"none", PlacementRule::none}}) {
      RankOfMany rank(ranks, rule);
      const auto time = [&](const std::function<void()>& work) {
        std::vector<double> seconds;
        for (int round = 0; round < options.rounds; ++round) seconds.push_back(seconds_of(work));
        return median(seconds) * 1e3;
      };
      const double made = time([&] { rank.make_table(); });
      const double assigned = time([&] { rank.assign(); });
      const double followed = time([&] { rank.follow_assignment(); });
      const double packed = time([&] { rank.pack(); });
      const double moved = time([&] { rank.plan_transfers_of_one(); });
      table.add({ranks, rank.num_samples(), name, made, assigned, followed, packed, moved, rank.num_sends(),
                 rank.num_receives()});
    }
  }
  return table;
}

}  // namespace evenkeel::bench
