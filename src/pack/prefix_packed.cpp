#include "evenkeel/pack/prefix_packed.hpp"

#include <algorithm>
#include <string>

#include "evenkeel/base/error.hpp"
#include "evenkeel/base/narrow.hpp"
#include "position_runs.hpp"

namespace evenkeel {
namespace {

std::vector<std::int64_t> segment_lengths(const PrefixGroups& groups) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    lengths.push_back(groups.prefix(g));
    const RowRange suffixes = groups.suffixes_of(g);
    for (std::int64_t i = suffixes.begin; i < suffixes.end; ++i) lengths.push_back(groups.suffix(i));
  }
  return lengths;
}

void push_length(std::vector<std::int32_t>& cumulative, std::int64_t length, const char* what) {
  cumulative.push_back(narrow<std::int32_t>(cumulative.back() + length, what));
}

/// Adds the entry of one run of a segment: its rows as queries, its prefix and its rows so far as keys.
void add_entry(const PackedPrefixLayout& layout, std::int64_t segment, RowRange run,
               PrefixAttentionPlan& plan) {
  const PackedLayout& segments = layout.segments();
  const auto first_row = [&](std::int64_t of) {
    return std::int64_t{segments.cu_seqlens_padded()[static_cast<std::size_t>(of)]};
  };
  const std::int64_t before = layout.tokens_before(segment);
  const std::int64_t true_end = std::min(run.end, segments.length(segment));
  push_length(plan.cu_seqlens_q, std::max(true_end - run.begin, std::int64_t{0}), "cu_seqlens_q");
  push_length(plan.cu_seqlens_q_padded, run.size(), "cu_seqlens_q_padded");
  push_length(plan.cu_seqlens_k, before + true_end, "cu_seqlens_k");
  push_length(plan.cu_seqlens_k_padded, before + run.end, "cu_seqlens_k_padded");
  plan.max_seqlen_q = std::max(plan.max_seqlen_q, narrow<std::int32_t>(run.size(), "max_seqlen_q"));
  plan.max_seqlen_k = std::max(plan.max_seqlen_k, narrow<std::int32_t>(before + run.end, "max_seqlen_k"));
  plan.segment.push_back(segment);
  if (before > 0) {
    const std::int64_t group = layout.segment_group()[static_cast<std::size_t>(segment)];
    const std::int64_t prefix = first_row(layout.prefix_segment(group));
    plan.key_rows.push_back({prefix, prefix + before});
  }
  plan.key_rows.push_back({first_row(segment), first_row(segment) + run.end});
}

}  // namespace

PackedPrefixLayout::PackedPrefixLayout(PrefixGroups groups, std::span<const SampleId> samples,
                                       std::int64_t alignment, CpGroup cp)
    : groups_(std::move(groups)), segments_(segment_lengths(groups_), alignment, cp) {
  if (static_cast<std::int64_t>(samples.size()) != groups_.num_suffixes()) {
    throw InputError("prefix groups", std::to_string(samples.size()) + " samples are given for " +
                                          std::to_string(groups_.num_suffixes()) + " suffixes");
  }
  for (std::int64_t g = 0; g < groups_.size(); ++g) {
    const RowRange suffixes = groups_.suffixes_of(g);
    segment_sample_.push_back(filler_sample);
    segment_sample_.insert(segment_sample_.end(), samples.begin() + suffixes.begin,
                           samples.begin() + suffixes.end);
    segment_group_.resize(segment_sample_.size(), g);
  }
}

std::int64_t PackedPrefixLayout::tokens_before(std::int64_t segment) const noexcept {
  const std::int64_t group = segment_group_[static_cast<std::size_t>(segment)];
  return segment == prefix_segment(group) ? 0 : groups_.prefix(group);
}

void derive_position_ids(const PackedPrefixLayout& layout, CpRank rank, std::span<std::int64_t> out) {
  fill_position_ids(
      layout.segments(), rank, [&](std::int64_t segment) { return layout.tokens_before(segment); }, out);
}

PrefixAttentionPlan plan_prefix_attention(const PackedPrefixLayout& layout, CpRank rank) {
  const PackedLayout& segments = layout.segments();
  PrefixAttentionPlan plan;
  for (std::int64_t i = 0; i < segments.size(); ++i) {
    for (const RowRange& run : cp_runs(segments.aligned_length(i), segments.cp(), rank)) {
      add_entry(layout, i, run, plan);
    }
  }
  return plan;
}

std::int64_t score_entries(std::span<const std::int32_t> cu_seqlens_q,
                           std::span<const std::int32_t> cu_seqlens_k) {
  if (cu_seqlens_q.size() != cu_seqlens_k.size()) {
    throw InputError("cu_seqlens_k", "has " + std::to_string(cu_seqlens_k.size()) +
                                         " entries, cu_seqlens_q has " + std::to_string(cu_seqlens_q.size()));
  }
  std::int64_t entries = 0;
  for (std::size_t e = 1; e < cu_seqlens_q.size(); ++e) {
    const std::int64_t queries = std::int64_t{cu_seqlens_q[e]} - cu_seqlens_q[e - 1];
    const std::int64_t keys = std::int64_t{cu_seqlens_k[e]} - cu_seqlens_k[e - 1];
    if (queries < 0 || keys < queries) {
      throw InputError("cu_seqlens_k", "entry " + std::to_string(e - 1) + " has " + std::to_string(keys) +
                                           " keys for " + std::to_string(queries) + " queries");
    }
    entries += queries * (keys - queries) + queries * (queries + 1) / 2;
  }
  return entries;
}

}  // namespace evenkeel
