#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/layout.hpp"
#include "support/prefix_tensors.hpp"
#include "support/reference_attention.hpp"

namespace evenkeel::testing_support {

/// Number of query heads, number of key and value heads, and elements of each.
struct HeadCounts {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t dim = 1;
};

/// Shared-prefix attention over grouped float64 tensors: prefixes attend to themselves, suffixes to their
/// prefix and themselves. The library's maps move all tokens. Queries are [b, heads, s, dim], keys and values
/// [b, kv_heads, s, dim], outputs [b, s, heads, dim].
class GroupedAttention {
 public:
  GroupedAttention(const PrefixLayout& layout, HeadCounts counts, AttentionOptions options,
                   std::span<const double> q, std::span<const double> k, std::span<const double> v)
      : layout_(layout), keys_(layout.suffix_keys()), counts_(counts), options_(options) {
    prefix_q_.resize(elements(layout.prefix().target, counts.heads));
    suffix_q_.resize(elements(layout.suffix().target, counts.heads));
    ungroup(layout, {bytes(counts.dim), counts.heads}, std::as_bytes(q), {},
            std::as_writable_bytes(std::span(prefix_q_)), std::as_writable_bytes(std::span(suffix_q_)));
    prefix_k_ = gathered(layout.prefix(), k);
    prefix_v_ = gathered(layout.prefix(), v);
    suffix_k_ = gathered(keys_, k);
    suffix_v_ = gathered(keys_, v);
    prefix_mask_ = layout.prefix_attention_mask();
    suffix_mask_ = layout.suffix_attention_mask();
  }

  [[nodiscard]] std::vector<double> forward() const {
    return grouped_rows({bytes(counts_.heads * counts_.dim)}, counts_.heads, prefix_attention().forward(),
                        suffix_attention().forward());
  }

  [[nodiscard]] AttentionGradients backward(std::span<const double> grad_out) const {
    std::vector<double> prefix_grad(prefix_q_.size());
    std::vector<double> suffix_grad(suffix_q_.size());
    ungroup(layout_, {bytes(counts_.heads * counts_.dim)}, std::as_bytes(grad_out), {},
            std::as_writable_bytes(std::span(prefix_grad)), std::as_writable_bytes(std::span(suffix_grad)));
    const AttentionGradients of_prefix = prefix_attention().backward(prefix_grad);
    const AttentionGradients of_suffix = suffix_attention().backward(suffix_grad);
    AttentionGradients grads;
    grads.q = grouped_rows({bytes(counts_.dim), counts_.heads}, counts_.heads, of_prefix.q, of_suffix.q);
    grads.k = key_gradients(of_prefix.k, of_suffix.k);
    grads.v = key_gradients(of_prefix.v, of_suffix.v);
    return grads;
  }

 private:
  [[nodiscard]] static std::size_t bytes(std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(double);
  }
  [[nodiscard]] std::size_t elements(const TokenPlaces& places, std::int64_t heads) const {
    return static_cast<std::size_t>(places.shape().batch * places.shape().width * heads * counts_.dim);
  }

  /// Returns the target tensor of a map, from a grouped tensor with kv_heads.
  [[nodiscard]] std::vector<double> gathered(const TokenMap& map, std::span<const double> grouped) const {
    std::vector<double> target(elements(map.target, counts_.kv_heads), 0);
    move_tokens(map.source, map.target, {bytes(counts_.dim), counts_.kv_heads}, std::as_bytes(grouped),
                std::as_writable_bytes(std::span(target)));
    return target;
  }

  /// Computes the gradient with respect to the source of a gather. Adds values, because the map may refer to
  /// a grouped token several times.
  void add_back(const TokenMap& map, std::span<const double> grad, std::span<double> grouped) const {
    const auto source = map.source.positions();
    const auto target = map.target.positions();
    const auto at = [&](const TokenPlaces& places, TokenPosition position, std::int64_t head) {
      const std::int64_t row = (position.row * counts_.kv_heads + head) * places.shape().width;
      return static_cast<std::size_t>((row + position.column) * counts_.dim);
    };
    for (std::size_t t = 0; t < source.size(); ++t) {
      for (std::int64_t head = 0; head < counts_.kv_heads; ++head) {
        const std::size_t from = at(map.target, target[t], head);
        const std::size_t to = at(map.source, source[t], head);
        for (std::size_t d = 0; d < static_cast<std::size_t>(counts_.dim); ++d)
          grouped[to + d] += grad[from + d];
      }
    }
  }

  [[nodiscard]] std::vector<double> key_gradients(std::span<const double> of_prefix,
                                                  std::span<const double> of_suffix) const {
    std::vector<double> grouped(elements(layout_.grouped(), counts_.kv_heads), 0);
    add_back(layout_.prefix(), of_prefix, grouped);
    add_back(keys_, of_suffix, grouped);
    return grouped;
  }

  [[nodiscard]] std::vector<double> grouped_rows(RowFormat format, std::int64_t heads,
                                                 const std::vector<double>& prefix,
                                                 const std::vector<double>& suffix) const {
    std::vector<double> grouped(elements(layout_.grouped(), heads));
    group(layout_, format, std::as_bytes(std::span(prefix)), std::as_bytes(std::span(suffix)), {},
          std::as_writable_bytes(std::span(grouped)));
    return grouped;
  }

  [[nodiscard]] AttentionShape shape(const TokenPlaces& queries, const TokenPlaces& keys) const {
    return {queries.shape().batch, counts_.heads,      counts_.kv_heads,
            queries.shape().width, keys.shape().width, counts_.dim};
  }
  [[nodiscard]] ReferenceAttention prefix_attention() const {
    const TokenPlaces& prefix = layout_.prefix().target;
    return {shape(prefix, prefix), options_, prefix_q_, prefix_k_, prefix_v_, prefix_mask_};
  }
  [[nodiscard]] ReferenceAttention suffix_attention() const {
    return {shape(layout_.suffix().target, keys_.target),
            options_,
            suffix_q_,
            suffix_k_,
            suffix_v_,
            suffix_mask_};
  }

  const PrefixLayout& layout_;
  TokenMap keys_;
  HeadCounts counts_;
  AttentionOptions options_;
  std::vector<double> prefix_q_, prefix_k_, prefix_v_, suffix_q_, suffix_k_, suffix_v_;
  std::vector<std::uint8_t> prefix_mask_, suffix_mask_;
};

}  // namespace evenkeel::testing_support
