#include <algorithm>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {
namespace {

/// Returns, for each segment, the number of rows of the longest path below it.
std::vector<std::int64_t> rows_of_longest_path_below(const PackedTreeLayout& layout) {
  std::vector<std::int64_t> below(static_cast<std::size_t>(layout.tree().size()), 0);
  for (std::int64_t s = layout.tree().size() - 1; s >= 0; --s) {
    const std::int64_t parent = layout.tree().segment(s).parent;
    if (parent < 0) continue;
    const std::int64_t height = below[static_cast<std::size_t>(s)] + layout.segments().local_range(s).size();
    std::int64_t& most = below[static_cast<std::size_t>(parent)];
    most = std::max(most, height);
  }
  return below;
}

/// Returns the largest multiple of the alignment that does not exceed `max_kept`, or the number of local rows
/// if `max_kept` is nullopt. Throws InputError if `max_kept` is below the alignment, or if it is set and
/// there are several CP ranks.
std::int64_t max_kept_rows(const PackedLayout& segments, std::optional<std::int64_t> max_kept) {
  if (!max_kept) return segments.local_rows();
  const std::string cap = "cap on kept rows";
  if (segments.cp().size != 1)
    throw InputError(cap, "requires segments on one context-parallel rank", "Leave the cap out, or use cp 1");
  if (*max_kept < segments.alignment())
    throw InputError(cap,
                     "is " + std::to_string(*max_kept) + ", below the alignment of " +
                         std::to_string(segments.alignment()),
                     "Raise the cap");
  return *max_kept / segments.alignment() * segments.alignment();
}

class DepthFirstWalk {
 public:
  [[nodiscard]] std::int64_t top() const noexcept { return open_.empty() ? -1 : open_.back(); }

  /// Opens a piece (see TreeStep) with these rows below the innermost open piece. If the piece is kept,
  /// visits it now. Otherwise, close_below() visits it after all pieces below it.
  void open(RowRange rows, bool is_kept) {
    const std::int64_t piece = std::ssize(schedule_.rows);
    schedule_.rows.push_back(rows);
    schedule_.parents.push_back(top());
    schedule_.keys_before.push_back(keys_);
    open_.push_back(piece);
    keys_ += rows.size();
    schedule_.peak_keys = std::max(schedule_.peak_keys, keys_);
    is_kept_.push_back(is_kept);
    if (is_kept) {
      visit(piece);
    } else {
      schedule_.steps.push_back({TreeStep::Kind::push, piece});
      schedule_.recomputed += rows.size();
    }
  }

  /// Closes all open pieces below `piece`, innermost first. Closes all pieces if `piece` is -1.
  void close_below(std::int64_t piece) {
    while (top() != piece) {
      const std::int64_t closing = top();
      if (!is_kept_[static_cast<std::size_t>(closing)]) visit(closing);
      schedule_.steps.push_back({TreeStep::Kind::pop, closing});
      kept_ -= rows_of(closing);
      keys_ -= rows_of(closing);
      open_.pop_back();
    }
  }

  [[nodiscard]] DepthFirstSchedule finish() && {
    close_below(-1);
    return std::move(schedule_);
  }

 private:
  [[nodiscard]] std::int64_t rows_of(std::int64_t piece) const noexcept {
    return schedule_.rows[static_cast<std::size_t>(piece)].size();
  }

  void visit(std::int64_t piece) {
    schedule_.steps.push_back({TreeStep::Kind::visit, piece});
    kept_ += rows_of(piece);
    schedule_.peak_kept = std::max(schedule_.peak_kept, kept_);
  }

  DepthFirstSchedule schedule_;
  std::vector<bool> is_kept_;       // by piece: whether its data is kept while pieces below it are computed
  std::vector<std::int64_t> open_;  // path of open pieces, outermost first
  std::int64_t keys_ = 0;
  std::int64_t kept_ = 0;
};

}  // namespace

// With a cap of K rows (`max_kept`), the data of a row is kept for the backward pass if the longest path from
// it to a leaf, including the row itself, has at most K rows. No other choice keeps more rows:
// 1. Cut the tree into chains, each going down from its first row to the deepest leaf below. The heights
//    along a chain of n rows are n to 1, so min(n, K) of its rows are kept.
// 2. The data of any row that is not recomputed is kept until all rows below it are done. When the leaf of a
//    chain is computed, all such rows of the chain are in memory at once, so there are at most K of them.
// All rows above a recomputed row are also recomputed. While a piece is recomputed, no other rows are kept,
// so the piece may have up to K rows.
DepthFirstSchedule depth_first_schedule(const PackedTreeLayout& layout,
                                        std::optional<std::int64_t> max_kept) {
  const std::int64_t most = max_kept_rows(layout.segments(), max_kept);
  const std::vector<std::int64_t> below = rows_of_longest_path_below(layout);
  std::vector<std::int64_t> last_piece;  // last piece on the path to the end of each segment
  DepthFirstWalk walk;
  for (std::int64_t s = 0; s < layout.tree().size(); ++s) {
    const std::int64_t parent = layout.tree().segment(s).parent;
    walk.close_below(parent < 0 ? -1 : last_piece[static_cast<std::size_t>(parent)]);
    const RowRange rows = layout.segments().local_range(s);
    const std::int64_t room = most - below[static_cast<std::size_t>(s)];
    const std::int64_t kept_from = rows.end - std::clamp<std::int64_t>(room, 0, rows.size());
    for (std::int64_t row = rows.begin; row < kept_from; row += most)
      walk.open({row, std::min(row + most, kept_from)}, false);
    if (kept_from < rows.end) walk.open({kept_from, rows.end}, true);
    last_piece.push_back(walk.top());
  }
  return std::move(walk).finish();
}

}  // namespace evenkeel
