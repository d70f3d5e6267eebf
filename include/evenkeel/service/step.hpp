#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/exchange/results.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/loss.hpp"

namespace evenkeel {

struct StepRecord;

/// Seconds one rank spent in each phase of a step. Phases follow each other; they sum to the step.
struct PhaseSeconds {
  double read = 0;      ///< reading or making this rank's samples, and looking through them
  double gather = 0;    ///< lengths and fields over all ranks
  double plan = 0;      ///< assignment, counts, micro-batches
  double agree = 0;     ///< on the count of micro-batches, the wait for other ranks included
  double exchange = 0;  ///< tokens into packed tensors: moving and packing are one copy
  double pack = 0;      ///< what is packed without moving: loss weights, sequences put together anew

  [[nodiscard]] double total() const noexcept { return read + gather + plan + agree + exchange + pack; }
  PhaseSeconds& operator+=(const PhaseSeconds& other) noexcept;
};

/// What one rank runs one forward and backward pass over.
struct MicroBatch {
  PackedMicroBatch tensors;
  MicroBatchLoss loss;        ///< what its tokens weigh in the loss of its mini-batch
  MiniBatchId mini_batch{0};  ///< the optimizer update it belongs to, 0-based; never falls within a step
  ContextGroup context;       ///< the places that run it together; Mesh::context() has their communicator
};

/// What a step hands one rank. Micro-batches are the trainer's own: it may change their tensors and add
/// fields to them.
struct Step {
  std::int64_t index = 0;
  std::string profile;  ///< whose settings it was planned with; empty: the job's own
  /// K of them, in the order to run them in; with `mesh.cp: flexible` and `balance.strategy: hierarchical` as
  /// many as this rank takes part in. Each mini-batch has one at least: an empty one where it takes no part.
  std::vector<MicroBatch> micro_batches;

  std::int64_t num_samples = 0;  ///< over all ranks
  std::int64_t num_tokens = 0;   ///< over all ranks, shared ones once a sample
  ExchangeVolume volume;         ///< what this rank moved
  PhaseSeconds seconds;
  double waited = 0;  ///< seconds the trainer waited for it: all phases, unless a Prefetcher made it ahead

  /// How it was planned, for later passes and for collecting. Nothing in a step that was moved from.
  std::shared_ptr<const StepRecord> record;
};

}  // namespace evenkeel
