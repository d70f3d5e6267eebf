#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/micro_batch_plan.hpp"
#include "evenkeel/plan/step_assignment.hpp"
#include "evenkeel/transport/message_exchange.hpp"

namespace evenkeel {

/// What one rank moved in an exchange, in bytes of payload unless it says otherwise.
struct ExchangeVolume {
  std::int64_t sent = 0;           ///< to other ranks, by owners
  std::int64_t between_nodes = 0;  ///< of these, to ranks of other nodes
  std::int64_t kept = 0;           ///< from this rank to itself
  std::int64_t copied = 0;         ///< from the model-parallel rank of this node that received them
  std::int64_t passed_on = 0;      ///< to and from leaders inside this node, on the way between nodes
  std::int64_t messages = 0;       ///< not bytes: messages that this rank sent to ranks of other nodes

  ExchangeVolume& operator+=(const ExchangeVolume& other) noexcept;

  friend bool operator==(const ExchangeVolume&, const ExchangeVolume&) = default;
};

/// A step's samples, ready to be moved: all of it replicated except `mine` and `micro_batches`, which are
/// this rank's.
struct StepTransfer {
  const LengthTable& table;
  const StepAssignment& assignment;
  std::span<const FieldSpec> fields;              ///< agreed over all ranks, in one order
  const RaggedBatch& mine;                        ///< the samples this rank owns
  std::span<const MicroBatchPlan> micro_batches;  ///< the plan of this rank's DP rank
  std::int64_t alignment = 1;
  CpGroup cp;
};

/// A micro-batch as this rank's place in the mesh holds it, with a column for each of the step's fields that
/// its pipeline stage is sent: zero in the rows that no sample brings, labels `label_pad`; the others are
/// left to be written. Local.
[[nodiscard]] PackedMicroBatch lay_out_micro_batch(const Mesh& mesh, const StepTransfer& step,
                                                   const MicroBatchPlan& plan,
                                                   const DerivedFieldOptions& derived);

/// Collective over mesh.world(): every owner sends each place (dp, cp) only the rows that it holds, out of
/// its columns straight into the consumer's packed tensors, each field only to the pipeline stages that need
/// it; nobody ever holds the whole global batch. Of a place's model-parallel ranks (tp, pp) one a node
/// receives, and the others copy from it or, if they may (see TensorParallelCopies), read its tensors.
/// Missing fields are derived (see complete_fields).
///
/// On return `packed` holds this rank's K micro-batches. Every true row travels once per place and node with
/// ranks of it, plus one token a chunk or branch whose label lives on another CP rank.
///
/// Ranks agree twice that all went well, each time in one all-reduce: before any byte travels, and at the
/// end, after each has called `finish`, its own work on the micro-batches, where `mine` stays as it is. All
/// ranks throw the same error: that of a rank whose work has failed `before`, what its `finish` throws, or
/// LimitError when it runs out of memory. Only MpiError may come from one rank alone.
ExchangeVolume exchange_samples(const Mesh& mesh, const StepTransfer& step,
                                const DerivedFieldOptions& derived, const ExchangeOptions& options,
                                std::vector<PackedMicroBatch>& packed, const GuardedWork& before = {},
                                const std::function<void()>& finish = {});

}  // namespace evenkeel
