#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace evenkeel::testing_support {

/// Plain attention in float64, forward and backward, written for clarity: the reference for shared-prefix
/// layouts. Queries are [batch, heads, queries, dim], keys and values [batch, kv_heads, keys, dim], where
/// kv_heads divides heads (grouped-query attention), and the output is [batch, queries, heads, dim]. If
/// attention is causal, query i sees the unmasked keys j <= i + keys - queries, otherwise all unmasked keys.
/// The output of a query that sees no key is 0.
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t dim = 0;
};

struct AttentionOptions {
  double scale = 1;
  bool causal = true;
};

struct AttentionGradients {
  std::vector<double> q, k, v;  ///< shaped like the tensors that they are gradients of
};

class ReferenceAttention {
 public:
  /// `key_mask` is [batch, keys]. Nothing is copied: the arguments must outlive this object.
  ReferenceAttention(AttentionShape shape, AttentionOptions options, std::span<const double> q,
                     std::span<const double> k, std::span<const double> v,
                     std::span<const std::uint8_t> key_mask)
      : shape_(shape), options_(options), q_(q), k_(k), v_(v), key_mask_(key_mask) {}

  [[nodiscard]] std::vector<double> forward() const {
    std::vector<double> out(q_.size(), 0);
    for_each_query([&](Query query) {
      const std::vector<double> weights = weights_of(query);
      const auto row = row_at(std::span(out), out_row(query));
      for (std::int64_t j = 0; j < shape_.keys; ++j) add(row, weight(weights, j), value(query, j));
    });
    return out;
  }

  /// `grad_out` is shaped like the output.
  [[nodiscard]] AttentionGradients backward(std::span<const double> grad_out) const {
    AttentionGradients grads{std::vector<double>(q_.size(), 0), std::vector<double>(k_.size(), 0),
                             std::vector<double>(v_.size(), 0)};
    for_each_query([&](Query query) { add_gradients(query, grad_out, grads); });
    return grads;
  }

 private:
  struct Query {
    std::int64_t batch, head, i;
  };

  template <typename Visit>
  void for_each_query(Visit visit) const {
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t h = 0; h < shape_.heads; ++h) {
        for (std::int64_t i = 0; i < shape_.queries; ++i) visit(Query{b, h, i});
      }
    }
  }

  void add_gradients(Query query, std::span<const double> grad_out, AttentionGradients& grads) const {
    const auto grad = row_at(grad_out, out_row(query));
    const std::vector<double> weights = weights_of(query);
    double mean = 0;
    for (std::int64_t j = 0; j < shape_.keys; ++j) mean += weight(weights, j) * dot(grad, value(query, j));
    for (std::int64_t j = 0; j < shape_.keys; ++j) {
      const double score_grad = weight(weights, j) * (dot(grad, value(query, j)) - mean) * options_.scale;
      add(row_at(std::span(grads.v), key_row(query, j)), weight(weights, j), grad);
      add(row_at(std::span(grads.q), query_row(query)), score_grad, key(query, j));
      add(row_at(std::span(grads.k), key_row(query, j)), score_grad, row_at(q_, query_row(query)));
    }
  }

  /// Returns the softmax over the visible keys, and 0 for the others.
  [[nodiscard]] std::vector<double> weights_of(Query query) const {
    std::vector<double> weights(static_cast<std::size_t>(shape_.keys), 0);
    double highest = -INFINITY;
    for (std::int64_t j = 0; j < shape_.keys; ++j) {
      if (sees(query, j)) highest = std::max(highest, score(query, j));
    }
    double sum = 0;
    for (std::int64_t j = 0; j < shape_.keys; ++j) {
      if (!sees(query, j)) continue;
      sum += weights[static_cast<std::size_t>(j)] = std::exp(score(query, j) - highest);
    }
    if (sum == 0) return weights;
    for (double& entry : weights) entry /= sum;
    return weights;
  }

  [[nodiscard]] bool sees(Query query, std::int64_t j) const {
    const bool in_reach = !options_.causal || j <= query.i + shape_.keys - shape_.queries;
    return in_reach && key_mask_[static_cast<std::size_t>(query.batch * shape_.keys + j)] != 0;
  }
  [[nodiscard]] double score(Query query, std::int64_t j) const {
    return options_.scale * dot(row_at(q_, query_row(query)), key(query, j));
  }

  [[nodiscard]] std::int64_t query_row(Query query) const {
    return (query.batch * shape_.heads + query.head) * shape_.queries + query.i;
  }
  [[nodiscard]] std::int64_t out_row(Query query) const {
    return (query.batch * shape_.queries + query.i) * shape_.heads + query.head;
  }
  [[nodiscard]] std::int64_t key_row(Query query, std::int64_t j) const {
    const std::int64_t kv_head = query.head / (shape_.heads / shape_.kv_heads);
    return (query.batch * shape_.kv_heads + kv_head) * shape_.keys + j;
  }
  [[nodiscard]] std::span<const double> key(Query query, std::int64_t j) const {
    return row_at(k_, key_row(query, j));
  }
  [[nodiscard]] std::span<const double> value(Query query, std::int64_t j) const {
    return row_at(v_, key_row(query, j));
  }

  template <typename T>
  [[nodiscard]] std::span<T> row_at(std::span<T> rows, std::int64_t row) const {
    return rows.subspan(static_cast<std::size_t>(row * shape_.dim), static_cast<std::size_t>(shape_.dim));
  }
  [[nodiscard]] static double weight(const std::vector<double>& weights, std::int64_t j) {
    return weights[static_cast<std::size_t>(j)];
  }
  [[nodiscard]] static double dot(std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
    return sum;
  }
  static void add(std::span<double> to, double factor, std::span<const double> row) {
    for (std::size_t d = 0; d < to.size(); ++d) to[d] += factor * row[d];
  }

  AttentionShape shape_;
  AttentionOptions options_;
  std::span<const double> q_, k_, v_;
  std::span<const std::uint8_t> key_mask_;
};

}  // namespace evenkeel::testing_support
