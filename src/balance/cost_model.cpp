#include "evenkeel/balance/cost_model.hpp"

#include <optional>
#include <string>
#include <string_view>

#include "checks.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

/// factor * factor + addend, or nothing at 2^62 and above. None is negative.
std::optional<std::int64_t> multiply_add(std::int64_t left, std::int64_t right, std::int64_t addend) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(left, right, &result) || __builtin_add_overflow(result, addend, &result) ||
      result >= balance_checks::sum_limit) {
    return std::nullopt;
  }
  return result;
}

std::int64_t model_product(std::int64_t left, std::int64_t right, std::int64_t addend = 0) {
  const std::optional<std::int64_t> result = multiply_add(left, right, addend);
  if (!result) throw LimitError("model", "the number of weights reaches 2^62", "check the sizes");
  return *result;
}

void require_positive(std::string_view name, std::int64_t value) {
  if (value < 1) {
    throw InputError("model." + std::string(name),
                     std::to_string(value) + " is no size; at least 1 is needed");
  }
}

void require_not_negative(std::string_view name, std::int64_t value) {
  if (value < 0) throw InputError("model." + std::string(name), std::to_string(value) + " is below 0");
}

std::int64_t head_dim_of(const ModelDescription& model) {
  if (model.head_dim > 0) return model.head_dim;
  if (model.hidden_size % model.heads != 0) {
    throw InputError(
        "model.heads",
        std::to_string(model.heads) + " heads do not divide hidden_size " + std::to_string(model.hidden_size),
        "give head_dim");
  }
  return model.hidden_size / model.heads;
}

}  // namespace

Cost CostModel::operator()(std::int64_t tokens) const {
  // (quadratic * s + linear) * s
  const std::optional<std::int64_t> per_token = multiply_add(quadratic, tokens, linear);
  const std::optional<std::int64_t> cost = per_token ? multiply_add(*per_token, tokens, 0) : std::nullopt;
  if (!cost) {
    throw LimitError("cost", "a sample of " + std::to_string(tokens) + " tokens costs 2^62 or more");
  }
  return *cost;
}

CostModel CostModel::from_model(const ModelDescription& model) {
  require_positive("hidden_size", model.hidden_size);
  require_positive("layers", model.layers);
  require_positive("heads", model.heads);
  require_not_negative("kv_heads", model.kv_heads);
  require_not_negative("head_dim", model.head_dim);
  require_positive("ffn_size", model.ffn_size);
  require_positive("vocab_size", model.vocab_size);
  require_positive("active_experts", model.active_experts);

  const std::int64_t head_dim = head_dim_of(model);
  const std::int64_t kv_heads = model.kv_heads > 0 ? model.kv_heads : model.heads;
  const std::int64_t query_width = model_product(model.heads, head_dim);
  const std::int64_t kv_width = model_product(kv_heads, head_dim);
  // Queries and output read query_width columns each, keys and values kv_width; a gated block has 3 matrices.
  const std::int64_t ffn_columns = model_product(model_product(3, model.ffn_size), model.active_experts);
  const std::int64_t attention_columns = model_product(2, query_width, model_product(2, kv_width));
  const std::int64_t columns = model_product(attention_columns, 1, ffn_columns);
  const std::int64_t head_and_layers = model_product(model.layers, columns, model.vocab_size);
  const std::int64_t weights = model_product(model.hidden_size, head_and_layers);
  // 2 FLOPs a weight over 4 * query_width * layers / 2 a pair of tokens: the twos cancel.
  const std::int64_t unit = model_product(query_width, model.layers);
  return {(weights + unit / 2) / unit, 1};
}

}  // namespace evenkeel
