#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "balance/context/levels.hpp"

namespace evenkeel::context {

/// Ranks of a wave that run nothing yet. Where speeds are alike they are only counted, since groups find
/// their places at the end (settle_waves); where they differ, a group has its place from its beginning, on
/// which depends how long it takes.
class FreeRanks {
 public:
  /// None.
  FreeRanks() = default;
  /// All. Views the levels.
  explicit FreeRanks(const Levels& levels);

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// What they do together in `time`, in units of the fastest rank's work.
  [[nodiscard]] Cost work_in(Cost time) const noexcept;

  /// The first rank of the fastest block of a level that is free; of several the first one. 0 where speeds
  /// are alike and there are enough ranks.
  [[nodiscard]] std::optional<std::int64_t> fastest(int level) const;
  /// Precondition: fastest(level) was `first`, or they are free.
  void take(int level, std::int64_t first);
  /// Precondition: take was called with that.
  void give_back(int level, std::int64_t first);

 private:
  [[nodiscard]] bool are_free(std::int64_t first, std::int64_t size) const;
  void set(int level, std::int64_t first, bool is_taken);

  const Levels* levels_ = nullptr;
  std::int64_t count_ = 0;
  // Where speeds differ:
  std::vector<bool> taken_;  ///< of each rank
  std::int64_t speed_ = 0;   ///< of those free together
  mutable std::vector<std::size_t>
      first_free_;  ///< of each level's blocks by falling speed none before is free
};

}  // namespace evenkeel::context
