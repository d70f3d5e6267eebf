#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/exchange/length_gather.hpp"
#include "evenkeel/exchange/sample_exchange.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/loss_weights.hpp"
#include "evenkeel/plan/measured_cost.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "evenkeel/service/config.hpp"
#include "evenkeel/service/step_results.hpp"

namespace evenkeel {

class Stopwatch;
class TimeReports;

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

/// What a step hands one rank, and what it takes to report on it.
struct Step {
  std::int64_t index = 0;
  std::string profile;                          ///< whose settings it was planned with; empty: the job's own
  std::vector<PackedMicroBatch> micro_batches;  ///< K of them, in the order to run them in
  std::vector<MicroBatchLoss> losses;           ///< one a micro-batch

  LengthTable table;               ///< all samples of the step, replicated
  std::vector<FieldSpec> fields;   ///< what samples bring, replicated
  std::vector<SharedGroup> trees;  ///< with prefix trees: what samples have in common, replicated
  DealtStep dealt;                 ///< table entries of each mini-batch and DP rank, replicated
  DpRankPlan plan;                 ///< of this rank's DP rank: tells the mini-batch of each micro-batch too
  CostInUse cost;                  ///< what it was balanced by: configured, or measured on all ranks alike
  ExchangeVolume volume;
  PhaseSeconds seconds;
  double waited = 0;  ///< seconds the trainer waited for it: all phases, unless a Prefetcher made it ahead

  std::shared_ptr<const RaggedBatch> samples;  ///< with profiles: what this rank brought, to be dealt anew
};

/// Balances, packs and exchanges the samples of each step over the ranks of a communicator. Every rank is an
/// owner (it may bring samples) and a consumer (it is handed the micro-batches of its place in the mesh).
///
/// A step's samples can be passed over several times, each time under another profile of the configuration
/// (log-probs with large micro-batches, then updates with small ones). While profiles deal and cut samples
/// alike, no token moves again.
///
/// All member functions are collective over the communicator unless they say otherwise. Ranks that call
/// step() with different profiles, or one with new samples and another with a step made before, are told so:
/// every rank throws the same InputError with both calls, and the service can be used again. The last
/// DataService must go before MPI_Finalize. Not thread-safe; one step at a time. Copies share what was
/// measured, so that only one of them should make steps.
class DataService {
 public:
  /// Brings this rank's samples of a step. May throw Error: all ranks then throw it together.
  using Reader = std::function<RaggedBatch()>;

  /// Duplicates `world`; MPI must be initialized. Throws ConfigError on every rank when the configurations of
  /// ranks differ, which names the keys, both values and the rank; MeshError or ConfigError when the mesh
  /// does not fit the world or settings do not fit each other.
  DataService(const boost::mpi::communicator& world, const Config& config);

  [[nodiscard]] const Mesh& mesh() const noexcept { return mesh_; }
  /// What the next step is planned with: the configuration's, and costs as they were measured so far. Throws
  /// ConfigError for a profile that the configuration does not have; so below. Local.
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile = {}) const;

  /// One step over the samples that the ranks bring (any number each, also none). Throws the same typed error
  /// on every rank: what a reader threw, InputError for malformed samples or fields that differ between
  /// ranks, LimitError for a sample above the cap. After an error the service can be used again. With
  /// profiles, the step and its copies keep this rank's samples as long as they live.
  [[nodiscard]] Step step(const Reader& read, std::string_view profile = {});
  [[nodiscard]] Step step(RaggedBatch mine, std::string_view profile = {});

  /// Another pass over the samples of `before`, under another profile. `before` may be of any earlier step,
  /// also of another service with the same mesh and configuration, as a Prefetcher has one. Where the profile
  /// deals samples to the same DP ranks and cuts them alike, sequences are only put together anew on each
  /// rank, with every field they have, also those that the trainer added to its micro-batches; the same
  /// packing is handed on as it is. Else samples travel again from their owners (InputError when `before` is
  /// of a service without profiles), and the trainer's own fields stay behind.
  ///
  /// `added` are further fields of this rank's samples, in the order in which it brought them (old log-probs,
  /// advantages): only these travel, and replace fields of the same name. Throws InputError on every rank
  /// when they are of other samples, differ between ranks, or name input_ids or loss_mask.
  [[nodiscard]] Step step(Step before, std::string_view profile, const RaggedBatch& added = {});

  /// Brings a step's results home: this rank's samples in the order in which it brought them, one field a
  /// result (see return_results). Only the ranks that reports_results() names need to put any. Throws
  /// InputError on every rank when results are missing or have wrong rows somewhere.
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results) const;

  /// How long this rank took for one micro-batch of a step, forward and backward as the trainer likes, but
  /// always the same. Local and thread-safe; any rank may report any micro-batches, or none. Where the step's
  /// profile has `balance.cost: measured`, the times of all ranks are gathered when later steps of that
  /// profile begin, and balance these; else, and for empty micro-batches, without effect. `step` is of this
  /// service, or of a Prefetcher with the same configuration (tell that one, where it makes further steps).
  /// Throws InputError for a micro-batch that the step has not, or seconds that are not finite and above 0.
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const;

 private:
  [[nodiscard]] Step run_step(RaggedBatch mine, const std::optional<ErrorReport>& error,
                              std::string_view profile, double read_seconds);
  [[nodiscard]] CostInUse cost_in_use(std::string_view profile) const;
  void plan(Step& step, const PlanSettings& settings, Stopwatch& stopwatch) const;
  [[nodiscard]] std::vector<std::int64_t> agree_on_counts(const Step& step, std::span<const GroupCount> own,
                                                          const PlanSettings& settings) const;
  void exchange(Step& step, const PlanSettings& settings, const RaggedBatch& mine) const;
  void put_together_anew(const Step& before, Step& step, const PlanSettings& settings) const;
  /// The fields that a later pass adds, once all ranks make the same pass.
  [[nodiscard]] std::vector<FieldSpec> agree_on_pass(const Step& before, std::string_view profile,
                                                     const RaggedBatch& added) const;
  [[nodiscard]] std::optional<ErrorReport> missing_profile(std::string_view profile) const;
  void add_fields(Step& step, const PlanSettings& settings, std::span<const FieldSpec> fields,
                  const RaggedBatch& added) const;
  void weigh(Step& step, const PlanSettings& settings) const;
  [[nodiscard]] StepTransfer transfer_of(const Step& step, const PlanSettings& settings,
                                         std::span<const FieldSpec> fields, const RaggedBatch& mine) const;
  [[nodiscard]] std::vector<SampleLengths> lengths(const RaggedBatch& mine) const;
  [[nodiscard]] DerivedFieldOptions derived_options(std::string_view profile) const;
  [[nodiscard]] ExchangeOptions exchange_options() const noexcept;

  Config config_;
  Mesh mesh_;
  std::vector<int> dp_of_rank_;  // where samples are, for their placement
  std::shared_ptr<TimeReports> time_reports_;
  std::int64_t next_step_ = 0;
};

/// Throws InputError unless a batch can be exchanged: int64 tokens named input_ids, none negative. Local.
void require_valid_samples(const RaggedBatch& batch);

}  // namespace evenkeel
