#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/arbitrary.hpp"
#include "pack/prefix/arbitrary_tree.hpp"

namespace evenkeel {
namespace {
namespace attention_masks {

using testing::ElementsAre;
using Rows = std::vector<std::int64_t>;

constexpr CpGroup alone{};

/// By definition, for each query and key: two comparisons with what ancestor_intervals() returns.
class Dense {
 public:
  Dense(const PackedTreeLayout& layout, CpRank rank, KeyOrder order) {
    const AncestorIntervals queries = ancestor_intervals(layout, rank);
    const AncestorIntervals keys = keys_in(layout, order);
    for (const std::int64_t query : queries.tin) {
      for (std::size_t k = 0; k < keys.tin.size(); ++k)
        sees_.push_back(keys.tin[k] <= query && query < keys.tout[k]);
    }
    keys_ = std::ssize(keys.tin);
    queries_ = std::ssize(queries.tin);
  }

  [[nodiscard]] std::int64_t queries() const { return queries_; }
  [[nodiscard]] std::int64_t keys() const { return keys_; }
  [[nodiscard]] bool sees(std::int64_t query, std::int64_t key) const {
    return sees_[static_cast<std::size_t>(query * keys_ + key)];
  }
  /// Returns the visible entries of a rectangle; those outside of the mask are not visible.
  [[nodiscard]] std::int64_t seen_in(RowRange queries, RowRange keys) const {
    std::int64_t seen = 0;
    for (std::int64_t q = queries.begin; q < std::min(queries.end, queries_); ++q) {
      for (std::int64_t k = keys.begin; k < std::min(keys.end, keys_); ++k) seen += sees(q, k) ? 1 : 0;
    }
    return seen;
  }

 private:
  static AncestorIntervals keys_in(const PackedTreeLayout& layout, KeyOrder order) {
    AncestorIntervals gathered;
    for (const CpRank rank : all_ranks(layout.segments().cp())) {
      const AncestorIntervals of_rank = ancestor_intervals(layout, rank);
      gathered.tin.insert(gathered.tin.end(), of_rank.tin.begin(), of_rank.tin.end());
      gathered.tout.insert(gathered.tout.end(), of_rank.tout.begin(), of_rank.tout.end());
    }
    if (order == KeyOrder::gathered) return gathered;
    AncestorIntervals packed = gathered;  // which their numbers say
    for (std::size_t i = 0; i < gathered.tin.size(); ++i) {
      packed.tin[static_cast<std::size_t>(gathered.tin[i])] = gathered.tin[i];
      packed.tout[static_cast<std::size_t>(gathered.tin[i])] = gathered.tout[i];
    }
    return packed;
  }

