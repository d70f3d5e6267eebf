#include "evenkeel/torch/packed_attention.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <torch/csrc/autograd/custom_function.h>

#include <random>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "evenkeel/pack/prefix/predictions.hpp"
#include "torch/plain_attention.hpp"

namespace evenkeel {
namespace {

using testing_support::close;
using testing_support::gradient_of;
using testing_support::plain_attention;
using testing_support::RaggedTensors;
using testing_support::repeated_attention;

int ranks() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
CpRank this_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return CpRank{rank};
}

MPI_Datatype datatype_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? MPI_DOUBLE : MPI_FLOAT;
}

/// Returns a tensor with this many rows that otherwise has the same shape and type as x.
at::Tensor empty_rows(const at::Tensor& x, std::int64_t rows) {
  std::vector<std::int64_t> shape{rows};
  for (const std::int64_t size : x.sizes().slice(1)) shape.push_back(size);
  return at::empty(shape, x.options().requires_grad(false));
}

/// All ranks' rows, one rank after the other. The gradient of a rank's rows is the sum over all ranks'.
struct AllGatherRows : torch::autograd::Function<AllGatherRows> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    at::Tensor gathered = empty_rows(x, x.size(0) * ranks());
    const at::Tensor own = x.contiguous();
    const auto count = static_cast<int>(own.numel());
    MPI_Allgather(own.data_ptr(), count, datatype_of(x), gathered.data_ptr(), count, datatype_of(x),
                  MPI_COMM_WORLD);
    return gathered;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor all = gradients.front().contiguous();
    at::Tensor own = empty_rows(all, all.size(0) / ranks());
    MPI_Reduce_scatter_block(all.data_ptr(), own.data_ptr(), static_cast<int>(own.numel()), datatype_of(all),
                             MPI_SUM, MPI_COMM_WORLD);
    return {own};
  }
};

/// Computes attention like a varlen kernel, as slowly and simply as possible.
at::Tensor plain_varlen(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& cu_seqlens_q, const at::Tensor& cu_seqlens_k,
                        std::int64_t max_seqlen_q, std::int64_t max_seqlen_k, double scale) {
  at::Tensor out = at::zeros_like(q);
  for (std::int64_t e = 0; e + 1 < cu_seqlens_q.size(0); ++e) {
    const auto entry = [e](const at::Tensor& x, const at::Tensor& cu_seqlens, std::int64_t longest) {
      const auto begin = cu_seqlens[e].item<std::int64_t>();
      const auto end = cu_seqlens[e + 1].item<std::int64_t>();
      EXPECT_LE(end - begin, longest);
      return x.slice(0, begin, end).transpose(0, 1).unsqueeze(0);
    };
    const at::Tensor queries = entry(q, cu_seqlens_q, max_seqlen_q);
    const at::Tensor keys = entry(k, cu_seqlens_k, max_seqlen_k);
    const at::Tensor own = plain_attention(queries, keys, entry(v, cu_seqlens_k, max_seqlen_k),
                                           at::ones({1, keys.size(2)}, at::kBool), scale)[0];
    const auto first = cu_seqlens_q[e].item<std::int64_t>();
    out = out.index_copy(0, at::arange(first, first + own.size(0), at::kLong), own);
  }
  return out;
}

/// The positions of one rank's true rows: local row, and row of the tree.
struct LocalRows {
  at::Tensor local, tree;

  LocalRows(const PackedLayout& layout, CpRank rank) {
    std::vector<std::int64_t> local_rows;
    std::vector<std::int64_t> tree_rows;
    for (const PackedRun& run : packed_runs(layout, rank)) {
      const std::int64_t first = layout.cu_seqlens()[static_cast<std::size_t>(run.index)];
      for (std::int64_t i = 0; i < run.sequence.size(); ++i) {
        local_rows.push_back(run.local + i);
        tree_rows.push_back(first + run.sequence.begin + i);
      }
    }
    local = to_tensor(local_rows);
    tree = to_tensor(tree_rows);
  }
};

using Samples = std::vector<std::vector<std::int64_t>>;

/// Returns samples that branch at random depths; the same on every rank.
Samples random_samples(std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  const auto up_to = [&](std::uint64_t most) { return generator() % (most + 1); };
  Samples samples(2 + up_to(4));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (i > 0) samples[i] = samples[up_to(i - 1)];
    samples[i].resize(up_to(samples[i].size()));
    for (auto tail = 1 + up_to(8); tail > 0; --tail) {
      samples[i].push_back(static_cast<std::int64_t>(up_to(2)));
    }
  }
  return samples;
}

