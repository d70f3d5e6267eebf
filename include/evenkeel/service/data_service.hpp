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
/// owner (it may supply samples) and a consumer (it gets the micro-batches of its place in the mesh).
///
/// A step's samples can be run several times, each time under another profile of the configuration (log-probs
/// with large micro-batches, then updates with small ones). If profiles assign and cut samples in the same
/// way, tokens are not moved again.
///
/// There are two ways to make first passes, and a service uses only one of them: steps() makes steps ahead of
/// the trainer, from a SampleStream or a reader; step() makes one step from samples that the trainer
/// supplies. In both cases, the same service makes later passes, collects results, accepts reported times,
/// and has one position, state().
///
/// All member functions are collective over the communicator unless stated otherwise. If ranks make, rerun or
/// collect different steps, or name different profiles, every rank throws the same InputError, which lists
/// the ranks' calls, and the service remains usable. The last DataService must be destroyed before
/// MPI_Finalize; later calls throw MpiError. A Step may be used after the service that made it is gone, until
/// MPI_Finalize. Not thread-safe; one call at a time.
class DataService {
 public:
  /// Returns this rank's samples of a step. If it throws an Error on any rank, all ranks throw it together,
  /// including EndOfSamples.
  using Reader = std::function<RaggedBatch()>;

  /// Duplicates `world`; MPI must be initialized. On every rank, throws ConfigError with the keys, both
  /// values and the rank if the configurations of ranks differ; MeshError or ConfigError if the mesh does not
  /// fit the world or settings conflict; and MeshError for MPI_COMM_NULL or an intercommunicator.
  DataService(const Communicator& world, const Config& config);
  /// Resumes from the state of a service, on the same mesh or another one: its first step has the number
  /// from.next_step and equals the step that the other service would have made from the same samples.
  /// Measured costs are used until new ones are fitted. On every rank, throws the errors above, and
  /// ConfigError if ranks pass different states or, listing the differences, if the configuration differs
  /// from the state's (see differences()) and `changed` does not accept that. Sources are compared by
  /// require_same_sources() or steps().
  DataService(const Communicator& world, const Config& config, const ServiceState& from,
              ChangedJob changed = ChangedJob::refused);
  DataService(DataService&&) noexcept;
  DataService& operator=(DataService&&) noexcept;
  ~DataService();

