#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/pack_units.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// One micro-batch: which samples, and how much of everything. Empty ones have no entries: they exist so that
/// all DP ranks have the same number, weigh nothing, and are laid out as one filler sequence.
struct MicroBatchPlan {
  std::vector<std::int64_t> entries;  ///< table entries in the order in which they are packed
  std::int64_t tokens = 0;            ///< true tokens, shared ones once
  std::int64_t aligned_tokens = 0;    ///< tokens after alignment or padding: what the cap limits
  Cost cost = 0;
  std::int64_t padded_length = 0;  ///< of every sequence, over the whole CP group; 0: each is aligned alone
  std::int64_t mini_batch = 0;     ///< the optimizer update it belongs to
  /// With shared prefixes: the units that it holds, in packed order; entries follow theirs. Else empty, since
  /// units are numbered as entries are.
  std::vector<std::int64_t> units = {};

  [[nodiscard]] bool empty() const noexcept { return entries.empty(); }
  friend bool operator==(const MicroBatchPlan&, const MicroBatchPlan&) = default;
};

/// The micro-batch of these units, in this order, its figures worked out.
[[nodiscard]] MicroBatchPlan micro_batch_of(const PackUnits& units, std::vector<std::int64_t> chosen);

/// Throws LimitError when a sample of the table is longer than the cap on its own; the error names the first
/// such sample, its length, its aligned length and the cap. Also when padded samples may cost 2^62 in all. On
/// the replicated table, so that every rank throws the same.
void require_samples_fit(const LengthTable& table, const PlanSettings& settings);

/// The count all DP ranks use, from the largest any of them needs: at least min_count, rounded up to the
/// multiple that the pipeline needs, at least 1.
[[nodiscard]] std::int64_t agreed_count(std::int64_t largest_needed, const PlanSettings& settings) noexcept;

/// Reorders micro-batches in place. For `pipeline`: by falling (cost, first entry), then every second one
/// reversed and the others after it, as verl and ROLL do, so that the costliest stand in the middle.
///
/// Example: costs {5, 4, 3, 2, 1} become {1, 3, 5, 4, 2}.
void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, MicroBatchOrder order);

}  // namespace evenkeel
