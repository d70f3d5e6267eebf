#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "evenkeel/service/steps.hpp"

namespace evenkeel {

class SampleStream;
struct ServiceParts;

/// Balances, packs and exchanges the samples of each step over the ranks of a communicator. Every rank is an
/// owner (it may bring samples) and a consumer (it gets the micro-batches of its place in the mesh).
///
/// A step's samples can be run several times, each time under another profile of the configuration (log-probs
/// with large micro-batches, then updates with small ones). If profiles assign and cut samples alike, no
/// token moves again.
///
/// There are two ways to make first passes, and a service has one of them: steps() makes steps ahead of the
/// trainer, from a SampleStream or a reader; step() makes one step from the samples that the trainer brings
/// now. Either way, the same service makes later passes, collects results, takes reported times and has one
/// position, state().
///
/// All member functions are collective over the communicator unless they say otherwise. If ranks make, rerun
/// or collect different steps, or name different profiles, every rank throws the same InputError, which says
/// what each does, and the service remains usable. The last DataService must be destroyed before
/// MPI_Finalize; later calls throw MpiError. A Step may be used after the service that made it is gone, until
/// MPI_Finalize. Not thread-safe; one call at a time.
class DataService {
 public:
  /// Brings this rank's samples of a step. May throw Error: all ranks then throw it together, EndOfSamples
  /// too.
  using Reader = std::function<RaggedBatch()>;

  /// Duplicates `world`; MPI must be initialized. Throws, on every rank, ConfigError if the configurations of
  /// ranks differ, with the keys, both values and the rank; MeshError or ConfigError if the mesh does not fit
  /// the world or settings conflict; and MeshError for MPI_COMM_NULL or an intercommunicator.
  DataService(const Communicator& world, const Config& config);
  /// Resumes from the state of a service, on the same mesh or another one: its first step has the number
  /// from.next_step, and is what that service would have made of the same samples. Measured costs are used
  /// until new ones are fitted. Throws on every rank as above; ConfigError that lists how the configuration
  /// differs from the state's (see differences()), unless `changed` accepts that; and if ranks bring
  /// different states. Sources are compared by require_same_sources() or steps().
  DataService(const Communicator& world, const Config& config, const ServiceState& from,
              ChangedJob changed = ChangedJob::refused);
  DataService(DataService&&) noexcept;
  DataService& operator=(DataService&&) noexcept;
  ~DataService();

  [[nodiscard]] const Mesh& mesh() const noexcept;
  /// The trainer's position, before its next step, with the costs measured in all passes. With steps(), it is
  /// after the last step that Steps::next() returned, or the error it threw; steps that are ready or being
  /// made do not count. The caller fills in sources and the job's name. Equal on every rank between
  /// collective calls. Local, O(keys).
  [[nodiscard]] ServiceState state() const;
  /// Compares the sources of `samples` with those of the state that this service resumes from, once. Throws
  /// ConfigError on every rank that lists how they differ, unless changes were accepted.
  void require_same_sources(SampleStream& samples);
  /// The settings for the next step: the configuration's, with the costs measured so far. Throws ConfigError
  /// for a profile that the configuration does not have; so below. Local.
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile = {}) const;

  /// Begins to make steps ahead of the trainer, planned with `profile`, from state().next_step on; the last
  /// one is `num_steps` - 1. There is one Steps of a service at a time, which must be destroyed before the
  /// service; the next one continues where it ended. Throws on every rank ConfigError if the number of steps
  /// or the profiles of ranks differ, and for a state with sources that nobody has compared; InputError for a
  /// negative number of steps, or if the service has other Steps or has made steps with step(); LimitError if
  /// a rank cannot have a thread.
  [[nodiscard]] Steps steps(Steps::Reader read, std::int64_t num_steps, std::string profile = {});
  /// The same for all steps of a stream, which must outlive the Steps: calls require_same_sources() first.
  [[nodiscard]] Steps steps(SampleStream& samples, std::string profile = {});

