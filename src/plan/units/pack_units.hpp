#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/bins/capped_partition.hpp"
#include "balance/bins/joint_limit.hpp"
#include "base/id_range.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "evenkeel/plan/shared_groups.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/units/id_groups.hpp"
#include "plan/units/row_caps.hpp"

namespace evenkeel {

/// A unit of assignment and packing: one sample, or samples that share prefixes. A unit goes to one DP rank
/// and into one micro-batch as a whole. A view, valid as long as its PackUnits object exists.
struct PackUnit {
  std::span<const EntryId> entries;  ///< the unit's samples, in packed order
  std::int64_t rows = 0;             ///< tokens without padding; shared tokens count once
  std::int64_t aligned_rows = 0;     ///< rows over the whole CP group, including alignment
  Cost cost = 0;                     ///< work; shared tokens and their attention count once
  const PrefixTree* tree = nullptr;  ///< the prefix tree of its samples; null without shared prefixes
};

/// Some samples of one unit that are consecutive in depth-first order, and the micro-batch to which they
/// belong.
struct UnitPiece {
  UnitId unit{0};
  RowRange samples;  ///< positions of the samples in the depth-first order of the unit's tree
  std::size_t micro_batch = 0;

  friend constexpr bool operator==(const UnitPiece&, const UnitPiece&) = default;
};

/// The units of a step, numbered 0..n-1. Replicated. A value type; uses 32 bytes per sample without shared
/// prefixes.
/// - Without sharing, each sample is a unit, numbered like its entry.
/// - With sharing, a unit is a group of samples that share prefixes, or a part of a group that exceeds the
///   limits. The units of a group have consecutive numbers.
class PackUnits {
 public:
  PackUnits() = default;

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(costs_); }
  [[nodiscard]] PackUnit operator[](UnitId unit) const noexcept;
  /// Appends the unit's samples, in packed order, to `entries`.
  void add_entries(UnitId unit, std::vector<EntryId>& entries) const {
    if (shared_) {
      const std::vector<EntryId>& own = trees_[unit.index()].entries;
      entries.insert(entries.end(), own.begin(), own.end());
    } else {
      entries.emplace_back(unit.value());
    }
  }
  /// Returns whether a unit may have more than one sample.
  [[nodiscard]] bool has_shared_prefixes() const noexcept { return shared_; }

  [[nodiscard]] std::span<const std::int64_t> rows() const noexcept { return rows_; }
  [[nodiscard]] std::span<const Cost> costs() const noexcept { return costs_; }
  /// Returns the encoder's work for each unit; empty without BalanceSettings::encoder.
  [[nodiscard]] std::span<const Cost> encoder_costs() const noexcept { return encoder_costs_; }
  /// Returns the two amounts of each unit that are subject to a micro-batch's limits: aligned rows and number
  /// of samples. With MicroBatchSettings::max_rows, the second amount is the unit's joint share of the row
  /// caps and of the limit on samples (join_limits).
  [[nodiscard]] BinItems items() const noexcept {
    return {aligned_rows_, capped_rows_.empty() ? std::span(samples_) : std::span(joint_limit_.counts)};
  }
  /// Returns the limits of a micro-batch on the amounts in items(). With flexible CP groups, the limit on
  /// rows is per rank.
  [[nodiscard]] const BinLimits& limits() const noexcept { return limits_; }
  /// Returns the rows of each unit in each capped field.
  [[nodiscard]] std::span<const CappedRows> capped_rows() const noexcept { return capped_rows_; }

  /// Returns the number of tokens that are repeated although samples could share them, by reason.
  [[nodiscard]] const RepeatedTokens& repeated() const noexcept { return repeated_; }

  /// Returns the number of groups of samples that share prefixes; without sharing, the number of samples.
  /// Mini-batches are cut between groups.
  [[nodiscard]] std::int64_t num_groups() const noexcept;
  /// Returns the first unit of a group. For group num_groups(), returns size().
  [[nodiscard]] UnitId first_unit_of_group(std::int64_t group) const noexcept;
  [[nodiscard]] auto units_of_group(std::int64_t group) const noexcept {
    return ids_between(first_unit_of_group(group), first_unit_of_group(group + 1));
  }

  /// Returns the number of the unit's first segment; the segments of a unit are numbered in the order of its
  /// tree. For unit size(), returns the total number of segments.
  [[nodiscard]] SegmentId first_segment(UnitId unit) const noexcept;
  [[nodiscard]] auto segments_of(UnitId unit) const noexcept {
    return ids_between(first_segment(unit), first_segment(UnitId{unit.value() + 1}));
  }

  friend bool operator==(const PackUnits&, const PackUnits&) = default;

