#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/exchange/results.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "plan/assign/step_assignment.hpp"
#include "transport/messages/message_exchange.hpp"

namespace evenkeel {

/// A step's results on their way back: all of it replicated except `micro_batches`, which are of this rank's
/// DP rank.
struct ResultTransfer {
  const LengthTable& table;
  const StepAssignment& assignment;
  std::span<const MicroBatchPlan> micro_batches;
  const PlanSettings& settings;  ///< by which it was planned
};

/// Collective over mesh.world(): each sample's results go back to its owner; CP chunks are merged,
/// sequences unpacked, and the orders of micro-batches and DP ranks undone. Returns this rank's samples in
/// the order in which it brought them, with one field a result, bit for bit. Rows that nothing computes stay
/// zero: a response token that starts its sequence.
///
/// `results` has one entry a micro-batch on ranks that report, and is ignored on others. Every rank throws
/// InputError when a reporting rank lacks a field in one micro-batch, has wrong rows, or has other fields
/// than another rank; when ranks have other steps in mind, which `call` tells; and the `error` that a rank
/// brings instead of a step, or LimitError when it runs out of memory. Only MpiError may come from one rank
/// alone.
[[nodiscard]] RaggedBatch return_results(const Mesh& mesh, const ResultTransfer& step,
                                         std::span<const MicroBatchResults> results,
                                         const TransportSettings& options, CallKey call = {},
                                         const std::optional<ErrorReport>& error = {});

/// Collective over `comm`: all ranks' samples on rank `root`, ordered by sample id; an empty batch elsewhere.
/// For tests and small outputs: `root` holds everything.
[[nodiscard]] RaggedBatch gather_samples(const Communicator& comm, const RaggedBatch& mine, int root,
                                         const TransportSettings& options);

}  // namespace evenkeel
