#pragma once

#include <atomic>
#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/exchange/call_key.hpp"
#include "evenkeel/exchange/length_gather.hpp"
#include "evenkeel/exchange/sample_exchange.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/loss_weights.hpp"
#include "evenkeel/plan/measured_cost.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "evenkeel/service/step_origin.hpp"
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
  StepAssignment assignment;       ///< who gets which samples, and what they share, replicated
  DpRankPlan plan;                 ///< of this rank's DP rank: tells the mini-batch of each micro-batch too
  CostInUse cost;                  ///< what it was balanced by: configured, or measured on all ranks alike
  ExchangeVolume volume;
  PhaseSeconds seconds;
  double waited = 0;  ///< seconds the trainer waited for it: all phases, unless a Prefetcher made it ahead

  std::shared_ptr<const RaggedBatch> samples;  ///< with profiles: what this rank brought, to be assigned anew
  StepOrigin origin;                           ///< which step of which service it is; nothing once moved from
};

/// Balances, packs and exchanges the samples of each step over the ranks of a communicator. Every rank is an
/// owner (it may bring samples) and a consumer (it is handed the micro-batches of its place in the mesh).
///
/// A step's samples can be passed over several times, each time under another profile of the configuration
/// (log-probs with large micro-batches, then updates with small ones). While profiles assign and cut samples
/// alike, no token moves again.
///
/// All member functions are collective over the communicator unless they say otherwise. Ranks that make,
/// pass over or collect different steps, or name different profiles, are told so: every rank throws the same
/// InputError that says what each does, and the service can be used again. The last DataService must go
/// before MPI_Finalize. Not thread-safe; one step at a time. Copies share what was measured, so that only one
/// of them should make steps.
class DataService {
 public:
  /// Brings this rank's samples of a step. May throw Error: all ranks then throw it together.
  using Reader = std::function<RaggedBatch()>;

  /// Duplicates `world`; MPI must be initialized. Throws, on every rank, ConfigError when the configurations
  /// of ranks differ, which names the keys, both values and the rank; MeshError or ConfigError when the mesh
  /// does not fit the world or settings do not fit each other; and MeshError for MPI_COMM_NULL or an
  /// intercommunicator.
  DataService(const boost::mpi::communicator& world, const Config& config);

