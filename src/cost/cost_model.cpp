#include "evenkeel/cost/cost_model.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/list_checks.hpp"
#include "base/text_layout.hpp"
#include "cost/sum_limit.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

constexpr const char* only_ratio_matters =
    "Divide both coefficients of the cost by the same number, since only their ratio matters, or shorten "
    "or drop samples";

/// Returns left * right + addend, or nullopt if that is 2^62 or more. Precondition: no argument is negative.
std::optional<std::int64_t> multiply_add(std::int64_t left, std::int64_t right, std::int64_t addend) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(left, right, &result) || __builtin_add_overflow(result, addend, &result) ||
      result >= sum_limit) {
    return std::nullopt;
  }
  return result;
}

std::int64_t checked_multiply_add(std::int64_t left, std::int64_t right, std::int64_t addend = 0) {
  const std::optional<std::int64_t> result = multiply_add(left, right, addend);
  if (!result)
    throw LimitError("model", "a product of its sizes reaches the limit of 2^62",
                     "Check the sizes of the model");
  return *result;
}

void require_positive(std::string_view name, std::int64_t value) {
  if (value < 1) {
    throw InputError(
        "model." + std::string(name),
        "is " + std::to_string(value) + (value == 0 ? " or not set" : "") + "; it must be at least 1");
  }
}

void require_not_negative(std::string_view name, std::int64_t value) {
  if (value < 0)
    throw InputError("model." + std::string(name), "is " + std::to_string(value) + "; it must be at least 0");
}

std::int64_t head_dim_of(const ModelDescription& model) {
  if (model.head_dim > 0) return model.head_dim;
  if (model.hidden_size % model.heads != 0) {
    throw InputError("model.heads",
                     "is " + std::to_string(model.heads) + ", which does not divide hidden_size, " +
                         std::to_string(model.hidden_size),
                     "Set head_dim");
  }
  return model.hidden_size / model.heads;
}

/// Returns the attention cost of a sample of s tokens, quadratic * w (2 s - w); nullopt if it is 2^62 or
/// more. w is the smaller of s and the window; without a window, w is s, and the cost is quadratic * s^2.
std::optional<std::int64_t> attention_cost(const CostModel& model, std::int64_t tokens) {
  const std::int64_t reach = model.window == 0 ? tokens : std::min(tokens, model.window);
  const std::optional<std::int64_t> both_ways = multiply_add(1, tokens, tokens - reach);
  const auto pairs = both_ways ? multiply_add(reach, *both_ways, 0) : std::nullopt;
  return pairs ? multiply_add(model.quadratic, *pairs, 0) : std::nullopt;
}

}  // namespace

Cost CostModel::operator()(std::int64_t tokens) const {
  EVENKEEL_PRECONDITION(cheap, tokens >= 0, tokens);
  const std::optional<std::int64_t> attention = quadratic == 0 ? 0 : attention_cost(*this, tokens);
  const std::optional<std::int64_t> cost =
      attention ? multiply_add(linear, tokens, *attention) : std::nullopt;
  if (!cost) {
    throw LimitError(
        "cost",
        "the cost of a sample with " + format_plain_count(tokens, "token") + " reaches the limit of 2^62",
        only_ratio_matters);
  }
  return *cost;
}

Cost cost_of_group(const CostModel& model, std::int64_t prefix, std::span<const std::int64_t> suffixes) {
  EVENKEEL_PRECONDITION(cheap, prefix >= 0, prefix);
  EVENKEEL_PRECONDITION(thorough, are_all_nonnegative(suffixes), suffixes.size());
  const Cost of_prefix = model(prefix);
  Cost sum = of_prefix;
  for (const std::int64_t suffix : suffixes) {
    const std::optional<std::int64_t> longer = multiply_add(1, model(prefix + suffix) - of_prefix, sum);
    if (!longer) {
      throw LimitError("cost",
                       "the cost of a group of " + format_plain_count(std::ssize(suffixes), "sample") +
                           " with a prefix of " + format_plain_count(prefix, "token") +
                           " reaches the limit of 2^62",
                       only_ratio_matters);
    }
    sum = *longer;
  }
  return sum;
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
  require_not_negative("shared_experts", model.shared_experts);
  require_not_negative("shared_ffn_size", model.shared_ffn_size);
  require_not_negative("sliding_window", model.sliding_window);

  const std::int64_t head_dim = head_dim_of(model);
  const std::int64_t kv_heads = model.kv_heads > 0 ? model.kv_heads : model.heads;
  const std::int64_t query_width = checked_multiply_add(model.heads, head_dim);
  const std::int64_t kv_width = checked_multiply_add(kv_heads, head_dim);
  // Queries and outputs have query_width columns each; keys and values have kv_width columns each. A gated
  // feed-forward block has 3 matrices.
  const std::int64_t shared_width = model.shared_ffn_size > 0 ? model.shared_ffn_size : model.ffn_size;
  const std::int64_t ffn_width = checked_multiply_add(
      model.ffn_size, model.active_experts, checked_multiply_add(shared_width, model.shared_experts));
  const std::int64_t ffn_columns = checked_multiply_add(3, ffn_width);
  const std::int64_t attention_columns =
      checked_multiply_add(2, query_width, checked_multiply_add(2, kv_width));
  const std::int64_t columns = checked_multiply_add(attention_columns, 1, ffn_columns);
  const std::int64_t head_and_layers = checked_multiply_add(model.layers, columns, model.vocab_size);
  const std::int64_t weights = checked_multiply_add(model.hidden_size, head_and_layers);
  // The linear coefficient is the number of FLOPs per token over the number of FLOPs per pair of tokens. The
  // forward pass takes 2 FLOPs per weight and 4 * query_width * layers / 2 FLOPs per pair; the factors of 2
  // cancel. With the backward pass, these numbers become 6 FLOPs per weight and 14 / 4 times the forward
  // pass's FLOPs per pair.
  const std::int64_t pair = checked_multiply_add(query_width, model.layers);
  const std::int64_t work = checked_multiply_add(weights, model.backward ? 6 : 1);
  const std::int64_t unit = checked_multiply_add(pair, model.backward ? 7 : 1);
  return {(work + unit / 2) / unit, 1, model.sliding_window};
}

}  // namespace evenkeel
