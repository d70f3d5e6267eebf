#pragma once

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/pack_rows.hpp"
#include "support/repeated_attention.hpp"

namespace evenkeel::testing_support {

inline bool close(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) <= 1e-10; });
}

/// Ragged queries, keys, values and output gradients, [tokens, heads, dim] each.
struct RaggedInput {
  std::vector<double> q, k, v, grad_out;
};

inline RaggedInput arbitrary_input(std::int64_t rows, HeadCounts counts) {
  std::mt19937_64 generator(*rc::gen::arbitrary<std::uint64_t>());
  std::uniform_real_distribution<double> uniform(-2, 2);
  const auto filled = [&](std::int64_t heads) {
    std::vector<double> values(static_cast<std::size_t>(rows * heads * counts.dim));
    std::ranges::generate(values, [&] { return uniform(generator); });
    return values;
  };
  return {filled(counts.heads), filled(counts.kv_heads), filled(counts.kv_heads), filled(counts.heads)};
}

/// Computes attention with one head over packed segments that share prefixes, as the ranks of a CP group do:
/// each rank has its own queries, and keys and values are gathered from all ranks.
template <typename Layout>
class SharedPackedAttention {
 public:
  SharedPackedAttention(const Layout& layout, std::int64_t dim, AttentionOptions options, bool skip_pad_rows,
                        const RaggedInput& input)
      : layout_(layout), dim_(dim), options_(options), skip_pad_rows_(skip_pad_rows), input_(input) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t s = 0; s < layout.segments().size(); ++s)
      lengths.push_back(layout.segments().length(s));
    all_rows_ = PackedLayout(lengths, layout.segments().alignment(), {});
  }

  [[nodiscard]] RepeatedResult run() const {
    RepeatedResult result{std::vector<double>(input_.q.size()),
                          {std::vector<double>(input_.q.size()), {}, {}}};
    std::vector<double> grad_k(packed(all_rows_, CpRank{0}, input_.k).size(), 0);
    std::vector<double> grad_v(grad_k.size(), 0);
    for (int rank = 0; rank < layout_.segments().cp().size; ++rank) {
      run_rank(CpRank{rank}, result, grad_k, grad_v);
    }
    result.grads.k = unpacked(all_rows_, grad_k);
    result.grads.v = unpacked(all_rows_, grad_v);
    return result;
  }

 private:
  /// Packs the values. Pad rows contain a value that would be noticed if any query attended to one.
  [[nodiscard]] std::vector<double> packed(const PackedLayout& layout, CpRank rank,
                                           const std::vector<double>& ragged, double pad = 50) const {
    const std::vector<double> pad_row(static_cast<std::size_t>(dim_), pad);
    std::vector<double> local(static_cast<std::size_t>(layout.local_rows() * dim_));
    pack_rows(layout, rank, std::as_bytes(std::span(ragged)), std::as_bytes(std::span(pad_row)),
              std::as_writable_bytes(std::span(local)));
    return local;
  }
  [[nodiscard]] std::vector<double> unpacked(const PackedLayout& layout,
                                             const std::vector<double>& rows) const {
    std::vector<double> ragged(static_cast<std::size_t>(layout.num_tokens() * dim_));
    unpack_rows(layout, CpRank{0}, std::as_bytes(std::span(rows)), std::as_writable_bytes(std::span(ragged)));
    return ragged;
  }

  void run_rank(CpRank rank, RepeatedResult& result, std::vector<double>& grad_k,
                std::vector<double>& grad_v) const {
    const PackedLayout& segments = layout_.segments();
    const PrefixAttentionPlan plan = plan_prefix_attention(layout_, rank);
    const std::vector<double> q = packed(segments, rank, input_.q);
    const std::vector<double> grad = packed(segments, rank, input_.grad_out, 0);
    const std::vector<std::size_t> gathered = gathered_elements(plan);
    const std::vector<double> k = gather(gathered, packed(all_rows_, CpRank{0}, input_.k));
    const std::vector<double> v = gather(gathered, packed(all_rows_, CpRank{0}, input_.v));
    std::vector<double> out(q.size(), 0);
    std::vector<double> grad_q(q.size(), 0);
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

  /// Returns the rows of entry e: all of them, or only the true ones at the beginning.
  [[nodiscard]] RowRange entry(const std::vector<std::int32_t>& cu_seqlens,
                               const std::vector<std::int32_t>& cu_seqlens_padded, std::size_t e) const {
    const auto& lengths = skip_pad_rows_ ? cu_seqlens : cu_seqlens_padded;
    return {cu_seqlens_padded[e], std::int64_t{cu_seqlens_padded[e]} + lengths[e + 1] - lengths[e]};
  }
  [[nodiscard]] std::span<const double> rows(const std::vector<double>& all, RowRange range) const {
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
  [[nodiscard]] static std::vector<double> gather(const std::vector<std::size_t>& elements,
                                                  const std::vector<double>& from) {
    std::vector<double> gathered;
    for (const std::size_t element : elements) gathered.push_back(from[element]);
    return gathered;
  }

  const Layout& layout_;
  std::int64_t dim_;
  AttentionOptions options_;
  bool skip_pad_rows_;
  const RaggedInput& input_;
  PackedLayout all_rows_;
};

}  // namespace evenkeel::testing_support
