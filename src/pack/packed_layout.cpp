#include "evenkeel/pack/packed_layout.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/narrow.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/packed_walk.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_layout_rows = std::numeric_limits<std::int32_t>::max();

void require_valid_alignment(std::int64_t alignment, CpGroup cp) {
  const std::int64_t chunks = sequence_alignment(1, cp);
  if (alignment < 1 || alignment % chunks != 0) {
    throw InputError("sequence alignment",
                     "is " + std::to_string(alignment) +
                         "; it must be a positive multiple of the number of context-parallel chunks, " +
                         std::to_string(chunks));
  }
  (void)narrow<std::int32_t>(alignment, "sequence alignment");
}

void require_nonnegative_length(std::int64_t index, std::int64_t length) {
  if (length >= 0) return;
  throw InputError("sequence " + std::to_string(index),
                   "has length " + std::to_string(length) + "; a length cannot be negative");
}

std::int32_t checked_rows(std::int64_t rows) {
  if (rows <= max_layout_rows) return static_cast<std::int32_t>(rows);
  throw LimitError("packed micro-batch",
                   "has " + std::to_string(rows) + " rows, above the limit of " +
                       std::to_string(max_layout_rows) + " for int32 cu_seqlens",
                   "Pack fewer or shorter sequences together");
}

std::string text_of(const PackedShape& shape) {
  return format_plain_count(shape.rows, "row") + " per rank in " +
         format_plain_count(shape.sequences, "sequence") + " of at most " +
         format_plain_count(shape.max_seqlen, "token") + " over " +
         format_plain_count(shape.cp, "context-parallel rank");
}

}  // namespace

PackedLayout::PackedLayout(std::span<const std::int64_t> lengths, std::int64_t alignment, CpGroup cp)
    : cp_(cp), alignment_(alignment) {
  require_valid_alignment(alignment, cp);
  for (const std::int64_t length : lengths) {
    require_nonnegative_length(size(), length);
    // Check the length first, since rounding up a length near 2^63 would overflow.
    append(length, align_up(checked_rows(length), alignment));
  }
}

PackedLayout::PackedLayout(std::span<const std::int64_t> lengths,
                           std::span<const std::int64_t> aligned_lengths, std::int64_t alignment, CpGroup cp)
    : cp_(cp), alignment_(alignment) {
  require_valid_alignment(alignment, cp);
  if (lengths.size() != aligned_lengths.size()) {
    throw InputError("packed micro-batch",
                     "has " + format_plain_count(std::ssize(lengths), "length") + " but " +
                         format_plain_count(std::ssize(aligned_lengths), "aligned length"));
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require_nonnegative_length(size(), lengths[i]);
    if (aligned_lengths[i] < lengths[i] || aligned_lengths[i] % alignment != 0) {
      throw InputError("sequence " + std::to_string(i),
                       "has length " + std::to_string(lengths[i]) + ", but its aligned length is " +
                           std::to_string(aligned_lengths[i]),
                       "Use a multiple of " + std::to_string(alignment) + " that is at least the length");
    }
    append(lengths[i], checked_rows(aligned_lengths[i]));
  }
}

void PackedLayout::append(std::int64_t length, std::int64_t aligned_length) {
  cu_seqlens_padded_.push_back(checked_rows(cu_seqlens_padded_.back() + aligned_length));
  cu_seqlens_.push_back(static_cast<std::int32_t>(cu_seqlens_.back() + length));
  max_seqlen_ = std::max(max_seqlen_, static_cast<std::int32_t>(aligned_length));
}

PackedLayout PackedLayout::padded_to(std::int64_t rows) const {
  const std::int64_t added = rows - num_rows();
  if (added < 0 || added % alignment_ != 0 || (added > 0 && size() == 0)) {
    throw InputError("packed micro-batch",
                     "has " + format_plain_count(num_rows(), "row") + " in " +
                         format_plain_count(size(), "sequence") + ", which cannot be padded to " +
                         format_plain_count(rows, "row"),
                     size() == 0 ? "Pad a micro-batch that has a sequence"
                                 : "Pad to " + format_plain_count(num_rows(), "row") +
                                       " plus a multiple of the alignment, " + std::to_string(alignment_));
  }
  PackedLayout padded = *this;
  if (added == 0) return padded;
  padded.cu_seqlens_padded_.back() = checked_rows(rows);
  padded.max_seqlen_ =
      std::max(max_seqlen_, narrow<std::int32_t>(padded.aligned_length(size() - 1), "max_seqlen"));
  return padded;
}

PackedLayout PackedLayout::with_shape(const PackedShape& shape) const {
  const PackedShape needed{local_rows(), size(), max_seqlen_, cp_.size};
  if (!shape.holds(needed, alignment_)) {
    throw InputError(
        "packed micro-batch",
        "has " + text_of(needed) + ", which cannot be padded to " + text_of(shape) +
            " with an alignment of " + std::to_string(alignment_),
        "Choose a shape for the same number of ranks that is at least as large in all respects, in "
        "which the rows of all ranks are a multiple of the alignment, and whose additional "
        "sequences can hold the added rows");
  }
  PackedLayout padded = *this;
  const std::int64_t longest = shape.max_seqlen / alignment_ * alignment_;
  for (std::int64_t missing = shape.rows * cp_.size - num_rows(); missing > 0; missing -= longest)
    padded.append(0, std::min(missing, longest));
  while (padded.size() < shape.sequences) padded.append(0, 0);
  padded.max_seqlen_ = narrow<std::int32_t>(shape.max_seqlen, "max_seqlen");
  return padded;
}

std::int32_t PackedLayout::max_length() const noexcept {
  std::int32_t longest = 0;
  for (std::size_t i = 1; i < cu_seqlens_.size(); ++i)
    longest = std::max(longest, cu_seqlens_[i] - cu_seqlens_[i - 1]);
  return longest;
}

std::int64_t PackedLayout::length(std::int64_t i) const noexcept {
  const auto at = static_cast<std::size_t>(i);
  return cu_seqlens_[at + 1] - cu_seqlens_[at];
}

std::int64_t PackedLayout::aligned_length(std::int64_t i) const noexcept {
  const auto at = static_cast<std::size_t>(i);
  return cu_seqlens_padded_[at + 1] - cu_seqlens_padded_[at];
}

RowRange PackedLayout::local_range(std::int64_t i) const noexcept {
  const auto at = static_cast<std::size_t>(i);
  return {cu_seqlens_padded_[at] / cp_.size, cu_seqlens_padded_[at + 1] / cp_.size};
}

std::vector<PackedRun> packed_runs(const PackedLayout& layout, CpRank rank) {
  std::vector<PackedRun> runs;
  runs.reserve(static_cast<std::size_t>(2 * layout.size()));
  walk_packed_rows(
      layout, rank, [&](const PackedRun& run) { runs.push_back(run); }, do_nothing);
  return runs;
}

}  // namespace evenkeel
