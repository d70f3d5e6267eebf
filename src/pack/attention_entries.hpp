#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/narrow.hpp"
#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// Builds a PrefixAttentionPlan entry by entry.
class AttentionEntries {
 public:
  explicit AttentionEntries(const PackedLayout& segments) : segments_(segments) {}

  /// Adds the entry for one run of rows of a segment. The rows of the run are the queries. The keys are the
  /// true rows of the segment's ancestors (`tokens_before`, outermost first), then the segment's own rows up
  /// to the end of the run.
  void add(std::int64_t segment, RowRange run, std::span<const std::int64_t> tokens_before) {
    std::int64_t keys_before = 0;
    for (const std::int64_t s : tokens_before) {
      keys_before += segments_.length(s);
      add_key_rows(s, segments_.length(s));
    }
    add_key_rows(segment, run.end);
    const std::int64_t true_end = std::min(run.end, segments_.length(segment));
    append_length(plan_.cu_seqlens_q, std::max(true_end - run.begin, std::int64_t{0}), "cu_seqlens_q");
    append_length(plan_.cu_seqlens_q_padded, run.size(), "cu_seqlens_q_padded");
    append_length(plan_.cu_seqlens_k, keys_before + true_end, "cu_seqlens_k");
    append_length(plan_.cu_seqlens_k_padded, keys_before + run.end, "cu_seqlens_k_padded");
    plan_.max_seqlen_q = std::max(plan_.max_seqlen_q, narrow<std::int32_t>(run.size(), "max_seqlen_q"));
    plan_.max_seqlen_k =
        std::max(plan_.max_seqlen_k, narrow<std::int32_t>(keys_before + run.end, "max_seqlen_k"));
    plan_.segment.push_back(segment);
  }

  [[nodiscard]] PrefixAttentionPlan take_plan() { return std::move(plan_); }

 private:
  void add_key_rows(std::int64_t segment, std::int64_t rows) {
    const std::int64_t first = segments_.cu_seqlens_padded()[static_cast<std::size_t>(segment)];
    if (rows > 0) plan_.key_rows.push_back({first, first + rows});
  }
  static void append_length(std::vector<std::int32_t>& cumulative, std::int64_t length, const char* what) {
    cumulative.push_back(narrow<std::int32_t>(cumulative.back() + length, what));
  }

  const PackedLayout& segments_;
  PrefixAttentionPlan plan_;
};

/// Returns the attention plan of one CP rank. tokens_before(segment) must return the ancestors of a segment,
/// outermost first.
template <typename TokensBefore>
PrefixAttentionPlan plan_attention(const PackedLayout& segments, CpRank rank, TokensBefore tokens_before) {
  AttentionEntries entries(segments);
  for (std::int64_t s = 0; s < segments.size(); ++s) {
    const std::vector<std::int64_t> in_front = tokens_before(s);
    for (const RowRange& run : cp_runs(segments.aligned_length(s), segments.cp(), rank)) {
      entries.add(s, run, in_front);
    }
  }
  return entries.take_plan();
}

}  // namespace evenkeel
