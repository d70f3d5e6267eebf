#include "dealt_atoms.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "evenkeel/plan/dealing.hpp"
#include "evenkeel/plan/dp_assignment.hpp"
#include "group_packing.hpp"
#include "seeded_order.hpp"

namespace evenkeel {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

/// The groups of each mini-batch: runs of them in order, or in a drawn order.
Groups cut_between_groups(std::int64_t num_groups, const PlanSettings& settings, std::int64_t step) {
  const MiniBatchSettings& cut = settings.mini_batches;
  Groups runs = contiguous_runs(num_groups, cut.count).to_vectors();
  if (cut.keep && !cut.shuffle) return runs;
  const auto drawn = seeded_order(num_groups, settings.seed, {static_cast<std::uint64_t>(step)});
  for (std::vector<std::int64_t>& run : runs) {
    for (std::int64_t& group : run) group = drawn[static_cast<std::size_t>(group)];
    std::ranges::sort(run);
  }
  return runs;
}

DealtMiniBatch deal_mini_batch(const LengthTable& table, std::vector<SharedGroup> groups,
                               const PlanSettings& settings) {
  DealtMiniBatch dealt;
  dealt.atoms = make_atoms(table, std::move(groups), settings);
  std::vector<Cost> costs;
  for (const Atom& atom : dealt.atoms) costs.push_back(atom.cost);
  dealt.atom_shares = deal_by_cost(costs, settings);
  Groups shares(static_cast<std::size_t>(settings.dp));
  for (std::int64_t r = 0; r < settings.dp; ++r) {
    std::vector<std::int64_t>& share = shares[static_cast<std::size_t>(r)];
    for (const Item a : dealt.atom_shares[r]) {
      const std::vector<std::int64_t>& entries = dealt.atoms[static_cast<std::size_t>(a)].group.entries;
      share.insert(share.end(), entries.begin(), entries.end());
    }
    std::ranges::sort(share);
  }
  dealt.shares = Partition(shares);
  return dealt;
}

/// Numbers the segments of all atoms, mini-batch after mini-batch.
class SegmentNumbering {
 public:
  SegmentNumbering(const LengthTable& table, std::int64_t alignment, int dp)
      : alignment_(alignment),
        paths_{{}, std::vector<std::int64_t>(static_cast<std::size_t>(table.size()), -1)},
        shares_(static_cast<std::size_t>(dp)) {}

  void add(DealtMiniBatch& mini_batch) {
    for (const Atom& atom : mini_batch.atoms) {
      mini_batch.first_segments.push_back(std::ssize(segments_));
      add(atom);
    }
    for (std::int64_t r = 0; r < mini_batch.atom_shares.size(); ++r) {
      for (const Item a : mini_batch.atom_shares[r]) {
        const auto at = static_cast<std::size_t>(a);
        for (std::int64_t s = 0; s < mini_batch.atoms[at].group.tree.size(); ++s)
          shares_[static_cast<std::size_t>(r)].push_back(mini_batch.first_segments[at] + s);
      }
    }
  }

  [[nodiscard]] SegmentTable table() && { return {std::move(segments_), paths_, Partition(shares_)}; }

 private:
  void add(const Atom& atom) {
    const std::int64_t first = std::ssize(segments_);
    const SharedGroup& group = atom.group;
    const auto numbered = [first](std::int64_t s) { return s == -1 ? -1 : first + s; };
    for (std::size_t i = 0; i < group.entries.size(); ++i) {
      paths_.ends[static_cast<std::size_t>(group.entries[i])] =
          numbered(group.tree.sample_end(static_cast<std::int64_t>(i)));
    }
    for (const TreeSegment& segment : group.tree.segments()) {
      paths_.parents.push_back(numbered(segment.parent));
      segments_.push_back({group.entries[static_cast<std::size_t>(segment.first_sample)], segment.source(),
                           align_up(segment.rows.size(), alignment_)});
    }
  }

  std::int64_t alignment_;
  std::vector<Segment> segments_;
  SegmentPaths paths_;
  Groups shares_;
};

/// A DP rank's atoms as what balancing and capping look at.
PackedWork work_of(const DealtMiniBatch& mini_batch, DpRank rank, const PlanSettings& settings) {
  PackedWork work{{}, {}, {}, settings.micro_batch.limits()};
  for (const Item a : mini_batch.atom_shares[rank.value()]) {
    const Atom& atom = mini_batch.atoms[static_cast<std::size_t>(a)];
    work.costs.push_back(atom.cost);
    work.sizes.push_back(atom.aligned_rows);
    work.samples.push_back(std::ssize(atom.group.entries));
  }
  return work;
}

MicroBatchPlan micro_batch_of(const DealtMiniBatch& mini_batch, std::vector<std::int64_t> atoms) {
  MicroBatchPlan plan;
  for (const std::int64_t a : atoms) {
    const Atom& atom = mini_batch.atoms[static_cast<std::size_t>(a)];
    plan.entries.insert(plan.entries.end(), atom.group.entries.begin(), atom.group.entries.end());
    plan.tokens += atom.group.tree.num_rows();
    plan.aligned_tokens += atom.aligned_rows;
    plan.cost += atom.cost;
  }
  plan.atoms = std::move(atoms);
  return plan;
}

}  // namespace

DealtStep deal_atoms(const LengthTable& table, const PlanSettings& settings, std::int64_t step,
                     std::vector<SharedGroup> groups) {
  DealtStep dealt;
  dealt.step = step;
  dealt.shared = true;
  SegmentNumbering numbering(table, settings.alignment(), settings.dp);
  Groups shares(static_cast<std::size_t>(settings.dp));
  for (const std::vector<std::int64_t>& run : cut_between_groups(std::ssize(groups), settings, step)) {
    std::vector<SharedGroup> of_run;
    for (const std::int64_t g : run) of_run.push_back(std::move(groups[static_cast<std::size_t>(g)]));
    DealtMiniBatch& mini_batch =
        dealt.mini_batches.emplace_back(deal_mini_batch(table, std::move(of_run), settings));
    numbering.add(mini_batch);
    for (std::int64_t r = 0; r < settings.dp; ++r) {
      const std::span<const Item> share = mini_batch.shares[r];
      shares[static_cast<std::size_t>(r)].insert(shares[static_cast<std::size_t>(r)].end(), share.begin(),
                                                 share.end());
    }
  }
  dealt.shares = Partition(shares);
  dealt.segments = std::move(numbering).table();
  return dealt;
}

GroupCount count_for_atoms(const DealtMiniBatch& mini_batch, DpRank rank, const PlanSettings& settings) {
  return count_needed(work_of(mini_batch, rank, settings), settings.micro_batch);
}

std::vector<MicroBatchPlan> plan_atoms(const DealtMiniBatch& mini_batch, DpRank rank, std::int64_t count,
                                       const PlanSettings& settings) {
  const Partition groups = pack_into(work_of(mini_batch, rank, settings), count, settings.micro_batch);
  std::vector<MicroBatchPlan> micro_batches;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    std::vector<std::int64_t> atoms;
    for (const Item item : groups[g])
      atoms.push_back(mini_batch.atom_shares[rank.value()][static_cast<std::size_t>(item)]);
    micro_batches.push_back(micro_batch_of(mini_batch, std::move(atoms)));
  }
  order_micro_batches(micro_batches, settings.micro_batch.order);
  return micro_batches;
}

}  // namespace evenkeel