Samples rows_of(const PrefixTree& tree) {
  Samples rows;
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) rows.push_back(tree.rows_of(i));
  return rows;
}

/// Returns a rank's rows as a leaf of the graph. Pad rows contain numbers that would be noticed in results.
at::Tensor local_leaf(const at::Tensor& ragged, const LocalRows& rows, std::int64_t local_rows) {
  return empty_rows(ragged, local_rows)
      .fill_(50)
      .index_copy(0, rows.local, ragged.detach().index_select(0, rows.tree))
      .requires_grad_();
}

/// Attention over this rank's rows, with keys and values gathered from all ranks, compared with attention
/// without sharing. The other ranks check their own rows.
template <typename Layout>
void expect_equal_to_repeated(const Layout& layout, const Samples& samples, at::ScalarType dtype) {
  const PackedLayout& segments = layout.segments();
  const RaggedTensors whole(segments.num_tokens(), 4, 2, 3, dtype);
  const at::Tensor expected = repeated_attention(whole, samples, 0.6);
  (expected * whole.weights).sum().backward();

  const LocalRows rows(segments, this_rank());
  const at::Tensor q = local_leaf(whole.q, rows, segments.local_rows());
  const at::Tensor k = local_leaf(whole.k, rows, segments.local_rows());
  const at::Tensor v = local_leaf(whole.v, rows, segments.local_rows());
  const auto of_all_ranks = [&](const at::Tensor& x) {
    return merge_cp_rows(segments, AllGatherRows::apply(x));
  };
  const PackedAttention attention(plan_prefix_attention(layout, this_rank()));
  const at::Tensor out =
      attention.forward(plain_varlen, q, of_all_ranks(k), of_all_ranks(v), 0.6).index_select(0, rows.local);
  (out * whole.weights.index_select(0, rows.tree)).sum().backward();

  const auto own = [&](const at::Tensor& x) { return x.index_select(0, rows.tree); };
  const auto of_tokens = [&](const at::Tensor& x) { return gradient_of(x).index_select(0, rows.local); };
  EXPECT_TRUE(close(out, own(expected)));
  EXPECT_TRUE(close(of_tokens(q), own(gradient_of(whole.q))));
  EXPECT_TRUE(close(of_tokens(k), own(gradient_of(whole.k))));
  EXPECT_TRUE(close(of_tokens(v), own(gradient_of(whole.v))));
}

class PackedAttentionOfDtype : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(7);  // the same numbers on every rank
  }
  [[nodiscard]] static CpGroup cp(CpLayout layout) { return {ranks(), layout}; }
};

TEST_P(PackedAttentionOfDtype, over_prefix_groups_equals_that_of_repeated_prefixes) {
  const std::vector<std::vector<std::int64_t>> info{{5, 3, 1, 8}, {0, 2, 4}, {7, 0, 6}};
  const PrefixGroups groups(info);
  for (const CpLayout cut : {CpLayout::zigzag, CpLayout::contiguous}) {
    const PackedPrefixLayout layout(groups, std::vector<SampleId>(7), 2 * cp(cut).chunks(), cp(cut));
    expect_equal_to_repeated(layout, rows_of(PrefixTree::from_groups(groups)), GetParam());
  }
}

TEST_P(PackedAttentionOfDtype, over_trees_equals_that_of_repeated_samples) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Samples samples = random_samples(seed);
    const PrefixTree tree =
        PrefixTree::from_tokens(std::vector<std::span<const std::int64_t>>(samples.begin(), samples.end()));
    const CpGroup group = cp(seed % 2 == 0 ? CpLayout::zigzag : CpLayout::contiguous);
    expect_equal_to_repeated(PackedTreeLayout(tree, group.chunks(), group), rows_of(tree), GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, PackedAttentionOfDtype, testing::Values(at::kFloat, at::kDouble),
                         [](const auto& dtype) { return std::string(at::toString(dtype.param)); });

TEST(MergeCpRows, needs_the_rows_of_all_ranks) {
  const PackedLayout layout(std::vector<std::int64_t>{4}, 4, {2, CpLayout::zigzag});
  EXPECT_TRUE(merge_cp_rows(layout, to_tensor(std::vector<std::int64_t>{0, 3, 1, 2}))
                  .equal(to_tensor(std::vector<std::int64_t>{0, 1, 2, 3})));
  EXPECT_THROW((void)merge_cp_rows(layout, at::zeros({2})), InputError);
}

}  // namespace
}  // namespace evenkeel