  std::vector<bool> sees_;
  std::int64_t queries_ = 0;
  std::int64_t keys_ = 0;
};

PackedTreeLayout arbitrary_layout() {
  const CpGroup cp = arbitrary_cp();
  const std::int64_t alignment = cp.chunks() * *rc::gen::element<std::int64_t>(1, 2, 5);
  PackedTreeLayout tree(tree_of(arbitrary_samples()), alignment, cp);
  return *rc::gen::arbitrary<bool>() ? tree
                                     : PackedTreeLayout(tree.segments());  // or the same without sharing
}

/// Calls check(dense, rank, order) for each rank and both orders of keys.
template <typename Check>
void on_every_rank(const PackedTreeLayout& layout, Check check) {
  for (const CpRank rank : all_ranks(layout.segments().cp())) {
    for (const KeyOrder order : {KeyOrder::packed, KeyOrder::gathered})
      check(Dense(layout, rank, order), rank, order);
  }
}

RC_GTEST_PROP(ColumnIntervals, are_the_queries_that_see_each_key, ()) {
  const PackedTreeLayout layout = arbitrary_layout();
  on_every_rank(layout, [&](const Dense& dense, CpRank rank, KeyOrder order) {
    const ColumnIntervals columns = column_intervals(layout, rank, order);
    RC_ASSERT(std::ssize(columns.begin) == dense.keys());
    for (std::int64_t k = 0; k < dense.keys(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      for (std::int64_t q = 0; q < dense.queries(); ++q)
        RC_ASSERT((columns.begin[at] <= q && q < columns.end[at]) == dense.sees(q, k));
      RC_ASSERT(columns.begin[at] < columns.end[at] || (columns.begin[at] == 0 && columns.end[at] == 0));
    }
  });
}

RC_GTEST_PROP(AdditiveMask, is_zero_where_a_query_sees_a_key_and_minus_infinity_elsewhere, ()) {
  const PackedTreeLayout layout = arbitrary_layout();
  on_every_rank(layout, [&](const Dense& dense, CpRank rank, KeyOrder order) {
    const std::vector<float> mask = additive_mask(layout, rank, order);
    RC_ASSERT(std::ssize(mask) == dense.queries() * dense.keys());
    for (std::int64_t q = 0; q < dense.queries(); ++q) {
      for (std::int64_t k = 0; k < dense.keys(); ++k)
        RC_ASSERT(mask[static_cast<std::size_t>(q * dense.keys() + k)] == (dense.sees(q, k) ? 0 : -INFINITY));
    }
  });
}

RC_GTEST_PROP(AttentionSlices, cover_every_entry_of_the_mask_once_and_no_other, ()) {
  const PackedTreeLayout layout = arbitrary_layout();
  on_every_rank(layout, [&](const Dense& dense, CpRank rank, KeyOrder order) {
    std::vector<int> times(static_cast<std::size_t>(dense.queries() * dense.keys()));
    for (const AttentionSlice& slice : attention_slices(layout, rank, order)) {
      RC_ASSERT(slice.queries.size() > 0 && slice.keys.size() > 0);
      for (std::int64_t q = slice.queries.begin; q < slice.queries.end; ++q) {
        const bool is_causal = slice.kind == AttentionSlice::Kind::causal;
        const std::int64_t end = slice.keys.end - (is_causal ? slice.queries.end - 1 - q : 0);
        RC_ASSERT(slice.keys.begin < end);
        for (std::int64_t k = slice.keys.begin; k < end; ++k)
          ++times[static_cast<std::size_t>(q * dense.keys() + k)];
      }
    }
    for (std::int64_t q = 0; q < dense.queries(); ++q) {
      for (std::int64_t k = 0; k < dense.keys(); ++k)
        RC_ASSERT(times[static_cast<std::size_t>(q * dense.keys() + k)] == (dense.sees(q, k) ? 1 : 0));
    }
  });
}

/// Row i of lists stored in a matrix that has `width` columns.
Rows listed(const std::vector<std::int32_t>& counts, const std::vector<std::int32_t>& indices, std::int64_t i,
            std::int64_t width) {
  const auto begin = indices.begin() + i * width;
  return {begin, begin + counts[static_cast<std::size_t>(i)]};
}

RC_GTEST_PROP(BlockMask, lists_full_and_partial_tiles_by_rows_and_columns, ()) {
  const PackedTreeLayout layout = arbitrary_layout();
  const TileSize tile{*rc::gen::inRange<std::int64_t>(1, 7), *rc::gen::inRange<std::int64_t>(1, 7)};
  on_every_rank(layout, [&](const Dense& dense, CpRank rank, KeyOrder order) {
    const BlockMask mask = block_mask(layout, rank, order, tile);
    const std::int64_t m = (dense.queries() + tile.queries - 1) / tile.queries;
    const std::int64_t n = (dense.keys() + tile.keys - 1) / tile.keys;
    RC_ASSERT(mask.query_tiles == m && mask.key_tiles == n);
    std::vector<Rows> kv(static_cast<std::size_t>(m)), full_kv(kv);
    std::vector<Rows> q(static_cast<std::size_t>(n)), full_q(q);
    std::int64_t computed = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t seen =
            dense.seen_in({i * tile.queries, (i + 1) * tile.queries}, {j * tile.keys, (j + 1) * tile.keys});
        if (seen == 0) continue;
        ++computed;
        const bool is_full = seen == tile.queries * tile.keys;
        (is_full ? full_kv : kv)[static_cast<std::size_t>(i)].push_back(j);
        (is_full ? full_q : q)[static_cast<std::size_t>(j)].push_back(i);
      }
    }
    RC_ASSERT(mask.num_computed_tiles() == computed);
    for (std::int64_t i = 0; i < m; ++i) {
      RC_ASSERT(listed(mask.kv_num_blocks, mask.kv_indices, i, n) == kv[static_cast<std::size_t>(i)]);
      RC_ASSERT(listed(mask.full_kv_num_blocks, mask.full_kv_indices, i, n) ==
                full_kv[static_cast<std::size_t>(i)]);
    }
    for (std::int64_t j = 0; j < n; ++j) {
      RC_ASSERT(listed(mask.q_num_blocks, mask.q_indices, j, m) == q[static_cast<std::size_t>(j)]);
      RC_ASSERT(listed(mask.full_q_num_blocks, mask.full_q_indices, j, m) ==
                full_q[static_cast<std::size_t>(j)]);
    }
  });
}

// 1 2 | 3 | 4 | 5 6 | 7
TEST(ColumnIntervals, match_flash_mask) {
  const PackedTreeLayout layout(tree_of(branching_samples()), 1, alone);
  const ColumnIntervals columns = column_intervals(layout, CpRank{0}, KeyOrder::packed);
  EXPECT_THAT(columns.begin, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(columns.end, ElementsAre(7, 7, 6, 4, 6, 6, 7));
}

TEST(AttentionSlices, are_few_if_much_is_shared) {
  const PackedTreeLayout layout(tree_of(branching_samples()), 1, alone);
  using enum AttentionSlice::Kind;
  EXPECT_THAT(attention_slices(layout, CpRank{0}, KeyOrder::packed),
              ElementsAre(AttentionSlice{{0, 2}, {0, 2}, causal}, AttentionSlice{{2, 7}, {0, 2}, full},
                          AttentionSlice{{2, 3}, {2, 3}, full}, AttentionSlice{{3, 6}, {2, 3}, full},
                          AttentionSlice{{3, 4}, {3, 4}, full}, AttentionSlice{{4, 6}, {4, 6}, causal},
                          AttentionSlice{{6, 7}, {6, 7}, full}));
}

TEST(BlockMask, of_one_long_sequence_is_the_lower_triangle) {
  const std::vector<std::int64_t> lengths{6};
  const PackedTreeLayout layout(PackedLayout(lengths, 1, alone));
  const BlockMask mask = block_mask(layout, CpRank{0}, KeyOrder::packed, {2, 2});
  EXPECT_THAT(mask.kv_num_blocks, ElementsAre(1, 1, 1));
  EXPECT_THAT(mask.kv_indices, ElementsAre(0, 0, 0, 1, 0, 0, 2, 0, 0));
  EXPECT_THAT(mask.full_kv_num_blocks, ElementsAre(0, 1, 2));
  EXPECT_THAT(mask.full_kv_indices, ElementsAre(0, 0, 0, 0, 0, 0, 0, 1, 0));
}

TEST(BlockMask, with_tiles_without_rows_is_refused) {
  const PackedTreeLayout layout(tree_of(branching_samples()), 1, alone);
  EXPECT_THROW((void)block_mask(layout, CpRank{0}, KeyOrder::packed, {0, 128}), InputError);
  EXPECT_THROW((void)block_mask(layout, CpRank{0}, KeyOrder::packed, {128, 0}), InputError);
}

}  // namespace attention_masks
}  // namespace
}  // namespace evenkeel
