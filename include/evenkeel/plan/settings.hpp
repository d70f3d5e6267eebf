#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/cost_model.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {

/// How samples are dealt to DP ranks.
enum class BalanceAlgorithm : std::uint8_t {
  automatic,       ///< the best one there is for the number of samples and ranks
  karmarkar_karp,  ///< largest differencing method
  lpt,             ///< longest processing time first
  sorted_stride,   ///< ascending by length, every dp-th sample (ROLL's dynamic batching)
  none,            ///< contiguous runs in source order
};

/// The order of a DP rank's micro-batches.
enum class MicroBatchOrder : std::uint8_t {
  pipeline,  ///< cheap ones at both ends, where a pipeline fills and drains (verl, ROLL)
  plan,      ///< as the planner made them
  cost,      ///< dearest first
};

struct BalanceSettings {
  BalanceAlgorithm algorithm = BalanceAlgorithm::automatic;
  CostModel cost = CostModel::tokens();
  bool equal_count = false;  ///< DP ranks get equal numbers of samples, to within one
  bool refine = true;        ///< improve the assignment by moves and swaps afterwards

  friend bool operator==(const BalanceSettings&, const BalanceSettings&) = default;
};

struct MicroBatchSettings {
  /// The cap: tokens of one packed micro-batch after alignment, over its whole CP group.
  std::int64_t max_tokens = 8192;
  std::optional<std::int64_t> max_samples;  ///< most samples of one micro-batch
  std::int64_t min_count = 1;               ///< fewest micro-batches of a DP rank
  std::optional<std::int64_t> multiple_of;  ///< the count is a multiple of it; unset: pp when vpp > 1, else 1
  MicroBatchOrder order = MicroBatchOrder::pipeline;

  [[nodiscard]] BinLimits limits() const noexcept {
    BinLimits limits;
    limits.max_size = max_tokens;
    if (max_samples) limits.max_items = *max_samples;
    return limits;
  }
  friend bool operator==(const MicroBatchSettings&, const MicroBatchSettings&) = default;
};

/// Everything a plan depends on besides the length table. Replicated: every rank holds equal settings.
struct PlanSettings {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int vpp = 1;
  CpGroup cp;
  std::optional<std::int64_t> align;  ///< alignment of each sequence, in tokens; unset: what tp and cp need
  std::int64_t align_lcm = 1;         ///< least common multiple taken with the alignment
  BalanceSettings balance;
  MicroBatchSettings micro_batch;

  /// Tokens each sequence's length is rounded up to a multiple of. Throws ConfigError when `align` is not a
  /// multiple of what the CP cut needs.
  [[nodiscard]] std::int64_t alignment() const;
  /// What the number of micro-batches must be a multiple of.
  [[nodiscard]] std::int64_t count_multiple() const noexcept;

  /// Throws ConfigError that names the key of the first setting that is out of range or does not fit the
  /// others: sizes below 1, a cap below the alignment.
  void validate() const;

  friend bool operator==(const PlanSettings&, const PlanSettings&) = default;
};

}  // namespace evenkeel
