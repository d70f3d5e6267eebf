#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/micro_batch_plan.hpp"
#include "evenkeel/plan/segments.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/shared_prefixes.hpp"

namespace evenkeel {

/// One mini-batch of a step as every rank works it out alike.
struct DealtMiniBatch {
  Partition shares;  ///< table entries of each DP rank
  /// The micro-batches of each DP rank, where one plan covers them all (a grid; padded ones, which share
  /// their lengths). Empty where each DP rank plans its own.
  std::vector<std::vector<MicroBatchPlan>> planned;
  GroupCount planned_count;                  ///< where they are planned: how many a DP rank needs
  std::vector<Atom> atoms;                   ///< with shared prefixes: what is dealt and packed as a whole
  Partition atom_shares;                     ///< atoms of each DP rank
  std::vector<std::int64_t> first_segments;  ///< of each atom; the segments of its tree follow in order

  friend bool operator==(const DealtMiniBatch&, const DealtMiniBatch&) = default;
};

/// A step dealt to mini-batches and DP ranks: the part of planning that every rank does alike, on replicated
/// input, so that owners know where each sample goes and how long its sequence will be there.
struct DealtStep {
  std::int64_t step = 0;
  std::vector<DealtMiniBatch> mini_batches;
  Partition shares;       ///< table entries of each DP rank over all mini-batches
  SegmentTable segments;  ///< what stands in the tensors, and how long it is there
  bool shared = false;    ///< samples share segments

  friend bool operator==(const DealtStep&, const DealtStep&) = default;
};

/// Deals step number `step`. `trees` are the groups of samples that share prefixes, every entry in one of
/// them; asked for with PrefixSharing::trees only, since lengths alone cannot tell. With shared prefixes
/// mini-batches are cut between groups, so that none is torn. Throws ConfigError for settings that do not
/// fit, LimitError for a sample above the cap, InputError for trees that do not hold every entry once, and as
/// split_into_mini_batches does. Pure, deterministic.
[[nodiscard]] DealtStep deal_step(const LengthTable& table, const PlanSettings& settings, std::int64_t step,
                                  std::span<const SharedGroup> trees = {});

/// Whether everything in a dealt step follows from the shares of its mini-batches. Then one rank can work
/// these out, which takes most of the time, and tell others. Not so for grids and shared prefixes.
[[nodiscard]] bool follows_from_shares(const PlanSettings& settings) noexcept;
/// The shares of each mini-batch as deal_step deals them, which throws alike. Precondition:
/// follows_from_shares; so below.
[[nodiscard]] std::vector<Partition> deal_shares(const LengthTable& table, const PlanSettings& settings,
                                                 std::int64_t step);
/// The step that deal_step deals, from its shares. Takes time linear in the samples.
[[nodiscard]] DealtStep deal_step_by_shares(const LengthTable& table, const PlanSettings& settings,
                                            std::int64_t step, std::vector<Partition> shares);

/// How many micro-batches a DP rank needs for each mini-batch, before the ranks agree. Local. Preconditions:
/// `dealt` comes from deal_step with this table and these settings; so below.
[[nodiscard]] std::vector<GroupCount> count_micro_batches(const LengthTable& table, const DealtStep& dealt,
                                                          DpRank rank, const PlanSettings& settings);

/// A DP rank's micro-batches of one mini-batch, exactly `count` of them, empty ones where samples run out.
/// Local, deterministic. Precondition: count >= the rank's own count for it.
[[nodiscard]] std::vector<MicroBatchPlan> plan_mini_batch(const LengthTable& table, const DealtStep& dealt,
                                                          std::int64_t mini_batch, DpRank rank,
                                                          std::int64_t count, const PlanSettings& settings);

/// The segments that a micro-batch holds, in packed order.
[[nodiscard]] std::vector<std::int64_t> segments_of(const DealtStep& dealt, const MicroBatchPlan& plan);

/// One 64-bit hash of who gets what: equal plans have equal hashes on every machine. `counts` has the
/// micro-batches of each mini-batch. Debug builds compare it over ranks.
[[nodiscard]] std::uint64_t plan_hash(const Partition& shares, std::span<const std::int64_t> counts) noexcept;

}  // namespace evenkeel
