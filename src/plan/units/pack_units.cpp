#include "plan/units/pack_units.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "pack/prefix/tree_split.hpp"
#include "plan/settings/field_costs.hpp"

namespace evenkeel {
namespace {

constexpr Cost max_work = Cost{1} << 62;
constexpr std::size_t ahead_reason = 3;       // index of "predict_ahead" in repeat_reasons
constexpr std::size_t equal_work_reason = 4;  // index of "equal_work" in repeat_reasons

std::vector<SharedGroup> groups_of(const StepProblem& problem) {
  if (problem.settings.sharing == PrefixSharing::prompts)
    return prompt_groups(problem.table, problem.settings.predict_ahead);
  require_each_entry_once(problem.table, problem.trees);
  return {problem.trees.begin(), problem.trees.end()};
}

/// The pieces (UnitPiece) of one group of samples that share prefixes. Two pieces in the same micro-batch are
/// joined if they have tokens in common.
class GroupOfPieces {
 public:
  struct Part {
    SharedGroup group;
    std::size_t micro_batch = 0;
  };

  /// `group` is the whole group. Both arguments must outlive this object.
  GroupOfPieces(const StepProblem& problem, const SharedGroup& group) : problem_(problem), group_(group) {}

  void add(const SharedGroup& unit, const UnitPiece& piece) {
    Part part{group_of_piece(unit, piece.samples), piece.micro_batch};
    for (auto other = parts_.begin(); other != parts_.end();) {
      if (other->micro_batch == part.micro_batch && try_join(part, *other)) {
        parts_.erase(other);
        other = parts_.begin();  // start over, since the larger part may share tokens with others
      } else {
        ++other;
      }
    }
    parts_.push_back(std::move(part));
  }

  [[nodiscard]] std::vector<Part> release_parts() { return std::move(parts_); }

 private:
  [[nodiscard]] SharedGroup group_of_piece(const SharedGroup& unit, RowRange places) const {
    if (places == RowRange{0, std::ssize(unit.entries)}) return unit;
    const std::vector<std::int64_t> order = unit.tree.depth_first_samples();
    std::vector<std::int64_t> samples(order.begin() + places.begin, order.begin() + places.end);
    std::ranges::sort(samples);
    return sub_group(problem_.table, unit, samples, problem_.settings);
  }

  /// Adds the samples of `part` to `to` if the union repeats fewer tokens than the two parts and takes no
  /// more aligned rows. Returns whether it did.
  [[nodiscard]] bool try_join(Part& to, const Part& part) {
    std::vector<std::int64_t> samples;
    for (const Part* const each : std::array<const Part*, 2>{&to, &part})
      for (const EntryId entry : each->group.entries) samples.push_back(position_of(entry));
    std::ranges::sort(samples);
    SharedGroup both = sub_group(problem_.table, group_, samples, problem_.settings);
    const PrefixTree& one = to.group.tree;
    const PrefixTree& other = part.group.tree;
    const std::int64_t alignment = problem_.settings.alignment();
    if (both.tree.num_rows() == one.num_rows() + other.num_rows() ||
        aligned_rows(both.tree, alignment) > aligned_rows(one, alignment) + aligned_rows(other, alignment))
      return false;
    to.group = std::move(both);
    return true;
  }

  /// Returns the position of an entry in the group.
  [[nodiscard]] std::int64_t position_of(EntryId entry) {
    if (positions_.empty())
      for (std::size_t i = 0; i < group_.entries.size(); ++i)
        positions_.emplace(group_.entries[i], static_cast<std::int64_t>(i));
    return positions_.at(entry);
  }

