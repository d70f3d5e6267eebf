#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "data_ranks/data_line.hpp"
#include "data_ranks/hosted/passes.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/step_maker.hpp"

namespace evenkeel {

/// The trainers' services on a data rank: it takes part in what they do.
class HostedServices {
 public:
  /// Brings this rank's samples of a step. Any thread.
  using Reader = std::function<RaggedBatch(std::int64_t step)>;

  /// `everyone` are the trainers and then the data ranks. A service reads each step, and a prefetcher all of
  /// them, with what `newest_reader` gives when it is asked.
  HostedServices(const Communicator& everyone, const Config& config, std::function<Reader()> newest_reader);
  HostedServices(const HostedServices&) = delete;
  HostedServices& operator=(const HostedServices&) = delete;
  ~HostedServices();

  /// Lets go of the passes that trainers do not hold any more. Before what else a call says.
  void let_go(const DataCall& call);
  /// Throws an MpiError that a thread which makes steps has met, on this rank alone.
  void throw_lone_error() const;
  /// Does what the call says, with all other ranks. What all of them throw is the trainers' to handle; throws
  /// only what ends the job. `before` is what went wrong in hearing the call.
  void answer(const DataCall& call, const GuardedWork& before);

 private:
  struct HostedPrefetcher;

  using Makers = std::map<std::uint64_t, std::optional<StepMaker>>;
  using Prefetchers = std::map<std::uint64_t, HostedPrefetcher>;

  [[nodiscard]] ServiceState agree_on_state(const DataCall& call, const GuardedWork& before,
                                            const std::function<void(const ServiceState&)>& prepare) const;
  void make_service(const DataCall& call, const GuardedWork& before);
  void make_prefetcher(const DataCall& call, const GuardedWork& before);
  void first_pass(const DataCall& call, const GuardedWork& before);
  void later_pass(const DataCall& call, const GuardedWork& before);
  void collect(const DataCall& call, const GuardedWork& before);
  [[nodiscard]] StepMaker& maker_of(std::uint64_t service);

  Communicator everyone_;
  Config config_;
  std::function<Reader()> newest_reader_;
  HostedPasses passes_;
  RaggedBatch no_samples_;
  StepResults no_results_{0};
  Makers makers_;
  Prefetchers prefetchers_;
};

}  // namespace evenkeel
