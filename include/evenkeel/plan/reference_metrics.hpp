#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Figures of a step by the names under which users of ROLL and verl plot them. Counts of tokens below 2^53
/// are exact.
using NamedMetrics = std::vector<std::pair<std::string, double>>;

/// ROLL's figures of dynamic batching: `valid_tokens`, `actual_tokens_origin` (all samples padded to
/// max_length, the width of the incoming tensor), `actual_tokens` (after batching, padding counted),
/// `removed_padding_tokens` and `removed_padding_ratio` (0 without tokens), each after `dynamic_batching/`,
/// or `dynamic_batching/STAGE/` when a stage is given.
[[nodiscard]] NamedMetrics dynamic_batching_metrics(std::span<const std::int64_t> lengths,
                                                    std::int64_t actual_tokens, std::int64_t max_length,
                                                    std::string_view stage = {});

/// verl's and ROLL's figures of DP balance, in tokens of one DP rank: `min`, `max` and `minmax_diff` for
/// contiguous runs of equal counts, `balanced_min` and `balanced_max` for the given assignment, `mean`, each
/// after `PREFIX/`. Group r of `assignment` holds the samples of DP rank r; it has at least one group.
[[nodiscard]] NamedMetrics seqlen_balance_metrics(std::span<const std::int64_t> lengths,
                                                  const Partition& assignment,
                                                  std::string_view prefix = "global_seqlen");

}  // namespace evenkeel
