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

/// Seconds that one rank spent in each phase of a step. Phases follow each other and add up to the time of
/// the step.
struct PhaseSeconds {
  double read = 0;      ///< reading or making this rank's samples, and checking them
  double gather = 0;    ///< gathering lengths and fields of all ranks
  double plan = 0;      ///< assignment, counts, micro-batches
  double agree = 0;     ///< agreeing on the number of micro-batches, including waiting for other ranks
  double exchange = 0;  ///< copying tokens into packed tensors; moving and packing are one copy
  double pack = 0;      ///< packing without moving: loss weights, repacked sequences

  [[nodiscard]] double total() const noexcept { return read + gather + plan + agree + exchange + pack; }
  PhaseSeconds& operator+=(const PhaseSeconds& other) noexcept;
};

/// The data of one forward and backward pass on one rank.
struct MicroBatch {
  PackedMicroBatch tensors;
  MicroBatchLoss loss;  ///< weights of its tokens in the loss of its mini-batch
  MiniBatchId mini_batch{
      0};                ///< optimizer update to which it belongs, 0-based; never decreases within a step
  ContextGroup context;  ///< places that run it together; Mesh::context() has their communicator
  /// This rank's number in `context`. It equals tensors.cp_rank unless samples are delivered whole
  /// (pack.deliver): the layout of the tensors then has one rank.
  CpRank context_rank{0};

  /// Returns the block that contains its tensors, for a single copy to a device; empty if there is none. A
  /// column's offset in the copy is `tensors.arena.offset_of(column.bytes())`; see MicroBatchArena for
  /// columns that are not in the block.
  [[nodiscard]] std::span<std::byte> arena() noexcept { return tensors.arena.bytes(); }
  [[nodiscard]] std::span<const std::byte> arena() const noexcept { return tensors.arena.bytes(); }

  /// Returns the route of the rows to another cut, for layers that need it. Rows move over
  /// Mesh::context(context) or, with `tp`, over all ranks of that group along tp, numbered as in RowMember.
  /// Integer: int32 or int64. `spare` is a route that is no longer needed; its memory is reused. Local.
  /// Throws InputError like row_route().
  template <typename Integer = std::int64_t>
  [[nodiscard]] RowRoute<Integer> route(RowCut from, RowCut to, SequenceParallel tp = {},
                                        RowRoute<Integer> spare = {}) const {
    return row_route<Integer>(tensors.layout, from, to, {tensors.cp_rank, tp}, std::move(spare));
  }
  /// Returns this rank's runs of sequences in a cut, and the states with which they begin, for recurrent
  /// layers. With shared prefixes, the sequences are segments.
  [[nodiscard]] std::vector<SequenceRun> sequence_runs(RowCut cut, SequenceParallel tp = {}) const {
    const RowMember here{tensors.cp_rank, tp};
    return tensors.shared ? evenkeel::sequence_runs(tensors.shared->tree, cut, here)
                          : evenkeel::sequence_runs(tensors.layout, cut, here);
  }
  /// Returns the route of the rows before each run of sequence_runs(cut, tp), for causal convolutions of this
  /// width.
  template <typename Integer = std::int64_t>
  [[nodiscard]] RowRoute<Integer> halo_route(RowCut cut, std::int64_t width, SequenceParallel tp = {}) const {
    const RowMember here{tensors.cp_rank, tp};
    return tensors.shared ? evenkeel::halo_route<Integer>(tensors.shared->tree, cut, here, width)
                          : evenkeel::halo_route<Integer>(tensors.layout, cut, here, width);
  }
};

/// One rank's part of a step. Micro-batches belong to the trainer, which may change their tensors and add
/// fields to them.
struct Step {
  std::int64_t index = 0;
  std::string profile;  ///< profile with which it was planned; empty for the job's own settings
  /// The K micro-batches, in the order in which to run them; with `mesh.cp: flexible` and `balance.strategy:
  /// hierarchical`, those in which this rank takes part. Each mini-batch has at least one, which is empty if
  /// this rank does not take part in any.
  std::vector<MicroBatch> micro_batches;

  std::int64_t num_samples = 0;  ///< over all ranks
  std::int64_t num_tokens = 0;   ///< over all ranks, counting shared tokens once per sample
  /// Number of tokens that carry loss, over all ranks; if 0, nothing is trained.
  std::int64_t num_loss_tokens = 0;
  ExchangeVolume volume;  ///< amounts moved by this rank
  PhaseSeconds seconds;
  double waited_seconds =
      0;  ///< seconds that the trainer waited for it: all phases, unless it was made ahead

  /// How the step was planned; needed for later passes and for collecting results. Null in a step that was
  /// moved from.
  std::shared_ptr<const StepRecord> record;
};

}  // namespace evenkeel
