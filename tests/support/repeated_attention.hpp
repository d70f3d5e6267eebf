#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "support/grouped_attention.hpp"

namespace evenkeel::testing_support {

/// The result of attention without sharing: each sample is computed separately, with its own copy of the
/// shared tokens. Each copy gets an equal share of its token's output gradient. Tensors are ragged, [rows,
/// heads, dim], and contain shared tokens once; so do the results, whose gradients are sums over the copies.
struct RepeatedResult {
  std::vector<double> out;
  AttentionGradients grads;
};

class RepeatedAttention {
 public:
  /// The rows of each sample's tokens, in order.
  using SampleRows = std::vector<std::vector<std::int64_t>>;

  RepeatedAttention(SampleRows samples, HeadCounts counts, AttentionOptions options)
      : samples_(std::move(samples)), counts_(counts), options_(options) {}

  [[nodiscard]] RepeatedResult operator()(std::span<const double> q, std::span<const double> k,
                                          std::span<const double> v, std::span<const double> grad_out) const {
    RepeatedResult result{std::vector<double>(q.size(), 0),
                          {std::vector<double>(q.size(), 0), std::vector<double>(k.size(), 0),
                           std::vector<double>(v.size(), 0)}};
    std::vector<double> copies(q.size(), 0);
    for (const Tokens& tokens : samples_) {
      for (const std::int64_t row : tokens) ++copies[static_cast<std::size_t>(row)];
    }
    for (const Tokens& tokens : samples_) add_sample(tokens, copies, q, k, v, grad_out, result);
    return result;
  }

 private:
  using Tokens = std::vector<std::int64_t>;

  void add_sample(const Tokens& tokens, const std::vector<double>& copies, std::span<const double> q,
                  std::span<const double> k, std::span<const double> v, std::span<const double> grad_out,
                  RepeatedResult& result) const {
    const auto length = static_cast<std::int64_t>(tokens.size());
    const std::vector<double> own_q = heads_first(tokens, counts_.heads, q);
    const std::vector<double> own_k = heads_first(tokens, counts_.kv_heads, k);
    const std::vector<double> own_v = heads_first(tokens, counts_.kv_heads, v);
    const std::vector<std::uint8_t> all_keys(tokens.size(), 1);
    const ReferenceAttention attention({1, counts_.heads, counts_.kv_heads, length, length, counts_.dim},
                                       options_, own_q, own_k, own_v, all_keys);
    const std::int64_t row = counts_.heads * counts_.dim;
    const std::vector<double> out = attention.forward();
    std::vector<double> grad(out.size());
    for (std::int64_t t = 0; t < length; ++t) {
      for (std::int64_t d = 0; d < row; ++d) {
        const std::size_t shared =
            at(tokens, t) * static_cast<std::size_t>(row) + static_cast<std::size_t>(d);
        const auto own = static_cast<std::size_t>(t * row + d);
        result.out[shared] = out[own];
        grad[own] = grad_out[shared] / copies[at(tokens, t)];
      }
    }
    const AttentionGradients grads = attention.backward(grad);
    add_back(tokens, counts_.heads, grads.q, result.grads.q);
    add_back(tokens, counts_.kv_heads, grads.k, result.grads.k);
    add_back(tokens, counts_.kv_heads, grads.v, result.grads.v);
  }

  [[nodiscard]] static std::size_t at(const Tokens& tokens, std::int64_t t) {
    return static_cast<std::size_t>(tokens[static_cast<std::size_t>(t)]);
  }

  /// Calls visit(offset in [heads, tokens, dim], offset in the ragged [tokens, heads, dim]).
  template <typename Visit>
  void for_each_element(const Tokens& tokens, std::int64_t heads, Visit visit) const {
    const auto dim = static_cast<std::size_t>(counts_.dim);
    for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        const std::size_t ragged = static_cast<std::size_t>(tokens[t]) * static_cast<std::size_t>(heads) + h;
        for (std::size_t d = 0; d < dim; ++d) visit((h * tokens.size() + t) * dim + d, ragged * dim + d);
      }
    }
  }
  [[nodiscard]] std::vector<double> heads_first(const Tokens& tokens, std::int64_t heads,
                                                std::span<const double> ragged) const {
    std::vector<double> rows(tokens.size() * static_cast<std::size_t>(heads * counts_.dim));
    for_each_element(tokens, heads, [&](std::size_t own, std::size_t shared) { rows[own] = ragged[shared]; });
    return rows;
  }
  void add_back(const Tokens& tokens, std::int64_t heads, const std::vector<double>& own_rows,
                std::vector<double>& ragged) const {
    for_each_element(tokens, heads,
                     [&](std::size_t own, std::size_t shared) { ragged[shared] += own_rows[own]; });
  }

  SampleRows samples_;
  HeadCounts counts_;
  AttentionOptions options_;
};

}  // namespace evenkeel::testing_support