  [[nodiscard]] const Mesh& mesh() const noexcept;
  /// Returns the trainer's position, before its next step, with the costs measured in all passes. With
  /// steps(), the position is after the last step that Steps::next() returned or failed to make. Steps that
  /// are ready or being made do not count. The caller fills in sources and the job's name. Equal on every
  /// rank between collective calls. Local, O(keys).
  [[nodiscard]] ServiceState state() const;
  /// Compares the sources of `samples` with those of the state from which this service resumes, once. Throws
  /// ConfigError on every rank, listing the differences, unless changes were accepted.
  void require_same_sources(SampleStream& samples);
  /// Returns the settings for the next step: the configured ones, with the costs measured so far. Here and
  /// below, throws ConfigError for a profile that the configuration does not have. Local.
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile = {}) const;

  /// Begins to make steps ahead of the trainer, planned with `profile`: steps state().next_step to
  /// `num_steps` - 1. A service has at most one Steps at a time, which must be destroyed before the service;
  /// the next one continues where the previous one ended. On every rank, throws ConfigError if the number of
  /// steps or the profiles of ranks differ, or if the state's sources have not been compared; InputError for
  /// a negative number of steps, or if the service has other Steps or has made steps with step(); LimitError
  /// if a rank cannot create a thread.
  [[nodiscard]] Steps steps(Steps::Reader read, std::int64_t num_steps, std::string profile = {});
  /// Begins to make all steps of a stream, which must outlive the Steps. Calls require_same_sources() first;
  /// otherwise the same as steps(read, num_steps, profile).
  [[nodiscard]] Steps steps(SampleStream& samples, std::string profile = {});

  /// Makes one step from the samples that the ranks supply (any number each, including zero). Throws the same
  /// typed error on every rank: the error of a reader (other exceptions become InputError with their text);
  /// InputError for malformed samples (see require_valid_samples), fields that differ between ranks, or ranks
  /// that make another step or call another function; LimitError for a sample above the cap or a rank out of
  /// memory. After an error, the service remains usable, except after MpiError, which one rank may throw
  /// alone.
  ///
  /// Values of fields with FieldSettings::at are moved to the rows that predict their tokens; labels and loss
  /// masks with one value per token require this setting. Throws InputError for a mask that is set at the
  /// last row of a sample, which has no label unless samples have one label per token. With shared prefixes,
  /// throws InputError for a mask that is set where the label is a prompt token, and for fields with one row
  /// per token that differ among samples on shared tokens. With profiles, the step and its copies keep this
  /// rank's samples, and copies of added fields, as long as they exist.
  [[nodiscard]] Step step(const Reader& read, std::string_view profile = {});
  [[nodiscard]] Step step(RaggedBatch mine, std::string_view profile = {});

  /// Makes another pass over the samples of `before`, under another profile. `before` may be any earlier
  /// step, even of another service with the same mesh and configuration. If the profile assigns samples to
  /// the same DP ranks, cuts them in the same way, and does not need fields that `before` did not get (see
  /// FieldSettings::profiles), sequences are only repacked on each rank, with all fields that the profile
  /// gets, including those that the trainer added to its micro-batches; if the packing is the same, it is
  /// reused. Otherwise, samples are sent again by their owners (InputError if the service of `before` does
  /// not have profiles), with the fields that were added so far, but without the trainer's own.
  ///
  /// `added` contains additional fields of this rank's samples (such as old log-probs and advantages), in the
  /// order in which it supplied them. Only these are sent, and they replace fields with the same names.
  /// Throws InputError on every rank if they belong to other samples, differ between ranks, are named
  /// input_ids, loss_mask or response_mask, would have to be moved (FieldSettings::at is token), have one
  /// label per token without FieldSettings::at, or are refused by require_valid_samples(); if the trainer has
  /// left columns in `before` with a wrong number of rows, or not in all micro-batches; or if ranks pass
  /// different steps or profiles, or a step that was moved from. Also throws the errors of step(read,
  /// profile).
  [[nodiscard]] Step step(Step before, std::string_view profile, const RaggedBatch& added);
  /// Makes another pass like step(before, profile, batch), with the additional fields that `added` returns.
  /// If `added` throws on any rank, all ranks throw.
  [[nodiscard]] Step step(Step before, std::string_view profile, const Reader& added);
  /// Makes another pass over the samples of `before`, without additional fields.
  [[nodiscard]] Step step(Step before, std::string_view profile);

  /// Returns a step's results to the ranks that supplied the samples: this rank's samples in the order in
  /// which it supplied them, with one field per result (see return_results). Only ranks for which
  /// reports_results() is true need to put results. A step may be collected any number of times, in any
  /// order, and by another service with the same mesh and configuration. On every rank, throws InputError if
  /// results are missing or have a wrong number of rows anywhere, if ranks collect different steps (listing
  /// them), or for a step that was moved from; and LimitError if a rank runs out of memory. The service and
  /// its steps remain usable.
  [[nodiscard]] RaggedBatch collect(const Step& step, const StepResults& results) const;

  /// Gathers the results of all ranks' samples on rank `root` of mesh().world(), ordered by sample id;
  /// returns an empty batch on the others. Use it for results that are small enough for one rank. Throws the
  /// errors of collect(), and InputError if `root` is not a rank of mesh().world().
  [[nodiscard]] RaggedBatch collect_on(const Step& step, const StepResults& results, int root) const;

  /// Reports how long this rank took for one micro-batch of a step: forward, backward or both, but always the
  /// same, including the time spent waiting for members of its group but not for other ranks. Local and
  /// thread-safe; any rank may report any micro-batches, or none. If the step's profile has `balance.cost:
  /// measured`, the times of all ranks are gathered when later passes of that profile begin, and are used to
  /// balance these; otherwise, and for empty micro-batches, it has no effect. Steps that are ready or being
  /// made ahead are already planned, so a time affects the next step that is started, which is the same on
  /// all ranks and up to N + 1 steps later. Throws InputError for a step that was moved from, a micro-batch
  /// that does not exist, or seconds that are not finite and above 0.
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const;

 private:
  [[nodiscard]] bool has_unchecked_sources() const noexcept;
  void require_sources(const ServiceState& now);

  std::unique_ptr<ServiceParts> parts_;
};

/// Throws InputError unless a step can be made from a batch: int64 tokens named input_ids, none of them
/// negative; non-negative ids; fields with the number of rows of their kind; labels, loss_mask and
/// position_ids in the forms that docs/micro-batches.md lists; and no field with the name of a tensor that is
/// always derived, such as loss_weights. Throws LimitError for rows of more than 2^31 - 1 bytes. Local.
void require_valid_samples(const RaggedBatch& batch);

}  // namespace evenkeel
