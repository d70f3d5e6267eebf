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

/// What is assigned to a DP rank and packed into a micro-batch as a whole: one sample, or samples that share
/// prefixes. Seen in place: valid as long as its PackUnits are.
struct PackUnit {
  std::span<const EntryId> entries;  ///< its samples in packed order
  std::int64_t rows = 0;             ///< true tokens, shared ones once
  std::int64_t aligned_rows = 0;     ///< over the whole CP group
  Cost cost = 0;                     ///< every shared token and its attention once
  const PrefixTree* tree = nullptr;  ///< what its samples share; none where it is one sample alone
};

/// Samples of a unit that follow each other depth-first, and the micro-batch that they are in, by number.
struct UnitPiece {
  UnitId unit{0};
  RowRange samples;  ///< places in that order
  std::size_t micro_batch = 0;

  friend constexpr bool operator==(const UnitPiece&, const UnitPiece&) = default;
};

/// The units of a step, numbered 0..n-1. Where nothing is shared every sample is a unit of the same number as
/// its entry. Else groups of samples that share prefixes are, or as much of a group as fits under the limits:
/// the units of one group follow each other. Replicated. A value type, 32 bytes a sample that stands alone.
class PackUnits {
 public:
  PackUnits() = default;

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(costs_); }
  [[nodiscard]] PackUnit operator[](UnitId unit) const noexcept;
  /// Its samples in packed order, to the end of `entries`.
  void add_entries(UnitId unit, std::vector<EntryId>& entries) const {
    if (shared_) {
      const std::vector<EntryId>& own = trees_[unit.index()].entries;
      entries.insert(entries.end(), own.begin(), own.end());
    } else {
      entries.emplace_back(unit.value());
    }
  }
  /// Whether units may be more than one sample.
  [[nodiscard]] bool shared() const noexcept { return shared_; }

  [[nodiscard]] std::span<const std::int64_t> rows() const noexcept { return rows_; }
  [[nodiscard]] std::span<const Cost> costs() const noexcept { return costs_; }
  /// What an encoder does for every unit; none without BalanceSettings::encoder.
  [[nodiscard]] std::span<const Cost> encoder_costs() const noexcept { return encoder_costs_; }
  /// What a micro-batch's limits count of every unit: aligned rows and samples or, with
  /// MicroBatchSettings::max_rows, its part of these caps and of the one on samples (join_limits).
  [[nodiscard]] BinItems items() const noexcept {
    return {aligned_rows_, capped_rows_.empty() ? std::span(samples_) : std::span(parts_.counts)};
  }
  /// What a micro-batch may hold of that. With groups of their own sizes: of the rows, each rank.
  [[nodiscard]] const BinLimits& limits() const noexcept { return limits_; }
  /// The rows of capped fields, by unit.
  [[nodiscard]] std::span<const CappedRows> capped_rows() const noexcept { return capped_rows_; }

  /// Tokens that sub-groups of groups above a limit repeat, by that limit.
  [[nodiscard]] const RepeatedTokens& repeated() const noexcept { return repeated_; }

  /// Groups of samples that share something: what mini-batches are cut between.
  [[nodiscard]] std::int64_t num_groups() const noexcept;
  /// The first unit of a group; of num_groups(): size().
  [[nodiscard]] UnitId first_of_group(std::int64_t group) const noexcept;
  [[nodiscard]] auto units_of_group(std::int64_t group) const noexcept {
    return ids_between(first_of_group(group), first_of_group(group + 1));
  }

  /// The segments of a unit are numbered from here, in the order of its tree; of size(): all there are.
  [[nodiscard]] SegmentId first_segment(UnitId unit) const noexcept;
  [[nodiscard]] auto segments_of(UnitId unit) const noexcept {
    return ids_between(first_segment(unit), first_segment(UnitId{unit.value() + 1}));
  }

  friend bool operator==(const PackUnits&, const PackUnits&) = default;

 private:
  friend PackUnits make_units(const StepProblem& problem);
  friend struct RegroupedUnits regroup_units(const StepProblem& problem, const PackUnits& units,
                                             std::span<const UnitPiece> pieces);
  [[nodiscard]] static PackUnits of_samples(const StepProblem& problem);
  /// None, where units share.
  [[nodiscard]] static PackUnits of_no_group();
  void add_group(std::vector<SharedGroup> parts, const PlanSettings& settings);
  void add(SharedGroup unit, const PlanSettings& settings);
  /// Adds what fields of the samples say, and the limits.
  void complete(const StepProblem& problem);
  void take_costs(std::span<const Cost> of_entries);
  void add_encoder_costs(std::span<const Cost> of_entries);
  void limit(std::span<const RowCap> caps, const BinLimits& limits_of_all);
  /// What the entries of every unit have together. `what` says what their sum is where it is too large.
  [[nodiscard]] std::vector<std::int64_t> sums_of(std::span<const std::int64_t> of_entries,
                                                  const char* what) const;

  bool shared_ = false;
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> aligned_rows_;
  std::vector<Cost> costs_;
  std::vector<Cost> encoder_costs_;
  std::vector<CappedRows> capped_rows_;
  JointLimit parts_;  // of capped rows and of samples
  BinLimits limits_;
  std::vector<EntryId> entries_;  // where every sample is a unit: 0..n-1
  // With shared prefixes, by unit:
  std::vector<std::int64_t> samples_;
  std::vector<SharedGroup> trees_;
  std::vector<SegmentId> first_segments_;  // and all there are
  std::vector<UnitId> first_of_group_;     // by group, and all there are
  RepeatedTokens repeated_{};
};