 private:
  friend PackUnits make_units(const StepProblem& problem);
  friend struct RegroupedUnits regroup_units(const StepProblem& problem, const PackUnits& units,
                                             std::span<const UnitPiece> pieces);
  [[nodiscard]] static PackUnits from_samples(const StepProblem& problem);
  /// Returns an empty object for units with shared prefixes, to which groups can be added.
  [[nodiscard]] static PackUnits make_empty_with_sharing();
  void add_group(std::vector<SharedGroup> parts, const PlanSettings& settings);
  void add(SharedGroup unit, const PlanSettings& settings);
  /// Sets the costs, encoder costs and row counts that come from fields of the samples, and the limits.
  void set_costs_and_limits(const StepProblem& problem);
  void set_costs(std::span<const Cost> of_entries);
  void set_encoder_costs(std::span<const Cost> of_entries);
  void set_limits(std::span<const RowCap> caps, const BinLimits& limits_of_all);
  /// Returns, for each unit, the sum of its entries' values. Throws LimitError if a sum is 2^62 or more;
  /// `what` is the subject of the error's text.
  [[nodiscard]] std::vector<std::int64_t> sums_of(std::span<const std::int64_t> of_entries, const char* where,
                                                  const char* what) const;

  bool shared_ = false;
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> aligned_rows_;
  std::vector<Cost> costs_;
  std::vector<Cost> encoder_costs_;
  std::vector<CappedRows> capped_rows_;
  JointLimit joint_limit_;  // combines the caps on rows and the limit on samples
  BinLimits limits_;
  std::vector<EntryId> entries_;  // entries 0..n-1 without shared prefixes; empty with them
  // The following lists are empty without shared prefixes.
  std::vector<std::int64_t> samples_;
  std::vector<SharedGroup> trees_;
  std::vector<SegmentId> first_segments_;  // first segment of each unit, then the total number of segments
  std::vector<UnitId> first_of_group_;     // first unit of each group, then the total number of units
  RepeatedTokens repeated_{};
};

/// Makes the units of a step from the settings for sharing, alignment, caps, max_samples and, if set, the
/// fixed micro-batch size.
/// - A group that exceeds a limit is split into sub-groups of samples that are consecutive in depth-first
///   order, with the fewest repeated tokens possible for such sub-groups (see split_tree).
/// - A prompt with its responses remains a one-level tree, even if a sub-group has only one response. If that
///   sample fits only with its prompt and response aligned together, it becomes one segment.
/// Deterministic. O(n), or O(n log n) with shared prefixes. Throws InputError if the trees do not contain
/// each entry exactly once, or if samples do not have a field that is used for costs or has a row cap. Throws
/// LimitError if the work of a unit is 2^62 or more. Preconditions: no sample exceeds the cap on its own
/// (PlanningStrategy::require_samples_fit); require_within_row_caps() does not throw.
[[nodiscard]] PackUnits make_units(const StepProblem& problem);

/// Units made from pieces of other units, and the micro-batch of each unit.
struct RegroupedUnits {
  PackUnits units;
  std::vector<std::size_t> micro_batches;
};

/// Makes new units from pieces of `units`. Each piece becomes a unit, except that pieces of one group in the
/// same micro-batch are joined if they have tokens in common and joining them does not take more rows. Tokens
/// that are repeated because of these cuts are counted under the reason "equal_work". Preconditions: units
/// share prefixes; pieces ascend by unit and samples, and each sample is in exactly one piece.
[[nodiscard]] RegroupedUnits regroup_units(const StepProblem& problem, const PackUnits& units,
                                           std::span<const UnitPiece> pieces);

/// Returns the total savings of prefix sharing over all units, minus the prefixes that are repeated because
/// groups were split.
[[nodiscard]] SharingSavings savings_of(const PackUnits& units);

/// The inputs for balancing and packing a subset of the units: item i is units[i].
struct PickedUnits {
  std::vector<Cost> costs;
  std::vector<std::int64_t> aligned_rows;
  std::vector<std::int64_t> item_counts;  ///< the counts of PackUnits::items(); empty if all are 1

  PickedUnits(const PackUnits& all, IdView<UnitId> units);
  [[nodiscard]] BinItems items() const { return {aligned_rows, item_counts}; }
};

/// Returns a lower bound on the number of micro-batches of these units: the maximum of the bounds for single
/// limits. If fields have row caps, the limit on samples is not considered.
[[nodiscard]] std::int64_t min_micro_batches_lower_bound(const PackUnits& all, IdView<UnitId> units);
/// Returns the number of micro-batches into which these units can be packed, and a lower bound on it.
[[nodiscard]] GroupCount count_micro_batches(const PackUnits& all, IdView<UnitId> units);

/// Returns the values for these units, in their order. `of_all` has one value per unit.
[[nodiscard]] std::vector<std::int64_t> pick(std::span<const std::int64_t> of_all, IdView<UnitId> units);

/// Returns the units at these positions in `units`, such as a group that balancing returned.
[[nodiscard]] std::vector<UnitId> pick(IdView<UnitId> units, std::span<const Item> places);

}  // namespace evenkeel
