#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/exchange/results.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/pack/row_routes.hpp"
#include "evenkeel/plan/loss.hpp"

namespace evenkeel {

struct StepRecord;

/// Seconds that one rank spent in each phase of a step. Phases follow each other and add up to the step.
struct PhaseSeconds {
  double read = 0;      ///< reading or making this rank's samples, and checking them
  double gather = 0;    ///< lengths and fields over all ranks
  double plan = 0;      ///< assignment, counts, micro-batches
  double agree = 0;     ///< on the count of micro-batches, including the wait for other ranks
  double exchange = 0;  ///< tokens into packed tensors: moving and packing are one copy
  double pack = 0;      ///< packing without moving: loss weights, repacked sequences

  [[nodiscard]] double total() const noexcept { return read + gather + plan + agree + exchange + pack; }
  PhaseSeconds& operator+=(const PhaseSeconds& other) noexcept;
};

/// What one rank runs one forward and backward pass over.
struct MicroBatch {
  PackedMicroBatch tensors;
  MicroBatchLoss loss;        ///< the weights of its tokens in the loss of its mini-batch
  MiniBatchId mini_batch{0};  ///< the optimizer update it belongs to, 0-based; never decreases within a step
  ContextGroup context;       ///< the places that run it together; Mesh::context() has their communicator

  /// The block in which its tensors stand, for one copy to a device; empty where it has none. A column's
  /// place in the copy is `tensors.arena.offset_of(column.bytes())`: see MicroBatchArena for what stands
  /// apart.
  [[nodiscard]] std::span<std::byte> arena() noexcept { return tensors.arena.bytes(); }
  [[nodiscard]] std::span<const std::byte> arena() const noexcept { return tensors.arena.bytes(); }

  /// For layers that need its rows in another cut: how they move over Mesh::context(context), or with `tp`
  /// over all its ranks along tp, too, numbered as RowMember says. Integer: int32 or int64. `spare` is a
  /// route that is no longer needed, whose memory is used again. Local; throws as row_route does.
  template <typename Integer = std::int64_t>
  [[nodiscard]] RowRoute<Integer> route(RowCut from, RowCut to, SequenceParallel tp = {},
                                        RowRoute<Integer> spare = {}) const {
    return row_route<Integer>(tensors.layout, from, to, {tensors.cp_rank, tp}, std::move(spare));
  }
  /// For recurrent layers: this rank's runs of sequences in a cut, and whose states they begin with. With
  /// shared prefixes these are segments.
  [[nodiscard]] std::vector<SequenceRun> sequence_runs(RowCut cut, SequenceParallel tp = {}) const {
    const RowMember here{tensors.cp_rank, tp};
    return tensors.shared ? evenkeel::sequence_runs(tensors.shared->tree, cut, here)
                          : evenkeel::sequence_runs(tensors.layout, cut, here);
  }
  /// For causal convolutions of this width: the rows before each of sequence_runs(cut, tp).
  template <typename Integer = std::int64_t>
  [[nodiscard]] RowRoute<Integer> halo_route(RowCut cut, std::int64_t width, SequenceParallel tp = {}) const {
    const RowMember here{tensors.cp_rank, tp};
    return tensors.shared ? evenkeel::halo_route<Integer>(tensors.shared->tree, cut, here, width)
                          : evenkeel::halo_route<Integer>(tensors.layout, cut, here, width);
  }
};

/// One rank's part of a step. Micro-batches belong to the trainer: it may change their tensors and add fields
/// to them.
struct Step {
  std::int64_t index = 0;
  std::string profile;  ///< whose settings it was planned with; empty: the job's own
  /// K of them, in the order to run them in; with `mesh.cp: flexible` and `balance.strategy: hierarchical`,
  /// those that this rank takes part in. Each mini-batch has at least one: an empty one if this rank takes no
  /// part.
  std::vector<MicroBatch> micro_batches;

  std::int64_t num_samples = 0;      ///< over all ranks
  std::int64_t num_tokens = 0;       ///< over all ranks, counting shared ones for each sample
  std::int64_t num_loss_tokens = 0;  ///< tokens that carry loss, over all ranks; 0: the step trains nothing
  ExchangeVolume volume;             ///< what this rank moved
  PhaseSeconds seconds;
  double waited = 0;  ///< seconds the trainer waited for it: all phases, unless it was made ahead

  /// How it was planned, for later passes and for collecting. Null in a step that was moved from.
  std::shared_ptr<const StepRecord> record;
};

}  // namespace evenkeel
