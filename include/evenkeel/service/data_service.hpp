#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/exchange/sample_exchange.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/loss_weights.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "evenkeel/service/config.hpp"
#include "evenkeel/service/step_results.hpp"

namespace evenkeel {

/// Seconds one rank spent in each phase of a step. Phases follow each other; they sum to the step.
struct PhaseSeconds {
  double read = 0;      ///< reading or making this rank's samples
  double gather = 0;    ///< lengths and fields over all ranks
  double plan = 0;      ///< assignment, counts, micro-batches
  double exchange = 0;  ///< tokens into packed tensors

  [[nodiscard]] double total() const noexcept { return read + gather + plan + exchange; }
};

/// What a step hands one rank, and what it takes to report on it.
struct Step {
  std::int64_t index = 0;
  std::vector<PackedMicroBatch> micro_batches;  ///< K of them, in the order to run them in
  std::vector<MicroBatchLoss> losses;           ///< one a micro-batch

  LengthTable table;     ///< all samples of the step, replicated
  Partition assignment;  ///< table entries of each DP rank, replicated
  DpRankPlan plan;       ///< of this rank's DP rank
  ExchangeVolume volume;
  PhaseSeconds seconds;
};

/// Balances, packs and exchanges the samples of each step over the ranks of a communicator. Every rank is an
/// owner (it may bring samples) and a consumer (it is handed the micro-batches of its place in the mesh).
///
/// All member functions are collective over the communicator unless they say otherwise. The last DataService
/// must go before MPI_Finalize. Not thread-safe; one step at a time.
class DataService {
 public:
  /// Brings this rank's samples of a step. May throw Error: all ranks then throw it together.
  using Reader = std::function<RaggedBatch()>;

  /// Duplicates `world`; MPI must be initialized. `config` must be equal on all ranks. Throws MeshError or
  /// ConfigError on every rank when the mesh does not fit the world or settings do not fit each other.
  DataService(const boost::mpi::communicator& world, const Config& config);

  [[nodiscard]] const Mesh& mesh() const noexcept { return mesh_; }
  [[nodiscard]] const PlanSettings& plan_settings() const noexcept { return settings_; }

  /// One step over the samples that the ranks bring (any number each, also none). Throws the same typed error
  /// on every rank: what a reader threw, InputError for malformed samples or fields that differ between
  /// ranks, LimitError for a sample above the cap. After an error the service can be used again.
  [[nodiscard]] Step step(const Reader& read);
  [[nodiscard]] Step step(const RaggedBatch& mine);

  /// Brings a step's results home: this rank's samples in the order in which it brought them, one field a
  /// result (see return_results). Only the ranks that reports_results() names need to put any. Throws
  /// InputError on every rank when results are missing or have wrong rows somewhere.
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results) const;

 private:
  struct Planned;
  [[nodiscard]] Step run_step(const RaggedBatch& mine, const std::optional<ErrorReport>& error,
                              double read_seconds);
  [[nodiscard]] Planned plan(const LengthTable& table) const;
  [[nodiscard]] ExchangeOptions exchange_options() const noexcept;

  Mesh mesh_;
  Config config_;
  PlanSettings settings_;
  std::int64_t next_step_ = 0;
};

/// Throws InputError unless a batch can be exchanged: int64 tokens named input_ids, none negative. Local.
void require_valid_samples(const RaggedBatch& batch);

}  // namespace evenkeel
