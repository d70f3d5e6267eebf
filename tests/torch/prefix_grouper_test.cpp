#include "evenkeel/torch/prefix_grouper.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "evenkeel/base/error.hpp"
#include "evenkeel/torch/packed_attention.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/prefix/arbitrary_tree.hpp"
#include "torch/plain_attention.hpp"

namespace evenkeel {
namespace {

using testing_support::close;
using testing_support::gradient_of;
using testing_support::plain_attention;
using testing_support::RaggedTensors;
using testing_support::repeated_attention;

const GroupInfo two{{3, 2, 1}, {2, 4}};

at::Tensor ids(std::initializer_list<std::int64_t> numbers, at::IntArrayRef shape) {
  return at::tensor(at::ArrayRef<std::int64_t>(numbers), at::kLong).view(shape);
}

/// Ragged rows [tokens, ...] at their positions in a grouped tensor [b, s, ...], by plain indexing.
at::Tensor grouped_of(const PrefixLayout& layout, const at::Tensor& ragged) {
  std::vector<std::int64_t> row;
  std::vector<std::int64_t> column;
  for (const TokenPosition place : layout.grouped().positions()) {
    row.push_back(place.row);
    column.push_back(place.column);
  }
  const PaddedShape shape = layout.grouped().shape();
  return at::zeros({shape.batch, shape.width, ragged.size(1), ragged.size(2)}, ragged.options())
      .index_put({to_tensor(row), to_tensor(column)}, ragged);
}

TEST(PrefixGrouper, concatenates_prefixes_and_suffixes_of_any_padding) {
  const PrefixGrouper grouper(two);
  const at::Tensor prefix = ids({0, 1, 2, 3, 0, 0, 4, 5}, {2, 4});
  const at::Tensor suffix = ids({6, 7, 0, 0, 8, 0, 0, 0, 10, 11, 12, 13}, {3, 4});
  const at::Tensor grouped = grouper.concat_input(prefix, prefix.gt(0), suffix, suffix.gt(0), -1);
  EXPECT_TRUE(grouped.equal(ids({1, 2, 3, 6, 7, 8, 4, 5, 10, 11, 12, 13}, {2, 6})));
  EXPECT_TRUE(grouper.position_ids().equal(ids({0, 1, 2, 3, 4, 3, 0, 1, 2, 3, 4, 5}, {2, 6})));
  EXPECT_TRUE(grouper.padding_mask().all().item<bool>());
  const PrefixGrouper other =
      PrefixGrouper::from_ungrouped_masks(prefix.gt(0), suffix.gt(0), std::vector<std::int64_t>{2, 1});
  EXPECT_EQ(other.layout(), grouper.layout());
}

TEST(PrefixGrouper, fills_with_the_padding_asked_for) {
  const PrefixGrouper grouper(GroupInfo{{1, 1}, {2, 1}}, PaddingSide::left);
  const at::Tensor grouped = grouper.concat_input(ids({0, 1, 2, 3}, {2, 2}), ids({0, 1, 1, 1}, {2, 2}),
                                                  ids({4, 5}, {2, 1}), ids({1, 1}, {2, 1}), 9);
  EXPECT_TRUE(grouped.equal(ids({9, 1, 4, 2, 3, 5}, {2, 3})));
}

TEST(PrefixGrouper, hands_the_last_prefix_rows_to_every_suffix) {
  const PrefixGrouper grouper(two);
  const at::Tensor output = at::arange(12, at::kDouble).view({2, 6, 1});
  const PrefixGrouper::Split split = grouper.split_output(output, 1);
  EXPECT_TRUE(split.suffix.squeeze(2).to(at::kLong).equal(
      ids({2, 3, 4, 0, 0, 2, 5, 0, 0, 0, 7, 8, 9, 10, 11}, {3, 5})));
  EXPECT_TRUE(
      split.suffix_mask.to(at::kLong).equal(ids({1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1}, {3, 5})));
  EXPECT_TRUE(split.prefix.squeeze(2).to(at::kLong).equal(ids({0, 1, 0, 6}, {2, 2})));
  EXPECT_TRUE(split.prefix_mask.to(at::kLong).equal(ids({1, 1, 0, 1}, {2, 2})));
  EXPECT_THROW((void)grouper.split_output(output, 3), InputError);
  EXPECT_EQ(grouper.split_output(output, 3, ShortPrefix::pad).suffix.size(1), 7);
}

TEST(PrefixGrouper, converts_paddings) {
  const at::Tensor x = ids({0, 1, 2, 3, 0, 0}, {2, 3});
  EXPECT_TRUE(convert_padding(x, x.gt(0), PaddingSide::right).equal(ids({1, 2, 3, 0}, {2, 2})));
  EXPECT_TRUE(convert_padding(x, x.gt(0), PaddingSide::left).equal(ids({1, 2, 0, 3}, {2, 2})));
  const at::Tensor spread = ids({1, 0, 1, 0, 1, 0}, {2, 3});
  EXPECT_TRUE(convert_padding(x, x.gt(0), spread).equal(ids({1, 0, 2, 0, 3, 0}, {2, 3})));
  EXPECT_THROW((void)convert_padding(x, x.gt(0), x.eq(0)), InputError);
}

TEST(PrefixGrouper, rejects_shapes_that_do_not_fit) {
  const PrefixGrouper grouper(two);
  EXPECT_THROW((void)grouper.ungroup(at::zeros({2, 1, 5, 1})), InputError);
  EXPECT_THROW((void)grouper.ungroup(at::zeros({2, 6, 1})), InputError);
  EXPECT_THROW((void)grouper.group(at::zeros({2, 2, 1}), at::zeros({3, 4, 1})), InputError);
  EXPECT_THROW((void)grouper.split_output(at::zeros({6})), InputError);
  EXPECT_THROW(PrefixGrouper(two, at::ones({2, 5})), InputError);
  EXPECT_THROW((void)grouper.concat_input(at::ones({2, 3}), at::ones({2, 3}), at::ones({3, 4}),
                                          ids({1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, {3, 4})),
               InputError);
  EXPECT_THROW((void)causal_attention_mask(at::ones({2}), 1), InputError);
}

TEST(PrefixGrouper, passes_further_arguments_to_the_attention_function) {
  const PrefixGrouper grouper(two);
  const auto scaled_queries = [](const at::Tensor& q, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                 double scale) { return q.transpose(1, 2) * scale; };
  const at::Tensor q = at::rand({2, 3, 6, 2});
  EXPECT_TRUE(grouper.forward(scaled_queries, q, q, q, 2.0).equal(q.transpose(1, 2) * 2));
}

TEST(CausalAttentionMask, lines_up_last_query_and_last_key_and_hides_padding) {
  const at::Tensor mask = causal_attention_mask(ids({0, 1, 1, 1}, {1, 4}), 2);
  EXPECT_TRUE(mask.to(at::kLong).equal(ids({0, 1, 1, 0, 0, 1, 1, 1}, {1, 1, 2, 4})));
  const at::Tensor of_padding = causal_attention_mask(ids({0, 1}, {1, 2}), 2);
  EXPECT_TRUE(of_padding.to(at::kLong).equal(ids({1, 0, 0, 1}, {1, 1, 2, 2})));
}

RC_GTEST_PROP(PrefixGrouper, group_undoes_ungroup, ()) {
  const PrefixLayout layout = arbitrary_prefix_layout();
  const PrefixGrouper grouper(layout);
  const at::Tensor ragged = at::rand({layout.grouped().size(), 2, 3}, at::kFloat);
  const at::Tensor grouped = grouped_of(layout, ragged);
  const PrefixGrouper::Parts parts = grouper.ungroup(grouped.transpose(1, 2));
  RC_ASSERT(grouper.group(parts.prefix.transpose(1, 2), parts.suffix.transpose(1, 2)).equal(grouped));
}

RC_GTEST_PROP(PrefixGrouper, attention_and_its_gradients_equal_those_of_repeated_prefixes, ()) {
  const PrefixLayout layout = arbitrary_prefix_layout();
  RC_PRE(num_tokens(layout.groups()) > 0);
  const auto dtype = *rc::gen::element(at::kFloat, at::kDouble);
  const auto kv_heads = *rc::gen::element<std::int64_t>(1, 2, 4);
  const RaggedTensors expected(num_tokens(layout.groups()), 4, kv_heads, 3, dtype);
  const RaggedTensors actual = expected.copy();
  const at::Tensor expected_out = repeated_attention(expected, sample_rows(layout.groups()), 0.5);
  (expected_out * expected.weights).sum().backward();

  const auto heads_first = [&](const at::Tensor& ragged) {
    return grouped_of(layout, ragged).transpose(1, 2);
  };
  const at::Tensor out = PrefixGrouper(layout).forward(plain_attention, heads_first(actual.q),
                                                       heads_first(actual.k), heads_first(actual.v), 0.5);
  (out * grouped_of(layout, actual.weights)).sum().backward();
  RC_ASSERT(close(out, grouped_of(layout, expected_out)));
  RC_ASSERT(close(gradient_of(actual.q), gradient_of(expected.q)));
  RC_ASSERT(close(gradient_of(actual.k), gradient_of(expected.k)));
  RC_ASSERT(close(gradient_of(actual.v), gradient_of(expected.v)));
}

TEST(PrefixGrouper, can_be_differentiated_twice) {
  const PrefixGrouper grouper(two);
  const at::Tensor x = at::rand({2, 1, 6, 1}, at::kDouble).requires_grad_();
  const at::Tensor cubes = grouper.split_output(x.transpose(1, 2), 1).suffix.pow(3).sum();
  const at::Tensor slope = torch::autograd::grad({cubes}, {x}, {}, true, true).front();
  slope.sum().backward();
  const at::Tensor times = ids({0, 0, 2, 1, 1, 1, 0, 1, 1, 1, 1, 1}, {2, 1, 6, 1});
  EXPECT_TRUE(close(x.grad(), 6 * x.detach() * times));
}

// An attention function without varlen only needs a complete mask over the tree's rows.
RC_GTEST_PROP(TreeMask, makes_attention_and_its_gradients_those_of_repeated_samples, ()) {
  const PrefixTree tree = tree_of(arbitrary_samples());
  RC_PRE(tree.num_rows() > 0);
  std::vector<std::vector<std::int64_t>> samples;
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) samples.push_back(tree.rows_of(i));
  const RaggedTensors expected(tree.num_rows(), 2, 2, 3, at::kDouble);
  const RaggedTensors actual = expected.copy();
  const at::Tensor expected_out = repeated_attention(expected, samples, 0.5);
  (expected_out * expected.weights).sum().backward();

  const AncestorIntervals intervals = ancestor_intervals(tree);
  const at::Tensor hidden = attention_mask(intervals, intervals).logical_not();
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(0, 1); };
  const at::Tensor scores = at::matmul(heads_first(actual.q), heads_first(actual.k).transpose(1, 2)) * 0.5;
  const at::Tensor out =
      at::matmul(scores.masked_fill(hidden, -INFINITY).softmax(-1), heads_first(actual.v)).transpose(0, 1);
  (out * actual.weights).sum().backward();
  RC_ASSERT(close(out, expected_out));
  RC_ASSERT(close(gradient_of(actual.q), gradient_of(expected.q)));
  RC_ASSERT(close(gradient_of(actual.k), gradient_of(expected.k)));
  RC_ASSERT(close(gradient_of(actual.v), gradient_of(expected.v)));
}

}  // namespace
}  // namespace evenkeel
