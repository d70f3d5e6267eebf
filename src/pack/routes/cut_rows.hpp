#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "evenkeel/pack/row_routes.hpp"

namespace evenkeel {

/// Rows that are adjacent both in their sequence and on the member (rank) of the CP x TP group that holds
/// them.
struct PlacedRun {
  std::int64_t sequence = 0;
  RowRange rows;           ///< relative to the sequence; never empty
  int member = 0;          ///< number of the member; see RowMember::number()
  std::int64_t local = 0;  ///< local row of `rows.begin` on the member
};

/// All rows of a micro-batch, cut over a CP x TP group. The runs are in the order of the micro-batch, and the
/// runs of each member are also in the order of its local rows.
class CutRows {
 public:
  /// `of` is any member of the group. Throws InputError if `of` is not in the group, if tp does not divide
  /// layout.local_rows(), or if a sequence cannot be cut into equal chunks.
  CutRows(const PackedLayout& layout, RowCut cut, RowMember of);

  [[nodiscard]] const std::vector<PlacedRun>& runs() const noexcept { return runs_; }
  /// Returns the range of indexes in runs() that belong to a sequence.
  [[nodiscard]] RowRange runs_of(std::int64_t sequence) const noexcept {
    const auto s = static_cast<std::size_t>(sequence);
    return {first_run_[s], first_run_[s + 1]};
  }
  /// Returns the index of the run that contains this row of a sequence. Precondition: the row exists.
  [[nodiscard]] std::int64_t find_run_index(std::int64_t sequence, std::int64_t row) const noexcept;
  [[nodiscard]] int num_members() const noexcept { return members_; }

 private:
  void cut_sequences(const PackedLayout& layout, CpLayout cut, int tp);
  void cut_flat(const PackedLayout& layout);
  void add(const PlacedRun& run, std::int64_t window);

  int members_ = 1;
  std::vector<PlacedRun> runs_;
  // Index in `runs_` of each sequence's first run, followed by the number of runs.
  std::vector<std::int64_t> first_run_{0};
};

/// One side of a RowRoute: the rows of this member that go to, or come from, each other member.
class RouteSide {
 public:
  explicit RouteSide(int members) : counts_(static_cast<std::size_t>(members)) {}

  /// Adds `count` rows starting at `row`, which go to or come from `member`.
  void add(int member, std::int64_t row, std::int64_t count) {
    pieces_.push_back({member, row, count});
    counts_[static_cast<std::size_t>(member)] += count;
  }

  /// Fills `rows` with all added rows, in the order of members, and `counts` with the number of rows per
  /// member. The rows of a member are in the order in which they were added.
  template <typename Integer>
  void write_rows_and_counts(std::vector<Integer>& rows, std::vector<Integer>& counts) const {
    counts.assign(counts_.begin(), counts_.end());
    std::vector<std::int64_t> next(counts_.size());
    std::exclusive_scan(counts_.begin(), counts_.end(), next.begin(), std::int64_t{0});
    rows.resize(static_cast<std::size_t>(std::reduce(counts_.begin(), counts_.end())));
    for (const Piece& piece : pieces_) {
      std::int64_t& at = next[static_cast<std::size_t>(piece.member)];
      std::iota(rows.begin() + at, rows.begin() + at + piece.count, static_cast<Integer>(piece.row));
      at += piece.count;
    }
  }

 private:
  struct Piece {
    int member;
    std::int64_t row;
    std::int64_t count;
  };

  std::vector<Piece> pieces_;
  std::vector<std::int64_t> counts_;  // by member: number of rows in `pieces_`
};

}  // namespace evenkeel
