#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/context_group.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/packed_shape.hpp"

namespace evenkeel {

/// One micro-batch: which samples, and how much of everything. Empty ones have no entries: they exist so that
/// all DP ranks have as many, or one at least, weigh nothing, and are laid out as one filler sequence.
struct MicroBatchPlan {
  std::vector<EntryId> entries;     ///< table entries in the order in which they are packed
  std::int64_t tokens = 0;          ///< true tokens, shared ones once
  std::int64_t aligned_tokens = 0;  ///< tokens after alignment or padding: what the cap limits
  Cost cost = 0;                    ///< its work; with `mesh.cp: flexible` how long its ranks take for it
  std::int64_t padded_length = 0;   ///< of every sequence, over the whole CP group; 0: each is aligned alone
  MiniBatchId mini_batch{0};        ///< the optimizer update it belongs to
  ContextGroup context = {};        ///< who runs it
  /// With shared prefixes: the units that it holds, in packed order; entries follow theirs. Else empty, since
  /// units are numbered as entries are.
  std::vector<UnitId> units = {};
  /// With micro_batch.shapes: what it is padded to when it is handed out. A DataService chooses it; plan_step
  /// leaves it open.
  std::optional<PackedShape> shape = std::nullopt;

  [[nodiscard]] bool empty() const noexcept { return entries.empty(); }
  /// Whether this DP rank is the first of those that run it, and list it: by which it is counted once. A DP
  /// rank has one place at least.
  [[nodiscard]] bool is_led_by(DpRank rank) const noexcept { return context.first.value() >= rank.value(); }
  friend bool operator==(const MicroBatchPlan&, const MicroBatchPlan&) = default;
};

}  // namespace evenkeel
