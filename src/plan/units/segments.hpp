#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "plan/units/id_groups.hpp"

namespace evenkeel {

/// Rows of one sample that form one sequence in the tensors. Each segment is aligned, and split across the CP
/// ranks, separately from the others. Without shared prefixes, a segment is a whole sample. The rows of a
/// segment shared by several samples are copied from one of them.
struct Segment {
  EntryId entry{0};                 ///< the sample that supplies the rows
  RowRange rows;                    ///< range of that sample's rows
  std::int64_t aligned_length = 0;  ///< rows over the whole CP group, including alignment or padding
  int group_size = 1;               ///< size of the CP group over which the segment is cut

  friend constexpr bool operator==(const Segment&, const Segment&) = default;
};

/// Placeholder for a missing segment.
inline constexpr SegmentId no_segment{-1};

/// The path of segments of each sample, linked from its last segment back to its first one.
struct SegmentPaths {
  std::vector<SegmentId> parents;  ///< by segment: the preceding segment of the path, or no_segment
  std::vector<SegmentId> ends;     ///< by entry: the sample's last segment, or no_segment
};

/// The segments of a step, and the path of segments that makes up each sample. Replicated. A value type.
class SegmentTable {
 public:
  SegmentTable() = default;
  /// Makes one segment per sample, numbered like the sample's entry. `shares` holds the entries of each of
  /// StepAssignment::groups.
  SegmentTable(std::vector<Segment> whole_samples, const IdGroups<EntryId>& shares);
  /// Makes a table of segments that samples may share. `shares` holds the segments of each of
  /// StepAssignment::groups.
  SegmentTable(std::vector<Segment> segments, const SegmentPaths& paths, IdGroups<SegmentId> shares);

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(segments_.size()); }
  [[nodiscard]] const Segment& operator[](SegmentId s) const noexcept { return segments_[s.index()]; }
  [[nodiscard]] std::span<const Segment> segments() const noexcept { return segments_; }
  /// Returns the segments of an entry, in order.
  [[nodiscard]] std::span<const SegmentId> path_of(EntryId entry) const noexcept {
    const std::size_t at = entry.index();
    return std::span(path_items_)
        .subspan(static_cast<std::size_t>(path_offsets_[at]),
                 static_cast<std::size_t>(path_offsets_[at + 1] - path_offsets_[at]));
  }
  /// Returns the segments of each of StepAssignment::groups.
  [[nodiscard]] const IdGroups<SegmentId>& segments_by_group() const noexcept { return shares_; }

  friend bool operator==(const SegmentTable&, const SegmentTable&) = default;

 private:
  std::vector<Segment> segments_;
  std::vector<std::int64_t> path_offsets_{0};
  std::vector<SegmentId> path_items_;
  IdGroups<SegmentId> shares_;
};

/// The field in which samples declare their prefix tree under PrefixSharing::trees: the segment number of
/// each token. Samples with the same uid share the longest prefix on which their segment numbers agree.
/// Tokens with different numbers are never shared, even if the tokens are equal.
inline constexpr std::string_view segment_ids_field = "segment_ids";

/// Returns one key per token of the batch. Within a uid, tokens of the same segment have equal keys.
/// - If segment_ids has one row per response token, the keys of prompt tokens are their token ids, so prompts
///   share their common prefix.
/// - Pieces of samples (RaggedBatch::contexts) have equal keys only if their contexts are equal, since the
///   same segment number may follow different segments.
/// Throws InputError if segment_ids is not one integer per token or response token, if a segment number is
/// negative, or if `ahead` > 0, since a row is then shared only if the next `ahead` tokens are also equal,
/// which the keys do not show. O(tokens). Precondition: the batch has the fields segment_ids and input_ids.
[[nodiscard]] std::vector<std::int64_t> token_keys(const RaggedBatch& batch, std::int64_t ahead);

}  // namespace evenkeel
