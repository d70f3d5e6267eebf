#include "evenkeel/cost/cost_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

TEST(CostModel, tokens_cost_one_each) {
  EXPECT_EQ(CostModel::tokens()(0), 0);
  EXPECT_EQ(CostModel::tokens()(32768), 32768);
}

TEST(CostModel, flops_7b_is_the_constant_of_verl_and_roll) {
  EXPECT_EQ(CostModel::flops_7b()(1000), 24'576'000 + 1'000'000);
}

TEST(CostModel, grows_faster_than_the_length_when_attention_counts) {
  const CostModel model = CostModel::flops_7b();
  EXPECT_GT(model(8192), 2 * model(4096));
}

TEST(CostModel, a_cost_of_two_to_the_62_is_an_error_that_names_the_length_and_says_what_to_do) {
  const std::int64_t tokens = std::int64_t{1} << 31;
  EXPECT_EQ((CostModel{0, 1})(tokens - 1), (tokens - 1) * (tokens - 1));
  try {
    (void)CostModel{0, 1}(tokens);
    FAIL() << "2^62 must throw";
  } catch (const LimitError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("2147483648 tokens"));
    EXPECT_THAT(error.report().hint, testing::HasSubstr("Divide both coefficients of the cost"));
  }
}

/// Returns a 7B model with plain multi-head attention.
ModelDescription seven_billion() {
  return {.hidden_size = 4096, .layers = 32, .heads = 32, .ffn_size = 11008, .vocab_size = 32000};
}

// 32 * (4 * 4096^2 + 3 * 4096 * 11008) + 32000 * 4096 weights = 6,607,077,376, with 2 FLOPs each; a pair of
// tokens costs 4 * 4096 * 32 / 2. The quotient is 50407.99.
TEST(CostModel, of_a_described_model_is_in_units_of_a_pair_of_tokens) {
  EXPECT_EQ(CostModel::from_model(seven_billion()), (CostModel{50408, 1}));
}

TEST(CostModel, shared_key_value_heads_cost_less) {
  ModelDescription model = seven_billion();
  model.kv_heads = 32;
  EXPECT_EQ(CostModel::from_model(model), CostModel::from_model(seven_billion()));
  // The keys and values of 24 of 32 heads are omitted: 2 * 4096 * 24 * 128 weights per layer, 6144 units.
  model.kv_heads = 8;
  EXPECT_EQ(CostModel::from_model(model).linear, 50408 - 6144);
}

TEST(CostModel, every_active_expert_adds_its_block) {
  ModelDescription model = seven_billion();
  model.active_experts = 2;
  EXPECT_EQ(CostModel::from_model(model).linear, 50408 + 3 * 11008);
}

TEST(CostModel, shared_experts_add_theirs_for_every_token) {
  ModelDescription model = seven_billion();
  model.shared_experts = 2;
  EXPECT_EQ(CostModel::from_model(model).linear, 50408 + 2 * 3 * 11008);
  model.shared_ffn_size = 4096;
  EXPECT_EQ(CostModel::from_model(model).linear, 50408 + 2 * 3 * 4096);
}

// 6/7 of 50407.99: the backward pass of attention has five products where the forward pass has two; for a
// weight, four and two.
TEST(CostModel, the_backward_pass_makes_attention_weigh_more) {
  ModelDescription model = seven_billion();
  model.backward = true;
  EXPECT_EQ(CostModel::from_model(model), (CostModel{43207, 1}));
}

TEST(CostModel, the_vocabulary_adds_the_output_head) {
  ModelDescription model = seven_billion();
  model.vocab_size += 32 * 1000;  // layers * 1000: hidden_size * 1000 weights a layer
  EXPECT_EQ(CostModel::from_model(model).linear, 50408 + 1000);
}

/// Twice the score entries of causal attention in which a query sees a window of `window` tokens, including
/// itself, minus half of the diagonal, which s^2 also leaves out.
std::int64_t counted_pairs(std::int64_t tokens, std::int64_t window) {
  std::int64_t pairs = 0;
  for (std::int64_t query = 0; query < tokens; ++query) pairs += 2 * std::min(query + 1, window) - 1;
  return pairs;
}

TEST(CostModel, a_sliding_window_is_quadratic_up_to_it_and_linear_after) {
  const CostModel model{0, 1, 8};
  for (std::int64_t tokens = 0; tokens <= 8; ++tokens) EXPECT_EQ(model(tokens), tokens * tokens);
  for (std::int64_t tokens = 8; tokens < 40; ++tokens) {
    EXPECT_EQ(model(tokens + 1) - model(tokens), 2 * 8);
    EXPECT_EQ(model(tokens), counted_pairs(tokens, 8) + (tokens - 8));
  }
  EXPECT_EQ((CostModel{3, 2, 8})(10), 3 * 10 + 2 * (64 + 2 * 8 * 2));
}

