#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "evenkeel/pack/pack_rows.hpp"
#include "evenkeel/pack/prefix_packed.hpp"
#include "pack/arbitrary.hpp"
#include "pack/arbitrary_groups.hpp"
#include "support/grouped_attention.hpp"
#include "support/repeated_prefix.hpp"

namespace evenkeel {
namespace {

using testing_support::AttentionGradients;
using testing_support::AttentionOptions;
using testing_support::GroupedAttention;
using testing_support::HeadCounts;
using testing_support::ReferenceAttention;
using testing_support::RepeatedPrefixAttention;
using testing_support::RepeatedPrefixResult;
using Doubles = std::vector<double>;

constexpr double tolerance = 1e-10;

bool close(const Doubles& a, const Doubles& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) <= tolerance; });
}

std::int64_t num_tokens(const PrefixGroups& groups) {
  std::int64_t tokens = 0;
  for (std::int64_t g = 0; g < groups.size(); ++g) tokens += groups.num_tokens(g);
  return tokens;
}

/// Ragged queries, keys, values and output gradients, [tokens, heads, dim] each.
struct RaggedInput {
  Doubles q, k, v, grad_out;
};

RaggedInput arbitrary_input(const PrefixGroups& groups, HeadCounts counts) {
  std::mt19937_64 generator(*rc::gen::arbitrary<std::uint64_t>());
  std::uniform_real_distribution<double> uniform(-2, 2);
  const auto filled = [&](std::int64_t heads) {
    Doubles values(static_cast<std::size_t>(num_tokens(groups) * heads * counts.dim));
    std::ranges::generate(values, [&] { return uniform(generator); });
    return values;
  };
  return {filled(counts.heads), filled(counts.kv_heads), filled(counts.kv_heads), filled(counts.heads)};
}

/// Grouped padded tensors by plain indexing, independent of the copy kernels. `heads_in_front` tells
/// [b, heads, s, dim] from [b, s, heads, dim].
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
  const RaggedInput input = arbitrary_input(layout.groups(), counts);
  const RepeatedPrefixResult expected =
      RepeatedPrefixAttention(layout.groups(), counts, options)(input.q, input.k, input.v, input.grad_out);

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

/// Attention over packed prefix groups, one head, as the ranks of a CP group would compute it: each its own
/// queries, on keys and values gathered from all ranks' rows.
class PackedAttention {
 public:
  PackedAttention(const PackedPrefixLayout& layout, std::int64_t dim, AttentionOptions options,
                  bool skip_pad_rows, const RaggedInput& input)
      : layout_(layout), dim_(dim), options_(options), skip_pad_rows_(skip_pad_rows), input_(input) {
    Lengths lengths;
    for (std::int64_t s = 0; s < layout.segments().size(); ++s)
      lengths.push_back(layout.segments().length(s));
    all_rows_ = PackedLayout(lengths, layout.segments().alignment(), {});
  }

  [[nodiscard]] RepeatedPrefixResult run() const {
    RepeatedPrefixResult result{Doubles(input_.q.size()), {Doubles(input_.q.size()), {}, {}}};
    Doubles grad_k(packed(all_rows_, CpRank{0}, input_.k).size(), 0);
    Doubles grad_v(grad_k.size(), 0);
    for (const CpRank rank : all_ranks(layout_.segments().cp())) run_rank(rank, result, grad_k, grad_v);
    result.grads.k = unpacked(all_rows_, grad_k);
    result.grads.v = unpacked(all_rows_, grad_v);
    return result;
  }

 private:
  /// Pad rows hold a value that would show if any query reached one.
  [[nodiscard]] Doubles packed(const PackedLayout& layout, CpRank rank, const Doubles& ragged,
                               double pad = 50) const {
    const Doubles pad_row(static_cast<std::size_t>(dim_), pad);
    Doubles local(static_cast<std::size_t>(layout.local_rows() * dim_));
    pack_rows(layout, rank, std::as_bytes(std::span(ragged)), std::as_bytes(std::span(pad_row)),
              std::as_writable_bytes(std::span(local)));
    return local;
  }
  [[nodiscard]] Doubles unpacked(const PackedLayout& layout, const Doubles& rows) const {
    Doubles ragged(static_cast<std::size_t>(layout.num_tokens() * dim_));
    unpack_rows(layout, CpRank{0}, std::as_bytes(std::span(rows)), std::as_writable_bytes(std::span(ragged)));
    return ragged;
  }

