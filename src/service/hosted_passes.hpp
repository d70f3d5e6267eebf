#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/step.hpp"
#include "service/step_record.hpp"

namespace evenkeel {

/// What a data rank keeps of the passes that trainers hold: how they were planned, whose samples they are,
/// and what was collected of them. Thread-safe.
class HostedPasses {
 public:
  /// Of a pass that was made just now. Where there is no memory to keep it, it is as one that was dropped.
  void add(const Step& pass) noexcept;
  /// Trainers hold no pass of this service before `first`.
  void drop_before(std::uint64_t service, std::uint64_t first) noexcept;
  /// The pass without its micro-batches; one that was never made where the trainers have none. Waits for a
  /// pass that is about to be added.
  [[nodiscard]] Step find(const StepOrigin& origin);
  /// Makes room for what is collected next; then keeps it, which takes no more memory.
  void expect_results(const StepOrigin& origin);
  void keep_results(const StepOrigin& origin, RaggedBatch results) noexcept;
  /// Results of a pass by name, as fields of this rank's samples, in the order in which it brought them.
  /// Throws InputError for a name that was not collected.
  [[nodiscard]] RaggedBatch results_of(const StepOrigin& origin, const std::vector<std::string>& names);

 private:
  struct Hosted {
    Step pass;
    std::vector<RaggedBatch> results;
  };
  /// Of one service, by serial.
  struct Passes {
    std::map<std::uint64_t, Hosted> of;
    std::uint64_t first_kept = 0;
  };

  [[nodiscard]] Hosted* look_up(const StepOrigin& origin) noexcept;
  /// Whether a pass is there, or will never be.
  [[nodiscard]] bool is_settled(const StepOrigin& origin) noexcept;

  std::mutex mutex_;
  bool has_lost_one_ = false;  // for lack of memory
  std::condition_variable added_;
  std::map<std::uint64_t, Passes> services_;
};

}  // namespace evenkeel
