#include "plan/units/pack_units.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "pack/prefix/tree_split.hpp"
#include "plan/settings/encoder_costs.hpp"
#include "plan/settings/field_costs.hpp"

namespace evenkeel {
namespace {

constexpr Cost most_work = Cost{1} << 62;
constexpr std::size_t ahead_reason = 3;       // of repeat_reasons
constexpr std::size_t equal_work_reason = 4;  // likewise

std::vector<SharedGroup> groups_of(const StepProblem& problem) {
  if (problem.settings.sharing == PrefixSharing::prompts)
    return prompt_groups(problem.table, problem.settings.predict_ahead);
  require_cover(problem.table, problem.trees);
  return {problem.trees.begin(), problem.trees.end()};
}

}  // namespace

PackUnit PackUnits::operator[](UnitId unit) const noexcept {
  const std::size_t at = unit.index();
  PackUnit found{{}, rows_[at], aligned_rows_[at], costs_[at], nullptr};
  if (shared_) {
    found.entries = trees_[at].entries;
    found.tree = &trees_[at].tree;
  } else {
    found.entries = std::span(entries_).subspan(at, 1);
  }
  return found;
}

std::int64_t PackUnits::num_groups() const noexcept {
  return shared_ ? std::ssize(first_of_group_) - 1 : size();
}

UnitId PackUnits::first_of_group(std::int64_t group) const noexcept {
  return shared_ ? first_of_group_[static_cast<std::size_t>(group)] : UnitId{group};
}

SegmentId PackUnits::first_segment(UnitId unit) const noexcept {
  return shared_ ? first_segments_[unit.index()] : SegmentId{unit.value()};
}

void PackUnits::add(SharedGroup unit, const PlanSettings& settings) {
  rows_.push_back(unit.tree.num_rows());
  aligned_rows_.push_back(evenkeel::aligned_rows(unit.tree, settings.alignment()));
  costs_.push_back(cost_of_tree(settings.balance.cost, unit.tree));
  samples_.push_back(std::ssize(unit.entries));
  first_segments_.emplace_back(first_segments_.back().value() + unit.tree.size());
  trees_.push_back(std::move(unit));
}

std::vector<std::int64_t> PackUnits::sums_of(std::span<const std::int64_t> of_entries,
                                             const char* what) const {
  if (!shared_) return {of_entries.begin(), of_entries.end()};  // units are numbered as entries
  std::vector<std::int64_t> sums;
  sums.reserve(trees_.size());
  for (const SharedGroup& unit : trees_) {
    std::int64_t sum = 0;
    for (const EntryId entry : unit.entries) {
      const std::int64_t own = of_entries[entry.index()];
      if (own >= most_work - sum) {
        throw LimitError("balance.cost",
                         std::string(what) + " for samples that share a prefix is 2^62 or more",
                         "Use a coarser unit");
      }
      sum += own;
    }
    sums.push_back(sum);
  }
  return sums;
}

void PackUnits::take_costs(std::span<const Cost> of_entries) {
  costs_ = sums_of(of_entries, "the work of the field");
}

void PackUnits::add_encoder_costs(std::span<const Cost> of_entries) {
  encoder_costs_ = sums_of(of_entries, "an encoder's work");
}

void PackUnits::limit(std::span<const RowCap> caps, const MicroBatchSettings& settings) {
  limits_ = settings.limits();
  if (caps.empty()) return;
  std::vector<LimitedAmount> limits;
  for (const RowCap& cap : caps)
    capped_rows_.push_back({sums_of(cap.rows, "the number of rows of a field"), cap.most});
  for (const CappedRows& capped : capped_rows_) limits.push_back({capped.of_units, capped.most});
  std::vector<std::int64_t> ones;
  if (!shared_) ones.assign(costs_.size(), 1);
  if (limits_.max_items != BinLimits{}.max_items)
    limits.push_back({shared_ ? std::span<const std::int64_t>(samples_) : ones, limits_.max_items});
  parts_ = join_limits(limits, size());
  limits_.max_items = parts_.most;
}

PackUnits PackUnits::of_samples(const StepProblem& problem) {
  const PlanSettings& settings = problem.settings;
  PackUnits units;
  const std::int64_t alignment = settings.alignment();
  units.rows_ = problem.table.sample_lengths();
  units.aligned_rows_.reserve(units.rows_.size());
  units.costs_.reserve(units.rows_.size());
  for (const std::int64_t length : units.rows_) {
    units.aligned_rows_.push_back(align_up(length, alignment));
    units.costs_.push_back(settings.balance.cost(length));
  }
  units.entries_.resize(units.rows_.size());
  std::ranges::copy(ids_below<EntryId>(units.size()), units.entries_.begin());
  return units;
}

PackUnits PackUnits::of_no_group() {
  PackUnits units;
  units.shared_ = true;
  units.first_segments_ = {SegmentId{0}};
  units.first_of_group_ = {UnitId{0}};
  return units;
}

void PackUnits::add_group(std::vector<SharedGroup> parts, const PlanSettings& settings) {
  for (SharedGroup& unit : parts) add(std::move(unit), settings);
  first_of_group_.emplace_back(size());
}

void PackUnits::complete(const StepProblem& problem) {
  const BalanceSettings& balance = problem.settings.balance;
  if (balance.cost_field) take_costs(field_costs_of(problem.table, *balance.cost_field));
  if (balance.encoder) add_encoder_costs(encoder_costs_of(problem.table, *balance.encoder));
  const MicroBatchSettings& micro_batch = problem.settings.micro_batch;
  limit(row_caps_of(problem.table, micro_batch), micro_batch);
}

PackUnits make_units(const StepProblem& problem) {
  const PlanSettings& settings = problem.settings;
  if (settings.sharing == PrefixSharing::none) {
    PackUnits units = PackUnits::of_samples(problem);
    units.complete(problem);
    return units;
  }
  PackUnits units = PackUnits::of_no_group();
  for (SharedGroup& group : groups_of(problem)) {
    units.repeated_[ahead_reason] += repeated_ahead(problem.table, group, settings);
    SplitGroup split = split_to_fit(problem.table, std::move(group), settings);
    units.add_group(std::move(split.parts), settings);
    for (std::size_t l = 0; l < split.repeated.size(); ++l) units.repeated_[l] += split.repeated[l];
  }
  units.complete(problem);
  return units;
}

PackUnits cut_units(const StepProblem& problem, const PackUnits& units, const UnitCuts& cuts) {
  EVENKEEL_PRECONDITION(cheap, units.shared() && std::ssize(cuts) == units.size(), cuts.size(), units.size());
  PackUnits cut = PackUnits::of_no_group();
  for (std::int64_t g = 0; g < units.num_groups(); ++g) {
    std::vector<SharedGroup> parts;
    for (const UnitId unit : units.units_of_group(g)) {
      const SharedGroup& whole = units.trees_[unit.index()];
      const std::vector<std::int64_t>& begins = cuts[unit.index()];
      if (begins.size() < 2) {
        parts.push_back(whole);
      } else {
        std::ranges::move(cut_group(problem.table, whole, begins, problem.settings),
                          std::back_inserter(parts));
      }
    }
    cut.add_group(std::move(parts), problem.settings);
  }
  cut.repeated_ = units.repeated_;
  cut.repeated_[equal_work_reason] +=
      std::reduce(cut.rows_.begin(), cut.rows_.end()) - std::reduce(units.rows_.begin(), units.rows_.end());
  cut.complete(problem);
  return cut;
}

SharingSavings savings_of(const PackUnits& units) {
  SharingSavings savings;
  for (const UnitId unit : ids_below<UnitId>(units.size())) {
    const PrefixTree* tree = units[unit].tree;
    if (tree != nullptr) savings += sharing_savings(*tree);
  }
  return savings;
}

}  // namespace evenkeel
