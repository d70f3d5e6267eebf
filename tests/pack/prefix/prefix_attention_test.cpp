#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/arbitrary.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "support/grouped_attention.hpp"
#include "support/packed_attention.hpp"
#include "support/repeated_attention.hpp"

namespace evenkeel {
namespace {

using testing_support::arbitrary_input;
using testing_support::AttentionGradients;
using testing_support::AttentionOptions;
using testing_support::close;
using testing_support::GroupedAttention;
using testing_support::HeadCounts;
using testing_support::RaggedInput;
using testing_support::RepeatedAttention;
using testing_support::RepeatedResult;
using testing_support::SharedPackedAttention;
using Doubles = std::vector<double>;

/// Grouped padded tensors with plain indexing, independent of the copy kernels. `heads_in_front`
/// distinguishes [b, heads, s, dim] from [b, s, heads, dim].
class GroupedTensor {
 public:
  GroupedTensor(const PrefixLayout& layout, std::int64_t heads, std::int64_t dim, bool heads_in_front)
      : layout_(layout), heads_(heads), dim_(dim), heads_in_front_(heads_in_front) {}

  [[nodiscard]] Doubles from(const Doubles& ragged) const {
    const PaddedShape shape = layout_.grouped().shape();
    Doubles grouped(static_cast<std::size_t>(shape.batch * shape.width * heads_ * dim_), 0);
    for_each([&](std::size_t token, std::size_t place) { grouped[place] = ragged[token]; });
    return grouped;
  }
  [[nodiscard]] Doubles to_ragged(const Doubles& grouped) const {
    Doubles ragged(static_cast<std::size_t>(layout_.grouped().size() * heads_ * dim_));
    for_each([&](std::size_t token, std::size_t place) { ragged[token] = grouped[place]; });
    return ragged;
  }

 private:
  template <typename Visit>
  void for_each(Visit visit) const {
    const std::int64_t width = layout_.grouped().shape().width;
    const auto positions = layout_.grouped().positions();
    for (std::size_t t = 0; t < positions.size(); ++t) {
      for (std::int64_t h = 0; h < heads_; ++h) {
        const std::int64_t row = heads_in_front_
                                     ? (positions[t].row * heads_ + h) * width + positions[t].column
                                     : (positions[t].row * width + positions[t].column) * heads_ + h;
        for (std::int64_t d = 0; d < dim_; ++d) {
          visit(static_cast<std::size_t>((static_cast<std::int64_t>(t) * heads_ + h) * dim_ + d),
                static_cast<std::size_t>(row * dim_ + d));
        }
      }
    }
  }

  const PrefixLayout& layout_;
  std::int64_t heads_;
  std::int64_t dim_;
  bool heads_in_front_;
};

RC_GTEST_PROP(GroupedAttention, and_its_gradients_equal_those_of_repeated_prefixes, ()) {
  const PrefixLayout layout = arbitrary_prefix_layout();
  const HeadCounts counts =
      *rc::gen::element(HeadCounts{1, 1, 3}, HeadCounts{2, 2, 2}, HeadCounts{4, 2, 2}, HeadCounts{3, 1, 1});
  const AttentionOptions options{0.5, true};
  const RaggedInput input = arbitrary_input(num_tokens(layout.groups()), counts);
  const RepeatedResult expected = RepeatedAttention(sample_rows(layout.groups()), counts, options)(
      input.q, input.k, input.v, input.grad_out);

  const GroupedTensor queries(layout, counts.heads, counts.dim, true);
  const GroupedTensor keys(layout, counts.kv_heads, counts.dim, true);
  const GroupedTensor outputs(layout, counts.heads, counts.dim, false);
  const GroupedAttention attention(layout, counts, options, queries.from(input.q), keys.from(input.k),
                                   keys.from(input.v));
  const AttentionGradients grads = attention.backward(outputs.from(input.grad_out));
  RC_ASSERT(close(outputs.to_ragged(attention.forward()), expected.out));
  RC_ASSERT(close(queries.to_ragged(grads.q), expected.grads.q));
  RC_ASSERT(close(keys.to_ragged(grads.k), expected.grads.k));
  RC_ASSERT(close(keys.to_ragged(grads.v), expected.grads.v));
}

RC_GTEST_PROP(PackedAttention, over_context_parallel_ranks_equals_that_of_repeated_prefixes, ()) {
  const PrefixGroups groups = arbitrary_groups();
  const CpGroup cp{*rc::gen::element(1, 2, 4), *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous)};
  const PackedPrefixLayout layout(groups,
                                  std::vector<SampleId>(static_cast<std::size_t>(groups.num_suffixes())),
                                  cp.chunks() * *rc::gen::element<std::int64_t>(1, 2), cp);
  const HeadCounts counts{1, 1, 2};
  const AttentionOptions options{0.7, true};
  const RaggedInput input = arbitrary_input(num_tokens(groups), counts);
  const RepeatedResult expected =
      RepeatedAttention(sample_rows(groups), counts, options)(input.q, input.k, input.v, input.grad_out);
  const bool skip_pad_rows = *rc::gen::arbitrary<bool>();
  const RepeatedResult actual =
      SharedPackedAttention(layout, counts.dim, options, skip_pad_rows, input).run();
  RC_ASSERT(close(actual.out, expected.out));
  RC_ASSERT(close(actual.grads.q, expected.grads.q));
  RC_ASSERT(close(actual.grads.k, expected.grads.k));
  RC_ASSERT(close(actual.grads.v, expected.grads.v));
}

}  // namespace
}  // namespace evenkeel
