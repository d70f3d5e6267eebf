#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "evenkeel/pack/row_routes.hpp"

namespace evenkeel {

/// Rows of one sequence that follow each other in it and on the member that has them.
struct PlacedRun {
  std::int64_t sequence = 0;
  RowRange rows;           ///< of the sequence; never empty
  int member = 0;          ///< RowMember::number()
  std::int64_t local = 0;  ///< the first one's row on the member
};

/// All rows of a micro-batch, cut over a group: runs in the order of the micro-batch, which is also the order
/// of each member's own rows.
class CutRows {
 public:
  /// `of` is any member of the group. Throws as row_route does.
  CutRows(const PackedLayout& layout, RowCut cut, RowMember of);

  [[nodiscard]] const std::vector<PlacedRun>& runs() const noexcept { return runs_; }
  /// The numbers of a sequence's runs.
  [[nodiscard]] RowRange runs_of(std::int64_t sequence) const noexcept {
    const auto s = static_cast<std::size_t>(sequence);
    return {first_run_[s], first_run_[s + 1]};
  }
  /// The number of the run that has this row of a sequence. Precondition: the row exists.
  [[nodiscard]] std::int64_t run_with(std::int64_t sequence, std::int64_t row) const noexcept;
  [[nodiscard]] int members() const noexcept { return members_; }

 private:
  void cut_sequences(const PackedLayout& layout, CpLayout cut, int tp);
  void cut_flat(const PackedLayout& layout);
  void add(const PlacedRun& run, std::int64_t window);

  int members_ = 1;
  std::vector<PlacedRun> runs_;
  std::vector<std::int64_t> first_run_{0};  // sequences + 1
};

/// One side of a RowRoute: which rows of this member go to, or come from, which others.
class RouteSide {
 public:
  explicit RouteSide(int members) : counts_(static_cast<std::size_t>(members)) {}

  /// The next rows for a member, from this one on.
  void add(int member, std::int64_t row, std::int64_t count) {
    pieces_.push_back({member, row, count});
    counts_[static_cast<std::size_t>(member)] += count;
  }

  /// The rows, those of member 0 first, and how many each member has. Of one member's rows the order stays.
  template <typename Integer>
  void list(std::vector<Integer>& rows, std::vector<Integer>& counts) const {
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
  std::vector<std::int64_t> counts_;  // by member
};

}  // namespace evenkeel
