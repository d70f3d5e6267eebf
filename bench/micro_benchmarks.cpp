#include <benchmark/benchmark.h>

#include "balance/bins/capped_partition.hpp"
#include "balance/partition/automatic.hpp"
#include "balance/partition/lpt.hpp"
#include "bench/plan/lengths.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"

// The individual primitives, to see what a change to them costs or gains. The published figures come from
// `evenkeel-bench`.

namespace evenkeel::bench {
namespace {

using benchmark::State;

constexpr std::uint64_t seed = 7;

/// Partitions range(0) synthetic lengths into range(1) groups.
template <typename Algorithm>
void partition_lengths(State& state, Algorithm algorithm) {
  const std::vector<Cost> costs = made_up_lengths(static_cast<std::size_t>(state.range(0)), seed);
  for (auto _ : state) benchmark::DoNotOptimize(algorithm(costs, state.range(1)));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void karmarkar_karp_free(State& state) {
  partition_lengths(state, [](const auto& costs, std::int64_t k) { return karmarkar_karp(costs, k); });
}
void karmarkar_karp_equal(State& state) {
  partition_lengths(
      state, [](const auto& costs, std::int64_t k) { return karmarkar_karp(costs, k, GroupSize::equal); });
}
void longest_first(State& state) {
  partition_lengths(state,
                    [](const auto& costs, std::int64_t k) { return longest_processing_time(costs, k); });
}
void automatic_equal(State& state) {
  partition_lengths(
      state, [](const auto& costs, std::int64_t k) { return balance_items(costs, k, GroupSize::equal); });
}
BENCHMARK(karmarkar_karp_free)->Args({512, 8})->Args({8192, 256});
BENCHMARK(karmarkar_karp_equal)->Args({512, 8})->Args({8192, 256});
BENCHMARK(longest_first)->Args({512, 8})->Args({8192, 256});
BENCHMARK(automatic_equal)->Args({512, 8})->Args({8192, 256});

void pack_under_cap(State& state) {
  const BinLimits limits{32768};
  const std::vector<std::int64_t> tokens = made_up_lengths(static_cast<std::size_t>(state.range(0)), seed);
  for (auto _ : state) {
    const GroupCount count = count_groups(tokens, tokens, limits);
    benchmark::DoNotOptimize(partition_under_limits(tokens, tokens, limits, count.needed));
  }
}
BENCHMARK(pack_under_cap)->Arg(64)->Arg(256)->Arg(4096);

/// One micro-batch of about 8192 tokens, cut over two ranks, with rows of range(0) bytes.
class MadeUpMicroBatch {
 public:
  explicit MadeUpMicroBatch(const State& state)
      : row_bytes_(static_cast<std::size_t>(state.range(0))),
        ragged_(static_cast<std::size_t>(layout.num_tokens()) * row_bytes_),
        local_(static_cast<std::size_t>(layout.local_rows()) * row_bytes_) {}

  void pack() { pack_rows(layout, CpRank{0}, ragged_, {}, local_); }
  void unpack() { unpack_rows(layout, CpRank{0}, local_, ragged_); }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(local_.size()); }

  const PackedLayout layout{made_up_lengths(5, seed, {7.4, 0.3, 64, 8192}), 4, CpGroup{2}};

 private:
  std::size_t row_bytes_;
  std::vector<std::byte> ragged_;
  std::vector<std::byte> local_;
};

void pack_micro_batch(State& state) {
  MadeUpMicroBatch batch(state);
  for (auto _ : state) batch.pack();
  state.SetBytesProcessed(state.iterations() * batch.bytes());
}
void unpack_micro_batch(State& state) {
  MadeUpMicroBatch batch(state);
  for (auto _ : state) batch.unpack();
  state.SetBytesProcessed(state.iterations() * batch.bytes());
}
BENCHMARK(pack_micro_batch)->Arg(2)->Arg(8)->Arg(8192);
BENCHMARK(unpack_micro_batch)->Arg(2)->Arg(8)->Arg(8192);

void label_micro_batch(State& state) {
  const MadeUpMicroBatch batch(state);
  const auto rows = static_cast<std::size_t>(batch.layout.local_rows());
  const std::vector<std::int64_t> tokens(rows, 1);
  const std::vector<std::int64_t> halo(packed_runs(batch.layout, CpRank{0}).size(), 1);
  std::vector<std::int64_t> labels(rows);
  for (auto _ : state) derive_labels(batch.layout, CpRank{0}, tokens, halo, -100, labels);
  state.SetBytesProcessed(state.iterations() * batch.bytes());
}
BENCHMARK(label_micro_batch)->Arg(8);

/// A tree of 64 Ki rows: a prompt, eight agents, and seven turns of each, which other leaves continue.
PackedTreeLayout branching_rollouts(int cp) {
  std::vector<TreeNode> segments{{-1, 8192}};
  std::vector<std::int64_t> ends;
  for (int agent = 0; agent < 8; ++agent) {
    const std::int64_t first_turn = std::ssize(segments);
    segments.push_back({0, 1024});
    for (int leaf = 0; leaf < 6; ++leaf) {
      segments.push_back({first_turn, 1024});
      ends.push_back(std::ssize(segments) - 1);
    }
  }
  const CpGroup group{cp, CpLayout::zigzag};
  return {PrefixTree(segments, std::move(ends)), 16, group};
}

template <typename Make>
void mask_tree(State& state, Make make) {
  const PackedTreeLayout layout = branching_rollouts(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(make(layout));
}
void block_mask_of_tree(State& state) {
  mask_tree(state,
            [](const PackedTreeLayout& layout) { return block_mask(layout, CpRank{0}, KeyOrder::packed); });
}
void block_mask_of_tree_in_the_memory_of_the_last(State& state) {
  BlockMask last;
  mask_tree(state, [&](const PackedTreeLayout& layout) {
    last = block_mask(layout, CpRank{0}, KeyOrder::packed, {}, std::move(last));
    return last.query_tiles;
  });
}
void column_intervals_of_tree(State& state) {
  mask_tree(state, [](const PackedTreeLayout& layout) {
    return column_intervals(layout, CpRank{0}, KeyOrder::packed);
  });
}
void attention_slices_of_tree(State& state) {
  mask_tree(state, [](const PackedTreeLayout& layout) {
    return attention_slices(layout, CpRank{0}, KeyOrder::packed);
  });
}
BENCHMARK(block_mask_of_tree)->Arg(1)->Arg(8);
BENCHMARK(block_mask_of_tree_in_the_memory_of_the_last)->Arg(1)->Arg(8);
BENCHMARK(column_intervals_of_tree)->Arg(1)->Arg(8);
BENCHMARK(attention_slices_of_tree)->Arg(1)->Arg(8);

}  // namespace
}  // namespace evenkeel::bench
