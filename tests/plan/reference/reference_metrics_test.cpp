#include "evenkeel/plan/plan_quality.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/micro_batches/padded_batching.hpp"
#include "plan/reference/micro_batches.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::Pair;

using Lengths = std::vector<std::int64_t>;

// ROLL's document: 80 tokens become 56, 30 % removed.
TEST(DynamicBatchingMetrics, match_rolls_example) {
  const Lengths lengths{7, 6, 8, 5, 1, 3, 8, 6};
  PaddedBatchingSettings settings;
  settings.dp = 2;
  settings.max_tokens = 12;
  settings.length_round = 2;
  const PaddedBatches batches = plan_padded_batches(lengths, settings);
  EXPECT_THAT(dynamic_batching_metrics(lengths, batches.padded_tokens(), 10),
              ElementsAre(Pair("dynamic_batching/valid_tokens", 44),
                          Pair("dynamic_batching/actual_tokens_origin", 80),
                          Pair("dynamic_batching/actual_tokens", 56),
                          Pair("dynamic_batching/removed_padding_tokens", 24),
                          Pair("dynamic_batching/removed_padding_ratio", 0.3)));
  EXPECT_EQ(dynamic_batching_metrics(lengths, batches.padded_tokens(), 10, "actor_train")[0].first,
            "dynamic_batching/actor_train/valid_tokens");
}

TEST(DynamicBatchingMetrics, of_no_samples_are_zero) {
  for (const auto& [name, value] :
       dynamic_batching_metrics(Lengths{}, plan_padded_batches(Lengths{}, {}).padded_tokens(), 10)) {
    EXPECT_EQ(value, 0) << name;
  }
}

TEST(SeqlenBalanceMetrics, compare_the_assignment_with_runs_in_source_order) {
  const Lengths lengths{9, 8, 1, 2};
  EXPECT_THAT(seqlen_balance_metrics(lengths, roll_batch_balance(lengths, 2)),
              ElementsAre(Pair("global_seqlen/min", 3), Pair("global_seqlen/max", 17),
                          Pair("global_seqlen/minmax_diff", 14), Pair("global_seqlen/balanced_min", 10),
                          Pair("global_seqlen/balanced_max", 10), Pair("global_seqlen/mean", 10)));
}

TEST(SeqlenBalanceMetrics, accept_batches_that_dp_does_not_divide) {
  const Lengths lengths{3, 2, 1};
  const NamedMetrics metrics = seqlen_balance_metrics(lengths, roll_batch_balance(lengths, 2), "critic");
  EXPECT_THAT(metrics.front(), Pair("critic/min", 1));
  EXPECT_THAT(metrics.back(), Pair("critic/mean", 3));
}

}  // namespace
}  // namespace evenkeel