/// The units of a step under its settings' sharing, alignment, caps, max_samples and, where micro-batches are
/// of a fixed size, that. A group that does not fit is split into sub-groups of samples that are neighbors
/// depth-first, so that they repeat as few tokens as such sub-groups can (see split_tree). One prompt with
/// its responses stays in that form, however few the responses. Deterministic, O(n); with trees O(n log n).
/// Throws InputError for trees that do not hold every entry once, LimitError that names the first sample that
/// does not fit on its own, and as encoder_costs_of, field_costs_of and row_caps_of do. Precondition:
/// require_below_row_caps passed.
[[nodiscard]] PackUnits make_units(const StepProblem& problem);

/// Units made of pieces of others, and the micro-batch of each.
struct RegroupedUnits {
  PackUnits units;
  std::vector<std::size_t> micro_batches;
};

/// The samples of the units in other units. Each piece is one, except that pieces of a group in one
/// micro-batch are joined if they repeat tokens and take no more rows together than apart. What they repeat
/// more than before counts as repeated for equal work. Preconditions: units share; pieces ascend by unit and
/// samples, and each sample is in one.
[[nodiscard]] RegroupedUnits regroup_units(const StepProblem& problem, const PackUnits& units,
                                           std::span<const UnitPiece> pieces);

/// What sharing saves over all units, repeated prefixes of sub-groups counted.
[[nodiscard]] SharingSavings savings_of(const PackUnits& units);

/// What balancing and capping look at of some units: item i is units[i].
struct PickedUnits {
  std::vector<Cost> costs;
  std::vector<std::int64_t> aligned_rows;
  std::vector<std::int64_t> samples;  ///< empty: one each

  PickedUnits(const PackUnits& all, IdView<UnitId> units);
  [[nodiscard]] BinItems items() const { return {aligned_rows, samples}; }
};

/// Of these units: no packing has fewer micro-batches under any one of the limits.
[[nodiscard]] std::int64_t fewest_micro_batches(const PackUnits& all, IdView<UnitId> units);
/// How many micro-batches they need, as they can be packed and at least.
[[nodiscard]] GroupCount count_micro_batches(const PackUnits& all, IdView<UnitId> units);

/// The values of a list that belong to some units.
[[nodiscard]] std::vector<std::int64_t> picked(std::span<const std::int64_t> of_all, IdView<UnitId> units);

/// What balancing picked of some units: those at the places that it names.
[[nodiscard]] std::vector<UnitId> picked(IdView<UnitId> units, std::span<const Item> places);

}  // namespace evenkeel
