#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t num_tiles(std::int64_t rows, std::int64_t size) {
  return (rows + size - 1) / size;
}

/// Lists of tiles, one list per row of tiles.
class TileLists {
 public:
  TileLists(std::vector<std::int32_t>& counts, std::vector<std::int32_t>& indices, std::int64_t rows,
            std::int64_t columns)
      : counts_(counts), indices_(indices), columns_(static_cast<std::size_t>(columns)) {
    counts_.assign(static_cast<std::size_t>(rows), 0);
    indices_.assign(static_cast<std::size_t>(rows) * columns_, 0);
  }

  void add(std::int64_t row, std::int64_t column) {
    const auto at = static_cast<std::size_t>(row);
    indices_[at * columns_ + static_cast<std::size_t>(counts_[at]++)] = static_cast<std::int32_t>(column);
  }

 private:
  std::vector<std::int32_t>& counts_;
  std::vector<std::int32_t>& indices_;
  std::size_t columns_;
};

/// One column of tiles of the attention mask. For each tile of queries, counts the keys of the column that
/// the queries see.
class TileColumn {
 public:
  TileColumn(std::int64_t query_tiles, std::int64_t tile_queries)
      : changes_(static_cast<std::size_t>(query_tiles) + 1), tile_queries_(tile_queries) {}

  /// Adds a key that is seen by these queries.
  void add(RowRange queries) {
    last_begin_ = std::max(last_begin_, queries.begin);
    first_end_ = std::min(first_end_, queries.end);
    if (queries.size() == 0) return;
    const RowRange in{queries.begin / tile_queries_, (queries.end - 1) / tile_queries_ + 1};
    ++changes_[static_cast<std::size_t>(in.begin)];
    --changes_[static_cast<std::size_t>(in.end)];
    seen_ = {std::min(seen_.begin, in.begin), std::max(seen_.end, in.end)};
  }
  /// Returns the range of query tiles in which every query sees every key.
  [[nodiscard]] RowRange full_tiles() const {
    return {num_tiles(last_begin_, tile_queries_), first_end_ / tile_queries_};
  }
  /// Calls visit(tile), in ascending order, for each query tile in which a query sees a key. Then empties the
  /// column.
  template <typename Visit>
  void drain_seen_tiles(Visit visit) {
    std::int64_t keys = 0;
    for (std::int64_t tile = seen_.begin; tile < seen_.end; ++tile) {
      keys += std::exchange(changes_[static_cast<std::size_t>(tile)], 0);
      if (keys > 0) visit(tile);
    }
    if (seen_.end > 0) changes_[static_cast<std::size_t>(seen_.end)] = 0;
    seen_ = nothing;
    last_begin_ = 0;
    first_end_ = nothing.begin;
  }

 private:
  static constexpr RowRange nothing{std::numeric_limits<std::int64_t>::max(), 0};

  // By query tile: number of keys that the tile sees, minus the number that the tile before it sees.
  std::vector<std::int32_t> changes_;
  std::int64_t tile_queries_;
  // Smallest range that contains all query tiles that see a key. Can also contain tiles that do not see a
  // key.
  RowRange seen_ = nothing;
  std::int64_t last_begin_ = 0;
  std::int64_t first_end_ = nothing.begin;
};

void require_valid_tile_size(TileSize tile) {
  if (tile.queries >= 1 && tile.keys >= 1) return;
  throw InputError("block mask tile",
                   "is " + format_plain_count(tile.queries, "query", "queries") + " by " +
                       format_plain_count(tile.keys, "key") + "; it must be at least 1 by 1",
                   "Use 128 by 128, as FlexAttention does");
}

}  // namespace

std::int64_t BlockMask::num_computed_tiles() const noexcept {
  return std::accumulate(kv_num_blocks.begin(), kv_num_blocks.end(), std::int64_t{0}) +
         std::accumulate(full_kv_num_blocks.begin(), full_kv_num_blocks.end(), std::int64_t{0});
}

BlockMask block_mask(const PackedTreeLayout& layout, CpRank rank, KeyOrder keys, TileSize tile,
                     BlockMask reuse) {
  require_valid_tile_size(tile);
  const ColumnIntervals columns = column_intervals(layout, rank, keys);
  const std::int64_t num_keys = std::ssize(columns.begin);
  BlockMask mask = std::move(reuse);
  const std::int64_t m = mask.query_tiles = num_tiles(layout.segments().local_rows(), tile.queries);
  const std::int64_t n = mask.key_tiles = num_tiles(num_keys, tile.keys);
  TileLists kv(mask.kv_num_blocks, mask.kv_indices, m, n);
  TileLists full_kv(mask.full_kv_num_blocks, mask.full_kv_indices, m, n);
  TileLists q(mask.q_num_blocks, mask.q_indices, n, m);
  TileLists full_q(mask.full_q_num_blocks, mask.full_q_indices, n, m);
  TileColumn column(m, tile.queries);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t end = std::min((j + 1) * tile.keys, num_keys);
    for (std::int64_t key = j * tile.keys; key < end; ++key) {
      const auto at = static_cast<std::size_t>(key);
      column.add({columns.begin[at], columns.end[at]});
    }
    const bool is_whole = end == (j + 1) * tile.keys;
    const RowRange full = is_whole ? column.full_tiles() : RowRange{};
    column.drain_seen_tiles([&](std::int64_t i) {
      const bool is_full = full.begin <= i && i < full.end;
      (is_full ? full_kv : kv).add(i, j);
      (is_full ? full_q : q).add(j, i);
    });
  }
  return mask;
}

}  // namespace evenkeel
