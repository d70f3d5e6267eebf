#pragma once

#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/exchange/results.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "exchange/gather/announcement.hpp"
#include "plan/assign/step_assignment.hpp"
#include "transport/messages/message_exchange.hpp"

namespace evenkeel {

/// The step whose results are returned to the owners of its samples. All members are replicated except
/// `micro_batches`, which is the plan of this rank's DP rank.
struct ResultTransfer {
  const LengthTable& table;
  const StepAssignment& assignment;
  std::span<const MicroBatchPlan> micro_batches;
  const PlanSettings& settings;
};

/// Collective over mesh.world(): returns the results of each sample to its owner. Merges CP chunks, unpacks
/// sequences, and undoes the orders of micro-batches and DP ranks. Returns this rank's samples in the order
/// in which it supplied them, with one field per result. Values are copied bit for bit. If a response token
/// is the first token of its sequence, no row predicts it, so its row in the result remains zero.
///
/// `results` has one entry per micro-batch on ranks for which reports_results() returns true, and is ignored
/// on other ranks. Every rank throws InputError if a reporting rank lacks a field in a micro-batch, has a
/// wrong number of rows, or has fields that differ from those of another rank; InputError if `call` differs
/// between ranks, since they would then return results of different steps; the `error` that a rank passes if
/// it has already failed; and LimitError if a rank runs out of memory. Only MpiError may be thrown by one
/// rank alone.
[[nodiscard]] RaggedBatch return_results(const Mesh& mesh, const ResultTransfer& step,
                                         std::span<const MicroBatchResults> results,
                                         const TransportSettings& options, CallKey call = {},
                                         const std::optional<ErrorReport>& error = {});

/// Collective over `comm`: returns all ranks' samples on rank `root`, ordered by sample id, and an empty
/// batch on other ranks. Meant for tests and small outputs, since `root` holds all samples.
[[nodiscard]] RaggedBatch gather_samples(const Communicator& comm, const RaggedBatch& mine, int root,
                                         const TransportSettings& options);

}  // namespace evenkeel
