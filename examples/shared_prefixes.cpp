// Three samples that share prefixes, laid out as a tree: prints what a trainer gets. Does not need MPI.
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "evenkeel/planner.hpp"

namespace {

using evenkeel::AncestorIntervals;
using evenkeel::CpRank;
using Tokens = std::vector<std::int64_t>;

void print(const char* name, std::span<const std::int64_t> numbers) {
  std::printf("  %-12s", name);
  for (const std::int64_t number : numbers) std::printf(" %2lld", static_cast<long long>(number));
  std::printf("\n");
}

void print_mask(const AncestorIntervals& rows) {
  for (std::size_t q = 0; q < rows.tin.size(); ++q) {
    std::printf("  row %zu sees   ", q);
    for (std::size_t k = 0; k < rows.tin.size(); ++k) {
      const bool sees = rows.tin[k] <= rows.tin[q] && rows.tin[q] < rows.tout[k];
      std::printf(" %c", sees ? 'x' : '.');
    }
    std::printf("\n");
  }
}

/// Prints the mask above in the forms that kernels take.
void print_kernel_masks(const evenkeel::PackedTreeLayout& layout) {
  using Kind = evenkeel::AttentionSlice::Kind;
  constexpr auto order = evenkeel::KeyOrder::packed;
  const evenkeel::ColumnIntervals columns = evenkeel::column_intervals(layout, CpRank{0}, order);
  std::printf("for every key, the queries that see it\n");
  print("begin", Tokens(columns.begin.begin(), columns.begin.end()));
  print("end", Tokens(columns.end.begin(), columns.end.end()));
  std::printf("slices\n");
  for (const evenkeel::AttentionSlice& slice : evenkeel::attention_slices(layout, CpRank{0}, order)) {
    std::printf("  queries %lld to %lld, keys %lld to %lld, %s\n",
                static_cast<long long>(slice.queries.begin), static_cast<long long>(slice.queries.end),
                static_cast<long long>(slice.keys.begin), static_cast<long long>(slice.keys.end),
                slice.kind == Kind::full ? "full" : "causal");
  }
  const evenkeel::BlockMask tiles = evenkeel::block_mask(layout, CpRank{0}, order, {2, 2});
  std::printf("tiles of 2 by 2: %lld of %lld are computed\n",
              static_cast<long long>(tiles.num_computed_tiles()),
              static_cast<long long>(tiles.query_tiles * tiles.key_tiles));
  print("partial", Tokens(tiles.kv_num_blocks.begin(), tiles.kv_num_blocks.end()));
  print("full", Tokens(tiles.full_kv_num_blocks.begin(), tiles.full_kv_num_blocks.end()));
}

}  // namespace

int main() {
  const std::vector<Tokens> samples{{1, 2, 3, 4}, {1, 2, 3, 5, 6}, {1, 2, 7}};
  const std::vector<std::span<const std::int64_t>> spans(samples.begin(), samples.end());
  const evenkeel::PrefixTree tree = evenkeel::PrefixTree::from_tokens(spans);

  Tokens tokens;
  for (const evenkeel::TreeSegment& segment : tree.segments()) {
    const auto from = samples[static_cast<std::size_t>(segment.first_sample)].begin();
    tokens.insert(tokens.end(), from + segment.source().begin, from + segment.source().end);
  }
  const AncestorIntervals intervals = evenkeel::ancestor_intervals(tree);
  std::printf("tree\n");
  print("token", tokens);
  print("position", evenkeel::position_ids(tree));
  print("tin", intervals.tin);
  print("tout", intervals.tout);
  print_mask(intervals);

  const evenkeel::SharingSavings savings = evenkeel::sharing_savings(tree);
  std::printf("tokens %lld of %lld, score entries %lld of %lld\n", static_cast<long long>(savings.tokens),
              static_cast<long long>(savings.repeated_tokens), static_cast<long long>(savings.score_entries),
              static_cast<long long>(savings.repeated_score_entries));

  const evenkeel::PackedTreeLayout layout(tree, 4, {2, evenkeel::CpLayout::zigzag});
  const Tokens prompts{2, 2, 2};
  const evenkeel::PredictionMap predicted = evenkeel::predictions(layout, prompts);
  for (int rank = 0; rank < layout.segments().cp().size; ++rank) {
    Tokens positions(static_cast<std::size_t>(layout.segments().local_rows()));
    evenkeel::derive_position_ids(layout, CpRank{rank}, positions);
    const evenkeel::LocalPredictions local = evenkeel::predictions_on(predicted, CpRank{rank});
    std::printf("cp rank %d\n", rank);
    print("position", positions);
    print("gather rows", local.rows);
    print("for entries", local.entries);
  }
  print_kernel_masks(evenkeel::PackedTreeLayout(tree, 1, {}));
}