  const StepProblem& problem_;
  const SharedGroup& group_;
  std::vector<Part> parts_;
  std::unordered_map<EntryId, std::int64_t> positions_;  // of entries in the group; filled when needed
};

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

UnitId PackUnits::first_unit_of_group(std::int64_t group) const noexcept {
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

std::vector<std::int64_t> PackUnits::sums_of(std::span<const std::int64_t> of_entries, const char* where,
                                             const char* what) const {
  if (!shared_) return {of_entries.begin(), of_entries.end()};  // each unit has the same number as its entry
  std::vector<std::int64_t> sums;
  sums.reserve(trees_.size());
  for (const SharedGroup& unit : trees_) {
    std::int64_t sum = 0;
    for (const EntryId entry : unit.entries) {
      const std::int64_t own = of_entries[entry.index()];
      if (own >= max_work - sum) {
        throw LimitError(where, std::string(what) + " for samples that share a prefix is 2^62 or more",
                         "Use smaller numbers, or fewer samples with the same prefix");
      }
      sum += own;
    }
    sums.push_back(sum);
  }
  return sums;
}

void PackUnits::set_costs(std::span<const Cost> of_entries) {
  costs_ = sums_of(of_entries, "balance.cost", "the work of the field");
}

void PackUnits::set_encoder_costs(std::span<const Cost> of_entries) {
  encoder_costs_ = sums_of(of_entries, "balance.cost", "an encoder's work");
}

void PackUnits::set_limits(std::span<const RowCap> caps, const BinLimits& limits_of_all) {
  limits_ = limits_of_all;
  if (caps.empty()) return;
  std::vector<LimitedAmount> limits;
  for (const RowCap& cap : caps)
    capped_rows_.push_back(
        {sums_of(cap.rows, "micro_batch.max_rows", "the number of rows of a field"), cap.most});
  for (const CappedRows& capped : capped_rows_) limits.push_back({capped.of_units, capped.most});
  std::vector<std::int64_t> ones;
  if (!shared_) ones.assign(costs_.size(), 1);
  if (limits_.max_items != BinLimits{}.max_items)
    limits.push_back({shared_ ? std::span<const std::int64_t>(samples_) : ones, limits_.max_items});
  joint_limit_ = join_limits(limits, size());
  limits_.max_items = joint_limit_.most;
}

PackUnits PackUnits::from_samples(const StepProblem& problem) {
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

PackUnits PackUnits::make_empty_with_sharing() {
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

void PackUnits::set_costs_and_limits(const StepProblem& problem) {
  const BalanceSettings& balance = problem.settings.balance;
  if (balance.cost_field) set_costs(field_costs_of(problem.table, *balance.cost_field));
  if (balance.encoder) set_encoder_costs(encoder_costs_of(problem.table, *balance.encoder));
  set_limits(row_caps_of(problem.table, problem.settings.micro_batch), problem.settings.limits());
}

PackUnits make_units(const StepProblem& problem) {
  const PlanSettings& settings = problem.settings;
  if (settings.sharing == PrefixSharing::none) {
    PackUnits units = PackUnits::from_samples(problem);
    units.set_costs_and_limits(problem);
    return units;
  }
  PackUnits units = PackUnits::make_empty_with_sharing();
  for (SharedGroup& group : groups_of(problem)) {
    units.repeated_[ahead_reason] += repeated_ahead(problem.table, group, settings);
    SplitGroup split = split_to_fit(problem.table, std::move(group), settings);
    units.add_group(std::move(split.parts), settings);
    for (std::size_t l = 0; l < split.repeated.size(); ++l) units.repeated_[l] += split.repeated[l];
  }
  units.set_costs_and_limits(problem);
  return units;
}

RegroupedUnits regroup_units(const StepProblem& problem, const PackUnits& units,
                             std::span<const UnitPiece> pieces) {
  EVENKEEL_PRECONDITION(cheap, units.has_shared_prefixes() && std::ssize(pieces) >= units.size(),
                        pieces.size(), units.size());
  const PlanSettings& settings = problem.settings;
  const std::vector<SharedGroup> groups = groups_of(problem);
  RegroupedUnits regrouped{PackUnits::make_empty_with_sharing(), {}};
  PackUnits& all = regrouped.units;
  auto piece = pieces.begin();
  for (std::int64_t g = 0; g < units.num_groups(); ++g) {
    GroupOfPieces parts(problem, groups[static_cast<std::size_t>(g)]);
    for (; piece != pieces.end() && piece->unit < units.first_unit_of_group(g + 1); ++piece)
      parts.add(units.trees_[piece->unit.index()], *piece);
    std::vector<SharedGroup> own;
    for (GroupOfPieces::Part& part : parts.release_parts()) {
      regrouped.micro_batches.push_back(part.micro_batch);
      own.push_back(std::move(part.group));
    }
    all.add_group(std::move(own), settings);
  }
  all.repeated_ = units.repeated_;
  const std::int64_t rows = std::reduce(all.rows_.begin(), all.rows_.end());
  std::int64_t more = rows - std::reduce(units.rows_.begin(), units.rows_.end());
  // If `more` is negative, the joined pieces repeat fewer tokens than the sub-groups from which they were
  // cut, so reduce the counts of the reasons before "predict_ahead".
  for (std::size_t l = 0; more < 0 && l < ahead_reason; ++l) {
    const std::int64_t less = std::min(all.repeated_[l], -more);
    all.repeated_[l] -= less;
    more += less;
  }
  all.repeated_[equal_work_reason] += more;
  all.set_costs_and_limits(problem);
  return regrouped;
}

SharingSavings savings_of(const PackUnits& units) {
  SharingSavings savings;
  for (const UnitId unit : ids_below<UnitId>(units.size())) {
    const PrefixTree* tree = units[unit].tree;
    if (tree != nullptr) savings += sharing_savings(*tree);
  }
  return savings;
}

std::vector<std::int64_t> pick(std::span<const std::int64_t> of_all, IdView<UnitId> units) {
  std::vector<std::int64_t> values;
  values.reserve(units.size());
  for (const UnitId unit : units) values.push_back(of_all[unit.index()]);
  return values;
}

std::vector<UnitId> pick(IdView<UnitId> units, std::span<const Item> places) {
  std::vector<UnitId> chosen;
  chosen.reserve(places.size());
  for (const Item place : places) chosen.push_back(units[place]);
  return chosen;
}

PickedUnits::PickedUnits(const PackUnits& all, IdView<UnitId> units)
    : costs(pick(all.costs(), units)), aligned_rows(pick(all.items().sizes, units)) {
  if (!all.items().counts.empty()) item_counts = pick(all.items().counts, units);
}

std::int64_t min_micro_batches_lower_bound(const PackUnits& all, IdView<UnitId> units) {
  const PickedUnits own(all, units);
  if (all.capped_rows().empty()) return min_bins_lower_bound(own.items(), all.limits());
  // The combined limit (joint_limit_) does not give a lower bound, so compute bounds for aligned rows and for
  // each capped field separately.
  std::int64_t fewest = min_bins_lower_bound(own.aligned_rows, {.max_size = all.limits().max_size});
  for (const CappedRows& capped : all.capped_rows()) {
    const std::vector<std::int64_t> rows = pick(capped.of_units, units);
    fewest = std::max(fewest, min_bins_lower_bound(rows, {.max_size = capped.most}));
  }
  return fewest;
}

GroupCount count_micro_batches(const PackUnits& all, IdView<UnitId> units) {
  const PickedUnits own(all, units);
  GroupCount count = count_groups(own.costs, own.items(), all.limits());
  if (!all.capped_rows().empty())
    count.lower_bound = std::min(count.needed, min_micro_batches_lower_bound(all, units));
  return count;
}

}  // namespace evenkeel