  [[nodiscard]] const Mesh& mesh() const noexcept { return mesh_; }
  /// What the next step is planned with: the configuration's, and costs as they were measured so far. Throws
  /// ConfigError for a profile that the configuration does not have; so below. Local.
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile = {}) const;

  /// One step over the samples that the ranks bring (any number each, also none). Throws the same typed error
  /// on every rank: what a reader threw (an exception that is not Evenkeel's becomes InputError with its
  /// text), InputError for malformed samples (see require_valid_samples), fields that differ between ranks,
  /// or ranks that make another step or call another function than others, LimitError for a sample above the
  /// cap or memory that a rank lacks. After an error the service can be used again; only MpiError may come
  /// from one rank alone, and ends it.
  ///
  /// A loss mask of one value a token is taken as 0 at the end of each sample, which has no label, unless
  /// samples bring one label a token; with shared prefixes it is an InputError where it is set on labels that
  /// are prompt tokens, and so it is when samples that share tokens bring other fields of one row a token
  /// that differ there. With profiles, the step and its copies keep this rank's samples as long as they live.
  [[nodiscard]] Step step(const Reader& read, std::string_view profile = {});
  [[nodiscard]] Step step(RaggedBatch mine, std::string_view profile = {});

  /// Another pass over the samples of `before`, under another profile. `before` may be of any earlier step,
  /// also of another service with the same mesh and configuration, as a Prefetcher has one. Where the profile
  /// assigns samples to the same DP ranks and cuts them alike, sequences are only put together anew on each
  /// rank, with every field they have, also those that the trainer added to its micro-batches; the same
  /// packing is handed on as it is. Else samples travel again from their owners (InputError when `before` is
  /// of a service without profiles), and the trainer's own fields stay behind.
  ///
  /// `added` are further fields of this rank's samples, in the order in which it brought them (old log-probs,
  /// advantages): only these travel, and replace fields of the same name. Throws InputError on every rank
  /// when they are of other samples, differ between ranks, name input_ids or loss_mask, or are what
  /// require_valid_samples refuses; when the trainer has left columns in `before` that have not the rows of
  /// their kind, or are not in all micro-batches; when ranks pass different steps or profiles, or one that
  /// was moved from; and as the step above does.
  [[nodiscard]] Step step(Step before, std::string_view profile, const RaggedBatch& added = {});

  /// Brings a step's results home: this rank's samples in the order in which it brought them, one field a
  /// result (see return_results). Only the ranks that reports_results() names need to put any. A step may be
  /// collected any number of times, in any order, and by another service of the same mesh and configuration.
  /// Throws InputError on every rank when results are missing or have wrong rows somewhere; when ranks
  /// collect different steps, telling which rank collects which, or a step that was moved from; and
  /// LimitError for memory that a rank lacks. The service and its steps can be used again.
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results) const;

  /// How long this rank took for one micro-batch of a step, forward and backward as the trainer likes, but
  /// always the same. Local and thread-safe; any rank may report any micro-batches, or none. Where the step's
  /// profile has `balance.cost: measured`, the times of all ranks are gathered when later steps of that
  /// profile begin, and balance these; else, and for empty micro-batches, without effect. `step` is of this
  /// service, or of a Prefetcher with the same configuration (tell that one, where it makes further steps).
  /// Throws InputError for a step that was moved from, a micro-batch that the step has not, or seconds that
  /// are not finite and above 0.
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const;

 private:
  /// A step in the making: what one part of it leaves to the next.
  struct Making;

  /// Makes room for a step under this profile, into `work`.
  void begin(std::optional<Making>& making, std::string_view profile, GuardedWork& work) const;
  /// Nothing in `mine` where reading it failed.
  [[nodiscard]] Step run_step(std::optional<RaggedBatch> mine, GuardedWork& work, std::string_view profile,
                              double read_seconds);
  [[nodiscard]] CostInUse cost_in_use(std::string_view profile) const;
  void use_measured_cost(Making& making);
  [[nodiscard]] std::uint64_t cut_hash(const PlanSettings& settings) const;
  [[nodiscard]] CallKey key_of(std::string_view action, const Step& step, std::string_view how) const;
  void plan(Making& making) const;
  void pass_on(Step& before, Making& making) const;
  void require_shared_rows(const Making& making, std::span<const FieldSpec> fields,
                           const RaggedBatch& mine) const;
  void regroup_locally(const Step& before, Making& making) const;
  void add_fields(Making& making, std::span<const FieldSpec> fields, const RaggedBatch& added) const;
  void set_loss_weights(Step& step, const PlanSettings& settings) const;
  [[nodiscard]] StepTransfer transfer_of(const Step& step, const PlanSettings& settings,
                                         std::span<const FieldSpec> fields, const RaggedBatch& mine) const;
  [[nodiscard]] std::vector<SampleSummary> lengths(const RaggedBatch& mine) const;
  [[nodiscard]] DerivedFieldOptions derived_options(std::string_view profile) const;
  [[nodiscard]] ExchangeOptions exchange_options() const noexcept;

  Mesh mesh_;
  Config config_;
  std::vector<int> dp_of_rank_;  // where samples are, for their placement
  std::shared_ptr<TimeReports> time_reports_;
  std::uint64_t number_ = 0;                            // of the service, by which its steps are known
  std::shared_ptr<std::atomic<std::uint64_t>> passes_;  // made so far, by copies of the service too
  std::int64_t next_step_ = 0;
};

/// Throws InputError unless a batch can be handed to a step: int64 tokens named input_ids, none negative; ids
/// from 0 on; fields of as many rows as their kind asks for; labels, loss_mask and position_ids of the forms
/// that docs/micro-batches.md lists; and no field with a name of what is always derived, such as
/// loss_weights. Throws LimitError for rows of more than 2^31 - 1 bytes. Local.
void require_valid_samples(const RaggedBatch& batch);

}  // namespace evenkeel
