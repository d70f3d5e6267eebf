#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace evenkeel {

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