  void run_rank(CpRank rank, RepeatedPrefixResult& result, Doubles& grad_k, Doubles& grad_v) const {
    const PackedLayout& segments = layout_.segments();
    const PrefixAttentionPlan plan = plan_prefix_attention(layout_, rank);
    const Doubles q = packed(segments, rank, input_.q);
    const Doubles grad = packed(segments, rank, input_.grad_out, 0);
    const std::vector<std::size_t> gathered = gathered_elements(plan);
    const Doubles k = gather(gathered, packed(all_rows_, CpRank{0}, input_.k));
    const Doubles v = gather(gathered, packed(all_rows_, CpRank{0}, input_.v));
    Doubles out(q.size(), 0);
    Doubles grad_q(q.size(), 0);
    for (std::size_t e = 0; e < plan.segment.size(); ++e) {
      const auto queries = entry(plan.cu_seqlens_q, plan.cu_seqlens_q_padded, e);
      const auto keys = entry(plan.cu_seqlens_k, plan.cu_seqlens_k_padded, e);
      const std::vector<std::uint8_t> all_keys(static_cast<std::size_t>(keys.size()), 1);
      const ReferenceAttention attention({1, 1, 1, queries.size(), keys.size(), dim_}, options_,
                                         rows(q, queries), rows(k, keys), rows(v, keys), all_keys);
      const AttentionGradients grads = attention.backward(rows(grad, queries));
      std::ranges::copy(attention.forward(), out.begin() + queries.begin * dim_);
      std::ranges::copy(grads.q, grad_q.begin() + queries.begin * dim_);
      const auto first = static_cast<std::size_t>(keys.begin * dim_);
      for (std::size_t i = 0; i < grads.k.size(); ++i) {
        grad_k[gathered[first + i]] += grads.k[i];
        grad_v[gathered[first + i]] += grads.v[i];
      }
    }
    unpack_rows(segments, rank, std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(result.out)));
    unpack_rows(segments, rank, std::as_bytes(std::span(grad_q)),
                std::as_writable_bytes(std::span(result.grads.q)));
  }

  /// The rows of entry e: all of them, or the true ones at their front.
  [[nodiscard]] RowRange entry(const std::vector<std::int32_t>& cu_seqlens,
                               const std::vector<std::int32_t>& cu_seqlens_padded, std::size_t e) const {
    const auto& lengths = skip_pad_rows_ ? cu_seqlens : cu_seqlens_padded;
    return {cu_seqlens_padded[e], std::int64_t{cu_seqlens_padded[e]} + lengths[e + 1] - lengths[e]};
  }
  [[nodiscard]] std::span<const double> rows(const Doubles& all, RowRange range) const {
    return std::span(all).subspan(static_cast<std::size_t>(range.begin * dim_),
                                  static_cast<std::size_t>(range.size() * dim_));
  }
  [[nodiscard]] std::vector<std::size_t> gathered_elements(const PrefixAttentionPlan& plan) const {
    std::vector<std::size_t> elements;
    for (const RowRange range : plan.key_rows) {
      for (std::int64_t i = range.begin * dim_; i < range.end * dim_; ++i) {
        elements.push_back(static_cast<std::size_t>(i));
      }
    }
    return elements;
  }
  [[nodiscard]] static Doubles gather(const std::vector<std::size_t>& elements, const Doubles& from) {
    Doubles gathered;
    for (const std::size_t element : elements) gathered.push_back(from[element]);
    return gathered;
  }

  const PackedPrefixLayout& layout_;
  std::int64_t dim_;
  AttentionOptions options_;
  bool skip_pad_rows_;
  const RaggedInput& input_;
  PackedLayout all_rows_;
};

RC_GTEST_PROP(PackedAttention, over_context_parallel_ranks_equals_that_of_repeated_prefixes, ()) {
  const PrefixGroups groups = arbitrary_groups();
  const CpGroup cp{*rc::gen::element(1, 2, 4), *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous)};
  const PackedPrefixLayout layout(groups,
                                  std::vector<SampleId>(static_cast<std::size_t>(groups.num_suffixes())),
                                  cp.chunks() * *rc::gen::element<std::int64_t>(1, 2), cp);
  const HeadCounts counts{1, 1, 2};
  const AttentionOptions options{0.7, true};
  const RaggedInput input = arbitrary_input(groups, counts);
  const RepeatedPrefixResult expected =
      RepeatedPrefixAttention(groups, counts, options)(input.q, input.k, input.v, input.grad_out);
  const bool skip_pad_rows = *rc::gen::arbitrary<bool>();
  const RepeatedPrefixResult actual =
      PackedAttention(layout, counts.dim, options, skip_pad_rows, input).run();
  RC_ASSERT(close(actual.out, expected.out));
  RC_ASSERT(close(actual.grads.q, expected.grads.q));
  RC_ASSERT(close(actual.grads.k, expected.grads.k));
  RC_ASSERT(close(actual.grads.v, expected.grads.v));
}

}  // namespace
}  // namespace evenkeel
