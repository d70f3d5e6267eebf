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

/// Rows of one sample that stand in the tensors as one sequence: aligned, and cut over the CP ranks on their
/// own. Without shared prefixes that is the whole sample. A segment that several samples share is taken from
/// one of them.
struct Segment {
  EntryId entry{0};                 ///< of the length table: the sample whose rows they are
  RowRange rows;                    ///< of that sample
  std::int64_t aligned_length = 0;  ///< over its whole group, alignment or padding counted
  int group_size = 1;               ///< of the group it is cut over

  friend constexpr bool operator==(const Segment&, const Segment&) = default;
};

/// What stands where there is no segment.
inline constexpr SegmentId no_segment{-1};

/// The path of each sample's segments, from its last one back to its first.
struct SegmentPaths {
  std::vector<SegmentId> parents;  ///< by segment: the one in front of it, or no_segment
  std::vector<SegmentId> ends;     ///< by entry: its last segment, or no_segment
};

/// The segments of a step, and which of them make up each sample. Replicated. A value type.
class SegmentTable {
 public:
  SegmentTable() = default;
  /// One segment a sample, of the same number as its entry. `shares` are the entries of each group.
  SegmentTable(std::vector<Segment> whole_samples, const IdGroups<EntryId>& shares);
  /// Segments that may be shared; `shares` are the segments of each group.
  SegmentTable(std::vector<Segment> segments, const SegmentPaths& paths, IdGroups<SegmentId> shares);

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(segments_.size()); }
  [[nodiscard]] const Segment& operator[](SegmentId s) const noexcept { return segments_[s.index()]; }
  [[nodiscard]] std::span<const Segment> segments() const noexcept { return segments_; }
  /// The segments of an entry, in order.
  [[nodiscard]] std::span<const SegmentId> path_of(EntryId entry) const noexcept {
    const std::size_t at = entry.index();
    return std::span(path_items_)
        .subspan(static_cast<std::size_t>(path_offsets_[at]),
                 static_cast<std::size_t>(path_offsets_[at + 1] - path_offsets_[at]));
  }
  /// The segments of each group.
  [[nodiscard]] const IdGroups<SegmentId>& shares() const noexcept { return shares_; }

  friend bool operator==(const SegmentTable&, const SegmentTable&) = default;

 private:
  std::vector<Segment> segments_;
  std::vector<std::int64_t> path_offsets_{0};
  std::vector<SegmentId> path_items_;
  IdGroups<SegmentId> shares_;
};

/// The field of samples that say which tree they make, with PrefixSharing::trees: the number of the segment
/// that each token is of. Samples with the same uid share tokens as far as they name the same segments, from
/// the first token on: what has other numbers stays apart, whatever its tokens.
inline constexpr std::string_view segment_ids_field = "segment_ids";

/// One number for each token of the batch, which are equal where samples of a uid name the same segment.
/// Where the field has a row a response token, those of a prompt are its tokens, so that prompts share the
/// beginning that they have in common. Pieces of samples (RaggedBatch::contexts) have equal numbers only if
/// they follow the same segments, since a segment number may be used again behind others. Throws InputError
/// for a field that is not one integer of 0 or more a token or a response token, and for one at all if rows
/// are shared by tokens `ahead` of them, since only those of shared rows are compared. O(tokens).
/// Precondition: the batch has the field, and input_ids.
[[nodiscard]] std::vector<std::int64_t> segment_keys(const RaggedBatch& batch, std::int64_t ahead);

}  // namespace evenkeel
