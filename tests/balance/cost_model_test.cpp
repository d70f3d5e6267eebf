#include "evenkeel/balance/cost_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(CostModel, a_cost_of_two_to_the_62_is_an_error_that_names_the_length) {
  const std::int64_t tokens = std::int64_t{1} << 31;
  EXPECT_EQ((CostModel{0, 1})(tokens - 1), (tokens - 1) * (tokens - 1));
  try {
    (void)CostModel{0, 1}(tokens);
    FAIL() << "2^62 must throw";
  } catch (const LimitError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("2147483648 tokens"));
  }
}

/// A 7B model with plain multi-head attention.
ModelDescription seven_billion() {
  return {.hidden_size = 4096, .layers = 32, .heads = 32, .ffn_size = 11008, .vocab_size = 32000};
}

// 32 * (4 * 4096^2 + 3 * 4096 * 11008) + 32000 * 4096 weights = 6,607,077,376, at 2 FLOPs; a pair of tokens
// costs 4 * 4096 * 32 / 2. The quotient is 50407.99.
TEST(CostModel, of_a_described_model_is_in_units_of_a_pair_of_tokens) {
  EXPECT_EQ(CostModel::from_model(seven_billion()), (CostModel{50408, 1}));
}

TEST(CostModel, shared_key_value_heads_cost_less) {
  ModelDescription model = seven_billion();
  model.kv_heads = 32;
  EXPECT_EQ(CostModel::from_model(model), CostModel::from_model(seven_billion()));
  // 24 of 32 heads' keys and values fall away: 2 * 4096 * 24 * 128 weights a layer, 6144 units.
  model.kv_heads = 8;
  EXPECT_EQ(CostModel::from_model(model).linear, 50408 - 6144);
}

TEST(CostModel, every_active_expert_adds_its_block) {
  ModelDescription model = seven_billion();
  model.active_experts = 2;
  EXPECT_EQ(CostModel::from_model(model).linear, 50408 + 3 * 11008);
}

TEST(CostModel, wider_heads_make_attention_dearer) {
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
  EXPECT_THAT(error_of(model), testing::HasSubstr("48 heads do not divide hidden_size 4096"));
}

TEST(CostModel, absurd_sizes_are_an_error_rather_than_an_overflow) {
  ModelDescription model = seven_billion();
  model.ffn_size = std::int64_t{1} << 60;
  EXPECT_THROW((void)CostModel::from_model(model), LimitError);
}

}  // namespace
}  // namespace evenkeel