  /// Makes one step from the samples that the ranks bring (any number each, including none). Throws the same
  /// typed error on every rank: what a reader threw (other exceptions become InputError with their text),
  /// InputError for malformed samples (see require_valid_samples), fields that differ between ranks, or ranks
  /// that make another step or call another function, LimitError for a sample above the cap or a rank out of
  /// memory. After an error the service remains usable; only MpiError may be thrown by one rank alone, and
  /// ends it.
  ///
  /// Values of fields with FieldSettings::at are moved to the rows that predict their tokens; labels and a
  /// loss mask with one value per token need it. A mask that is set at the last row of a sample, which has no
  /// label unless samples bring one label per token, is an InputError. With shared prefixes, a mask that is
  /// set on labels that are prompt tokens is an InputError, and so are fields with one row a token that
  /// differ among samples on shared tokens. With profiles, the step and its copies keep this rank's samples,
  /// and copies of what is added to them, as long as they live.
  [[nodiscard]] Step step(const Reader& read, std::string_view profile = {});
  [[nodiscard]] Step step(RaggedBatch mine, std::string_view profile = {});

  /// Another pass over the samples of `before`, under another profile. `before` may be any earlier
  /// step, even of another service with the same mesh and configuration. If the
  /// profile assigns samples to the same DP ranks, cuts them alike and needs no field that `before` did
  /// not get (see FieldSettings::profiles), sequences are only repacked on each rank, with all their
  /// fields that the profile gets, including those that the trainer added to its micro-batches; an
  /// equal packing is reused. Otherwise samples are sent again by their owners (InputError if `before`
  /// is of a service without profiles), with the fields that were added so far, but without the
  /// trainer's own.
  ///
  /// `added` are further fields of this rank's samples, in the order in which it brought them (old log-probs,
  /// advantages): only these are sent, and they replace fields of the same name. Throws InputError on every
  /// rank if they are of other samples, differ between ranks, name input_ids or loss_mask, are to be moved
  /// (FieldSettings::at is token), have one label per token without FieldSettings::at, or are refused by
  /// require_valid_samples; if the trainer has left columns in `before` with a wrong number of rows, or not
  /// in all micro-batches; if ranks pass different steps or profiles, or one that was moved from; and as the
  /// step above does.
  [[nodiscard]] Step step(Step before, std::string_view profile, const RaggedBatch& added);
  /// The same; what `added` throws, all ranks throw.
  [[nodiscard]] Step step(Step before, std::string_view profile, const Reader& added);
  /// The same without further fields.
  [[nodiscard]] Step step(Step before, std::string_view profile);

  /// Returns a step's results to the ranks that brought the samples: this rank's samples in the order in
  /// which it brought them, one field for each result (see return_results). Only ranks for which
  /// reports_results() is true need to put any. A step may be collected any number of times, in any order,
  /// and by another service with the same mesh and configuration. Throws InputError on every rank if results
  /// are missing or have wrong rows anywhere; if ranks collect different steps, with what each collects, or a
  /// step that was moved from; and LimitError if a rank is out of memory for samples or tensors. The service
  /// and its steps remain usable.
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results) const;

  /// Gathers the results of all ranks' samples on rank `root` of mesh().world(), ordered by sample id; an
  /// empty batch on the others. For results that are small enough for one rank. Throws as collect() does.
  [[nodiscard]] RaggedBatch collect_on(const Step& step, const StepResults& results, int root) const;

  /// Reports how long this rank took for one micro-batch of a step: forward, backward or both, but always the
  /// same, including waiting for the members of its group but for no others. Local and thread-safe; any rank
  /// may report any micro-batches, or none. If the step's profile has `balance.cost: measured`, the times of
  /// all ranks are gathered when later passes of that profile begin, and balance these; otherwise, and for
  /// empty micro-batches, it has no effect. Steps that are ready or being made ahead are already planned: a
  /// time affects the next one that is started, the same on all ranks, up to N + 1 steps later. Throws
  /// InputError for a step that was moved from, a micro-batch that does not exist, or seconds that are not
  /// finite and above 0.
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const;

 private:
  [[nodiscard]] bool has_unchecked_sources() const noexcept;
  void require_sources(const ServiceState& now);

  std::unique_ptr<ServiceParts> parts_;
};

/// Throws InputError unless a step can be made from a batch: int64 tokens named input_ids, none negative; ids
/// from 0 on; fields with the number of rows of their kind; labels, loss_mask and position_ids in the forms
/// that docs/micro-batches.md lists; and no field with the name of a tensor that is always derived, such as
/// loss_weights. Throws LimitError for rows of more than 2^31 - 1 bytes. Local.
void require_valid_samples(const RaggedBatch& batch);

}  // namespace evenkeel
