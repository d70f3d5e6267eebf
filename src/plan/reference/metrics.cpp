#include "evenkeel/plan/plan_quality.hpp"

#include "balance/quality.hpp"
#include "plan/assign/simple_partitions.hpp"
#include "plan/settings/checks.hpp"

namespace evenkeel {

NamedMetrics dynamic_batching_metrics(std::span<const std::int64_t> lengths, std::int64_t actual_tokens,
                                      std::int64_t max_length, std::string_view stage) {
  const auto valid = static_cast<double>(plan_checks::total_of(lengths));
  const double origin = static_cast<double>(lengths.size()) * static_cast<double>(max_length);
  const auto actual = static_cast<double>(actual_tokens);
  std::string prefix = "dynamic_batching/";
  if (!stage.empty()) prefix.append(stage).append("/");
  return {{prefix + "valid_tokens", valid},
          {prefix + "actual_tokens_origin", origin},
          {prefix + "actual_tokens", actual},
          {prefix + "removed_padding_tokens", origin - actual},
          {prefix + "removed_padding_ratio", origin > 0 ? (origin - actual) / origin : 0.0}};
}

NamedMetrics seqlen_balance_metrics(std::span<const std::int64_t> lengths, const Partition& assignment,
                                    std::string_view prefix) {
  const Partition runs = contiguous_runs(static_cast<std::int64_t>(lengths.size()), assignment.size());
  const BalanceQuality before = balance_quality(group_sums(runs, lengths));
  const BalanceQuality after = balance_quality(group_sums(assignment, lengths));
  const std::string start = std::string(prefix) + "/";
  return {{start + "min", static_cast<double>(before.min)},
          {start + "max", static_cast<double>(before.max)},
          {start + "minmax_diff", static_cast<double>(before.max - before.min)},
          {start + "balanced_min", static_cast<double>(after.min)},
          {start + "balanced_max", static_cast<double>(after.max)},
          {start + "mean", before.mean}};
}

}  // namespace evenkeel
