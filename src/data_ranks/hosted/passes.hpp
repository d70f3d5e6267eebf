#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/step.hpp"
#include "service/step_record.hpp"

namespace evenkeel {

/// What a data rank keeps of the passes that trainers hold: how they were planned, whose samples they are,
/// and what was collected of them. Its memory is taken as room before ranks do something together, so that
/// nothing is left that one of them may lack memory for when they have. Thread-safe.
class HostedPasses {
  struct Hosted {
    Step pass;
    std::list<RaggedBatch> results;
  };
  /// Of one service, by serial.
  struct Passes {
    std::map<std::uint64_t, Hosted> of;
    std::uint64_t first_kept = 0;
  };
  using Services = std::map<std::uint64_t, Passes>;

 public:
  using ServiceRoom = Services::node_type;
  using PassRoom = std::map<std::uint64_t, Hosted>::node_type;
  using ResultsRoom = std::list<RaggedBatch>;
  [[nodiscard]] static ServiceRoom room_for_service();
  [[nodiscard]] static PassRoom room_for_pass();
  [[nodiscard]] static ResultsRoom room_for_results() { return ResultsRoom(1); }

  /// Before the first pass of a service.
  void open(std::uint64_t service, ServiceRoom room);
  /// A pass that was made just now.
  void add(Step pass, PassRoom room);
  /// Trainers hold no pass of this service before `first`.
  void drop_before(std::uint64_t service, std::uint64_t first);
  /// After the last pass of a service, when none of them is held.
  void close(std::uint64_t service);
  /// The same, unless one is kept: then close() will be called.
  void close_if_empty(std::uint64_t service);
  /// The pass without its micro-batches; one that was never made where the trainers have none, or one of no
  /// service here. Waits for a pass that is about to be added.
  [[nodiscard]] Step find(const StepOrigin& origin);
  void keep_results(const StepOrigin& origin, RaggedBatch results, ResultsRoom room);
  /// Results of a pass by name, as fields of this rank's samples, in the order in which it brought them.
  /// Throws InputError for a name that was not collected.
  [[nodiscard]] RaggedBatch results_of(const StepOrigin& origin, const std::vector<std::string>& names);

 private:
  [[nodiscard]] Hosted* look_up(const StepOrigin& origin);

  std::mutex mutex_;
  std::condition_variable added_;
  Services services_;
};

}  // namespace evenkeel
