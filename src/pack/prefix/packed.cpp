#include "evenkeel/pack/prefix/packed.hpp"

#include <string>

#include "evenkeel/base/error.hpp"
#include "pack/attention_entries.hpp"
#include "pack/position_runs.hpp"

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
  return plan_attention(layout.segments(), rank, [&](std::int64_t segment) {
    std::vector<std::int64_t> before;
    const std::int64_t group = layout.segment_group()[static_cast<std::size_t>(segment)];
    if (segment != layout.prefix_segment(group)) before.push_back(layout.prefix_segment(group));
    return before;
  });
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
