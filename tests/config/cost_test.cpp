// The ways to specify the cost of a sample.
#include <gtest/gtest.h>

#include "config/fixtures.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel {
namespace {

using test::parse;

TEST(ConfigFile, the_cost_is_computed_from_a_model) {
  const ModelDescription qwen{3584, 28, 28, 4, 128, 18944, 152064, 1};
  const Config config = parse(
      "balance:\n"
      "  cost:\n"
      "    model: {hidden_size: 3584, layers: 28, heads: 28, kv_heads: 4, head_dim: 128, ffn_size: 18944,\n"
      "            vocab_size: 152064, active_experts: 1}\n");
  EXPECT_EQ(config.balance.cost, CostModel::from_model(qwen));
}

TEST(ConfigFile, a_model_may_have_shared_experts_a_window_and_a_backward_pass) {
  ModelDescription model{2048, 24, 16, 16, 128, 1408, 151936, 4};
  model.shared_experts = 1;
  model.shared_ffn_size = 5632;
  model.sliding_window = 4096;
  model.backward = true;
  const Config config = parse(
      "balance:\n"
      "  cost:\n"
      "    model: {hidden_size: 2048, layers: 24, heads: 16, kv_heads: 16, head_dim: 128, ffn_size: 1408,\n"
      "            vocab_size: 151936, active_experts: 4, shared_experts: 1, shared_ffn_size: 5632,\n"
      "            sliding_window: 4096, backward: true}\n");
  EXPECT_EQ(config.balance.cost, CostModel::from_model(model));
}

TEST(ConfigFile, the_cost_is_given_by_its_coefficients) {
  EXPECT_EQ(parse("balance: {cost: {linear: 5, quadratic: 1, window: 4096}}").balance.cost,
            (CostModel{5, 1, 4096}));
  EXPECT_EQ(parse("balance: {cost: {linear: 100, quadratic: 3}}").balance.cost, (CostModel{100, 3}));
  EXPECT_EQ(parse("balance: {cost: {quadratic: 1}}").balance.cost, (CostModel{0, 1}));
}

TEST(ConfigFile, an_encoders_cost_is_set_beside_the_models) {
  const Config words = parse("balance: {cost: {model: flops-7b, encoder: {field: pixel_rows, linear: 40}}}");
  EXPECT_EQ(words.balance.cost, CostModel::flops_7b());
  EXPECT_EQ(words.balance.encoder, (EncoderCost{"pixel_rows", {40, 0, 0}}));
  const Config numbers = parse(
      "balance: {cost: {model: {linear: 9, quadratic: 2}, encoder: {field: frames, linear: 1, quadratic: "
      "3}}}");
  EXPECT_EQ(numbers.balance.cost, (CostModel{9, 2, 0}));
  EXPECT_EQ(numbers.balance.encoder, (EncoderCost{"frames", {1, 3, 0}}));
  const std::string model = "{hidden_size: 64, layers: 2, heads: 4, ffn_size: 256, vocab_size: 100}";
  EXPECT_EQ(parse("balance: {cost: {model: " + model + ", encoder: {field: x, linear: 1}}}").balance.cost,
            parse("balance: {cost: {model: " + model + "}}").balance.cost);
  for (const Config& config : {words, numbers}) {
    const std::string text = to_yaml(config);
    EXPECT_EQ(parse(text).balance, config.balance) << text;
  }
}

TEST(ConfigFile, a_field_may_give_the_work_with_or_without_an_encoder) {
  const Config alone = parse("balance: {cost: {field: tool_calls}}");
  EXPECT_EQ(alone.balance.cost_field, "tool_calls");
  EXPECT_EQ(alone.balance.cost, CostModel::tokens());
  const Config beside = parse("balance: {cost: {model: {field: work}, encoder: {field: frames, linear: 1}}}");
  EXPECT_EQ(beside.balance.cost_field, "work");
  EXPECT_EQ(beside.balance.encoder, (EncoderCost{"frames", {1, 0, 0}}));
  for (const Config& config : {alone, beside}) EXPECT_EQ(parse(to_yaml(config)).balance, config.balance);
  EXPECT_EQ(parse(to_yaml(alone), {"balance.cost=tokens"}).balance.cost_field, std::nullopt);
}

TEST(ConfigFile, a_cost_may_be_measured_from_the_trainers_times) {
  const Config plain = parse("balance: {cost: measured}");
  EXPECT_EQ(plain.balance.cost, CostModel::tokens());
  EXPECT_EQ(plain.balance.measured, (MeasuredCost{1, 4096}));
  EXPECT_EQ(parse("balance: {cost: \"measured\"}").balance, plain.balance) << "quoted, as JSON has it";
  const Config full = parse("balance: {cost: {measured: {initial: flops-7b, every: 10, window: 512}}}");
  EXPECT_EQ(full.balance.cost, CostModel::flops_7b());
  EXPECT_EQ(full.balance.measured, (MeasuredCost{10, 512}));
  EXPECT_EQ(parse("balance: {cost: {measured: {initial: {linear: 9, quadratic: 2}}}}").balance.cost,
            (CostModel{9, 2}));
  EXPECT_EQ(parse("balance: {cost: measured}", {"balance.cost=tokens"}).balance.measured, std::nullopt);
}

}  // namespace
}  // namespace evenkeel
