#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"

namespace evenkeel {

class AnyService;

/// Balances, packs and exchanges the samples of each step over the ranks of a communicator. Every rank is an
/// owner (it may bring samples) and a consumer (it is handed the micro-batches of its place in the mesh).
///
/// With `mesh.data_ranks` the first ranks of the communicator are inside serve(), and bring all samples. The
/// ranks of these contracts are then the others, who call as if they read themselves and bring none; what is
/// collected goes to the data ranks, and is added to a later pass by naming it (see serve()).
///
/// A step's samples can be passed over several times, each time under another profile of the configuration
/// (log-probs with large micro-batches, then updates with small ones). While profiles assign and cut samples
/// alike, no token moves again.
///
/// All member functions are collective over the communicator unless they say otherwise. Ranks that make,
/// pass over or collect different steps, or name different profiles, are told so: every rank throws the same
/// InputError that says what each does, and the service can be used again. The last DataService must go
/// before MPI_Finalize; calls after it throw MpiError. Steps may be used longer than the service that made
/// them, up to MPI_Finalize. Not thread-safe; one step at a time.
class DataService {
 public:
  /// Brings this rank's samples of a step. May throw Error: all ranks then throw it together.
  using Reader = std::function<RaggedBatch()>;

  /// Duplicates `world`; MPI must be initialized. Throws, on every rank, ConfigError when the configurations
  /// of ranks differ, which names the keys, both values and the rank; MeshError or ConfigError when the mesh
  /// does not fit the world or settings do not fit each other; and MeshError for MPI_COMM_NULL or an
  /// intercommunicator. With data ranks, ConfigError unless just these serve, and InputError for another
  /// communicator than that of the first service, prefetcher or stream over them.
  DataService(const Communicator& world, const Config& config);
  /// Goes on where the service stood that `from` is of, on the same mesh or another one: its first step has
  /// the number from.next_step, and is, of the same samples, what that service would have made. Costs that
  /// were measured hold until they are measured anew. Throws on every rank as above; ConfigError that lists
  /// how the configuration differs from the state's (see differences()), unless `changed` accepts that; and
  /// when ranks bring different states.
  DataService(const Communicator& world, const Config& config, const ServiceState& from,
              ChangedJob changed = ChangedJob::refused);
  DataService(DataService&&) noexcept;
  DataService& operator=(DataService&&) noexcept;
  ~DataService();

  [[nodiscard]] const Mesh& mesh() const noexcept;
  /// Where the service stands: before its next step. Without sources and a name for the job, which are the
  /// caller's to fill in. Equal on every rank between collective calls. Local, O(keys).
  [[nodiscard]] ServiceState state() const;
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
  /// that differ there. With profiles, the step and its copies keep this rank's samples, and copies of what
  /// is added to them, as long as they live.
  [[nodiscard]] Step step(const Reader& read, std::string_view profile = {});
  [[nodiscard]] Step step(RaggedBatch mine, std::string_view profile = {});

  /// Another pass over the samples of `before`, under another profile. `before` may be of any earlier step,
  /// also of another service with the same mesh and configuration, as a Prefetcher has one. Where the profile
  /// assigns samples to the same DP ranks, cuts them alike and is sent no field that `before` was not (see
  /// FieldSettings::profiles), sequences are only put together anew on each rank, with every field they have
  /// that the profile is sent, also those that the trainer added to its micro-batches; the same packing is
  /// handed on as it is. Else samples travel again from their owners (InputError when `before` is of a
  /// service without profiles), with the fields that were added so far, and the trainer's own fields stay
  /// behind.
  ///
  /// `added` are further fields of this rank's samples, in the order in which it brought them (old log-probs,
  /// advantages): only these travel, and replace fields of the same name. With data ranks it names fields
  /// that were collected of `before`, as what collect() returned does. Throws InputError on every rank when
  /// they are of other samples, differ between ranks, name input_ids or loss_mask, or are what
  /// require_valid_samples refuses; when the trainer has left columns in `before` that have not the rows of
  /// their kind, or are not in all micro-batches; when ranks pass different steps or profiles, or one that
  /// was moved from; and as the step above does.
  [[nodiscard]] Step step(Step before, std::string_view profile, const RaggedBatch& added);
  /// The same without further fields.
  [[nodiscard]] Step step(Step before, std::string_view profile);

  /// Brings a step's results home: this rank's samples in the order in which it brought them, one field a
  /// result (see return_results). Only the ranks that reports_results() names need to put any. A step may be
  /// collected any number of times, in any order, and by another service of the same mesh and configuration.
  /// Throws InputError on every rank when results are missing or have wrong rows somewhere; when ranks
  /// collect different steps, telling which rank collects which, or a step that was moved from; and
  /// LimitError for memory that a rank lacks. The service and its steps can be used again.
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results) const;

  /// Brings the results of all ranks' samples to rank `root` of mesh().world(), ordered by sample id; an
  /// empty batch elsewhere. For what is small enough for one rank, and for trainers whose samples come from
  /// data ranks, where collect() takes results. Throws as collect() does.
  [[nodiscard]] RaggedBatch collect_on(const Step& step, const StepResults& results, int root) const;

  /// How long this rank took for one micro-batch of a step, forward and backward as the trainer likes, but
  /// always the same, with waiting for the members of its group and for no others. Local and thread-safe; any
  /// rank may report any micro-batches, or none. Where the step's profile has `balance.cost: measured`, the
  /// times of all ranks are gathered when later steps of that profile begin, and balance these; else, and for
  /// empty micro-batches, without effect. `step` is of this service, or of a Prefetcher with the same
  /// configuration (tell that one, where it makes further steps). Throws InputError for a step that was moved
  /// from, a micro-batch that the step has not, or seconds that are not finite and above 0.
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const;

 private:
  std::unique_ptr<AnyService> service_;
};

/// Throws InputError unless a batch can be handed to a step: int64 tokens named input_ids, none negative; ids
/// from 0 on; fields of as many rows as their kind asks for; labels, loss_mask and position_ids of the forms
/// that docs/micro-batches.md lists; and no field with a name of what is always derived, such as
/// loss_weights. Throws LimitError for rows of more than 2^31 - 1 bytes. Local.
void require_valid_samples(const RaggedBatch& batch);

}  // namespace evenkeel