TEST(CostModel, of_a_described_model_keeps_its_window) {
  ModelDescription model = seven_billion();
  model.sliding_window = 4096;
  EXPECT_EQ(CostModel::from_model(model), (CostModel{50408, 1, 4096}));
}

TEST(CostModel, a_window_keeps_very_long_samples_countable) {
  constexpr std::int64_t tokens = std::int64_t{1} << 40;
  EXPECT_EQ((CostModel{1, 0})(tokens), tokens);
  EXPECT_EQ((CostModel{0, 1, 4096})(tokens), 4096 * (2 * tokens - 4096));
  EXPECT_THROW((void)(CostModel{0, 1})(tokens), LimitError);
}

const CostModel any_of[] = {CostModel::tokens(), CostModel::flops_7b(), CostModel{0, 1},
                            CostModel{10, 3, 50}};

/// Every token of the group: its own linear work, and the tokens it attends to.
Cost counted_group(const CostModel& model, std::int64_t prefix, const std::vector<std::int64_t>& suffixes) {
  const std::int64_t window = model.window == 0 ? std::int64_t{1} << 30 : model.window;
  const auto cost_at = [&](std::int64_t position) {
    // The half of the entry that is outside of the window.
    const std::int64_t beyond = position >= window ? 1 : 0;
    return model.linear + model.quadratic * (2 * std::min(position + 1, window) - 1 + beyond);
  };
  Cost cost = 0;
  for (std::int64_t at = 0; at < prefix; ++at) cost += cost_at(at);
  for (const std::int64_t suffix : suffixes) {
    for (std::int64_t at = prefix; at < prefix + suffix; ++at) cost += cost_at(at);
  }
  return cost;
}

TEST(CostOfGroup, counts_the_prefix_once_and_what_each_suffix_sees) {
  EXPECT_EQ(cost_of_group({0, 1}, 3, std::vector<std::int64_t>{1, 2}), 9 + 7 + 16);
  for (const CostModel& model : any_of) {
    const std::vector<std::int64_t> suffixes = {0, 1, 40, 100};
    for (const std::int64_t prefix : {0, 1, 30, 70})
      EXPECT_EQ(cost_of_group(model, prefix, suffixes), counted_group(model, prefix, suffixes));
  }
}

TEST(CostOfGroup, of_one_sample_is_the_samples_cost_and_of_many_is_less) {
  for (const CostModel& model : any_of) {
    EXPECT_EQ(cost_of_group(model, 30, std::vector<std::int64_t>{70}), model(100));
    EXPECT_LT(cost_of_group(model, 30, std::vector<std::int64_t>{70, 70}), 2 * model(100));
    EXPECT_EQ(cost_of_group(model, 30, {}), model(30));
  }
}

TEST(CostOfGroup, too_much_work_is_an_error) {
  const std::vector<std::int64_t> suffixes(4, std::int64_t{1} << 30);
  EXPECT_THROW((void)cost_of_group({0, 1}, 1 << 30, suffixes), LimitError);
}

TEST(CostModel, wider_heads_make_attention_costlier) {
  ModelDescription model = seven_billion();
  model.head_dim = 128;
  EXPECT_EQ(CostModel::from_model(model), CostModel::from_model(seven_billion()));
  model.head_dim = 256;
  EXPECT_LT(CostModel::from_model(model).linear, 50408);
}

TEST(CostModel, a_missing_or_negative_size_is_an_error_that_names_it) {
  const auto error_of = [](ModelDescription model) {
    try {
      (void)CostModel::from_model(model);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  ModelDescription model = seven_billion();
  model.vocab_size = 0;
  EXPECT_THAT(error_of(model), testing::HasSubstr("vocab_size"));
  model = seven_billion();
  model.kv_heads = -8;
  EXPECT_THAT(error_of(model), testing::HasSubstr("kv_heads"));
  model = seven_billion();
  model.heads = 48;
  EXPECT_THAT(error_of(model), testing::HasSubstr("is 48, which does not divide hidden_size, 4096"));
}

TEST(CostModel, absurd_sizes_are_an_error_rather_than_an_overflow) {
  ModelDescription model = seven_billion();
  model.ffn_size = std::int64_t{1} << 60;
  EXPECT_THROW((void)CostModel::from_model(model), LimitError);
}

}  // namespace
}  // namespace evenkeel
