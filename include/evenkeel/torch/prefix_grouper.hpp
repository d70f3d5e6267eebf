#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/layout.hpp"

namespace evenkeel {

/// PrefixGrouper for libtorch: shared-prefix training of b prompts with n responses, using the attention
/// function that a model already has. It holds a PrefixLayout and its index tensors. Every operation is
/// differentiable, with exact gradients; the gradients of all suffixes of a prefix are added up. Tensors may
/// have any dtype and device. Shapes refer to b groups, n suffixes, s grouped columns, sp and ss columns of
/// prefix and suffix tensors, h heads (those of keys and values may be fewer) and d elements. Wrong shapes
/// throw InputError. Local and deterministic, except for the order in which CUDA adds gradients.
class PrefixGrouper {
 public:
  using GroupInfo = std::span<const std::vector<std::int64_t>>;

  explicit PrefixGrouper(PrefixLayout layout);
  /// Takes one list per group: the prefix's length, then the lengths of its suffixes; see PrefixGroups.
  explicit PrefixGrouper(GroupInfo group_info, PaddingSide padding = PaddingSide::right);
  /// Makes grouped rows with tokens where the mask [b, s] is not 0.
  PrefixGrouper(GroupInfo group_info, const at::Tensor& padding_mask);
  /// Takes lengths from the masks of padded prefixes [b, any] and suffixes [n, any]; group g has
  /// group_sizes[g] suffixes.
  [[nodiscard]] static PrefixGrouper from_ungrouped_masks(const at::Tensor& prefix_mask,
                                                          const at::Tensor& suffix_mask,
                                                          std::span<const std::int64_t> group_sizes,
                                                          PaddingSide padding = PaddingSide::right);

  [[nodiscard]] const PrefixLayout& layout() const noexcept { return layout_; }
  /// Returns bool [b, s]: true where there is a token.
  [[nodiscard]] at::Tensor padding_mask() const;
  /// Returns int64 [b, s]: every suffix counts from its prefix's length; `padding` elsewhere.
  [[nodiscard]] at::Tensor position_ids(std::int64_t padding = 0) const;

  /// Combines padded prefixes [b, any, ...] and suffixes [n, any, ...] into the grouped tensor [b, s, ...];
  /// `pad` elsewhere.
  [[nodiscard]] at::Tensor concat_input(const at::Tensor& prefix, const at::Tensor& prefix_mask,
                                        const at::Tensor& suffix, const at::Tensor& suffix_mask,
                                        double pad = 0) const;

  /// A tensor's prefixes and suffixes.
  struct Parts {
    at::Tensor prefix;
    at::Tensor suffix;
  };
  /// Splits [b, h, s, d] into prefixes [b, h, sp, d], left-padded, and suffixes [n, h, ss, d], right-padded.
  [[nodiscard]] Parts ungroup(const at::Tensor& x) const;
  /// Combines [b, sp, h, d] and [n, ss, h, d] into [b, s, h, d]; attention outputs have the sequence
  /// dimension first.
  [[nodiscard]] at::Tensor group(const at::Tensor& prefix, const at::Tensor& suffix) const;

  /// A model's output for each prefix and for each suffix, and the bool masks of their tokens.
  struct Split {
    at::Tensor prefix, prefix_mask, suffix, suffix_mask;
  };
  /// Splits [b, s, ...] like PrefixLayout::split. With include_prefix_last = 1, row i of the suffixes
  /// contains the rows that predict each token of suffix i, then its last row.
  [[nodiscard]] Split split_output(const at::Tensor& output, std::int64_t include_prefix_last = 0,
                                   ShortPrefix short_prefix = ShortPrefix::error) const;

  /// Computes attention over groups: prefixes attend to themselves, suffixes to their prefix and themselves,
  /// each in one call of
  ///
  ///     attention(q [x, h, queries, d], k, v [x, hkv, keys, d], key_mask bool [x, keys], args...)
  ///         -> [x, queries, h, d]
  ///
  /// which must be causal with the last query aligned to the last key, like Flash Attention
  /// (causal_attention_mask makes such a mask). q is [b, h, s, d]; k and v are [b, hkv, s, d]; the result is
  /// [b, s, h, d] and 0 where there is no token.
  template <typename Attention, typename... Args>
  [[nodiscard]] at::Tensor forward(Attention&& attention, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const Args&... args) const {
    const auto call = [&](const AttentionInput& in) {
      if (in.q.numel() == 0) return make_empty_output(in);
      return at::Tensor(attention(in.q, in.k, in.v, in.key_mask, args...));
    };
    return group(call(prefix_input(q, k, v)), call(suffix_input(q, k, v)));
  }

 private:
  struct AttentionInput {
    at::Tensor q, k, v, key_mask;
  };
  /// Index tensors of a TokenMap, into [batch * width] rows.
  struct Indices {
    at::Tensor source, target;
    PaddedShape from, to;
  };

  [[nodiscard]] static Indices indices_of(const TokenMap& map);
  [[nodiscard]] static at::Tensor apply_indices(const Indices& indices, const at::Tensor& x);
  [[nodiscard]] static at::Tensor apply_indices_to_heads(const Indices& indices, const at::Tensor& x);
  [[nodiscard]] static at::Tensor make_empty_output(const AttentionInput& input);
  [[nodiscard]] AttentionInput prefix_input(const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v) const;
  [[nodiscard]] AttentionInput suffix_input(const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v) const;

  PrefixLayout layout_;
  Indices prefix_;
  Indices suffix_;
  Indices suffix_keys_;
  at::Tensor prefix_key_mask_;
  at::Tensor suffix_key_mask_;
};

/// Moves the tokens of a padded tensor [b, any, ...] to one side, or to where another mask [b, s] is not 0.
/// Other places become 0. Throws InputError if the number of tokens in a row differs.
[[nodiscard]] at::Tensor convert_padding(const at::Tensor& x, const at::Tensor& mask, PaddingSide padding);
[[nodiscard]] at::Tensor convert_padding(const at::Tensor& x, const at::Tensor& mask,
                                         const at::Tensor& target_mask);

/// Returns a bool mask [x, 1, queries, keys] for functions that need a full mask, such as
/// scaled_dot_product_attention: causal with the last query aligned to the last key, and without masked keys.
/// A query also sees the key at its own place; this makes no difference for a token, and keeps the softmax of
/// padding from being empty.
[[nodiscard]] at::Tensor causal_attention_mask(const at::Tensor& key_mask, std::int64_t queries);

}  // namespace evenkeel
