// Partitions, bins, costs and the functions of other projects, through the C API.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "c/values_of.hpp"
#include "evenkeel/c/evenkeel.h"

namespace evenkeel::test {
namespace {

using Numbers = std::vector<std::int64_t>;
using Groups = std::vector<Numbers>;

constexpr std::int64_t unlimited = INT64_MAX;
const Numbers example{1, 2, 2, 5, 3, 7, 6, 3};

std::int64_t size_of(const Numbers& numbers) {
  return std::ssize(numbers);
}

Groups groups_of(const Numbers& items, const Numbers& offsets, std::int64_t k) {
  Groups groups;
  for (std::int64_t g = 0; g < k; ++g) {
    const auto at = static_cast<std::size_t>(g);
    groups.emplace_back(items.begin() + offsets[at], items.begin() + offsets[at + 1]);
  }
  return groups;
}

/// Returns the groups of `count` items that fill(items, offsets, num_groups) creates, in arrays for `room`
/// groups.
template <typename Fill>
Groups filled(std::int64_t count, std::int64_t room, Fill fill) {
  Numbers items(static_cast<std::size_t>(count), -1);
  Numbers offsets(static_cast<std::size_t>(room) + 1, -1);
  std::int64_t k = room;
  EXPECT_EQ(fill(items.data(), offsets.data(), &k), EVENKEEL_OK) << evenkeel_last_error_message();
  return groups_of(items, offsets, k);
}

TEST(CBalance, costs_are_partitioned_by_either_algorithm) {
  const auto partition = [](std::int32_t algorithm, std::int32_t equal) {
    return filled(size_of(example), 4, [&](auto* items, auto* offsets, auto*) {
      return evenkeel_partition(algorithm, example.data(), size_of(example), 4, equal, items, offsets);
    });
  };
  EXPECT_EQ(partition(EVENKEEL_KARMARKAR_KARP, 0), (Groups{{1, 6}, {7, 4, 0}, {3, 2}, {5}}));
  for (const Numbers& group : partition(EVENKEEL_LONGEST_PROCESSING_TIME, 1)) EXPECT_EQ(group.size(), 2U);
  std::int64_t item = 0;
  std::array<std::int64_t, 3> offsets{};
  EXPECT_EQ(evenkeel_partition(9, &item, 1, 2, 0, &item, offsets.data()), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_partition(0, &item, 1, 0, 0, &item, offsets.data()), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(evenkeel_partition(0, nullptr, 1, 2, 0, &item, offsets.data()), EVENKEEL_ERROR_ARGUMENT);
}

TEST(CBalance, groups_are_sorted_in_place) {
  Numbers items{2, 0, 1, 5, 3};
  const Numbers offsets{0, 3, 3, 5};
  ASSERT_EQ(evenkeel_sort_groups(items.data(), 5, offsets.data(), 3), EVENKEEL_OK);
  EXPECT_EQ(items, (Numbers{0, 1, 2, 3, 5}));
  EXPECT_EQ(evenkeel_sort_groups(items.data(), 4, offsets.data(), 3), EVENKEEL_ERROR_INPUT);
}

TEST(CBalance, bounds_and_ratios_are_those_of_the_planner) {
  const Numbers costs{9, 9, 1, 2, 3, 4};
  std::int64_t bound = 0;
  ASSERT_EQ(evenkeel_max_sum_lower_bound(costs.data(), size_of(costs), 3, 0, &bound), EVENKEEL_OK);
  EXPECT_EQ(bound, 10);
  EXPECT_EQ(evenkeel_max_sum_lower_bound(costs.data(), size_of(costs), 0, 0, &bound), EVENKEEL_ERROR_INPUT);
  const Numbers work{3, 1};
  const Numbers speeds{3, 1};
  double ratio = 0;
  ASSERT_EQ(evenkeel_max_over_mean(work.data(), nullptr, 2, &ratio), EVENKEEL_OK);
  EXPECT_EQ(ratio, 1.5);
  ASSERT_EQ(evenkeel_max_over_mean(work.data(), speeds.data(), 2, &ratio), EVENKEEL_OK);
  EXPECT_EQ(ratio, 1);
  const Numbers stopped{1, 0};
  EXPECT_EQ(evenkeel_max_over_mean(work.data(), stopped.data(), 2, &ratio), EVENKEEL_ERROR_INPUT);
}

TEST(CBalance, bins_keep_their_limits) {
  const Numbers sizes{5, 4, 3, 2};
  const auto packed = [&](std::int32_t algorithm, const std::int64_t* counts, std::int64_t max_items) {
    return filled(4, 4, [&](auto* items, auto* offsets, auto* bins) {
      return evenkeel_pack_bins(algorithm, sizes.data(), counts, 4, 7, max_items, items, offsets, bins);
    });
  };
  EXPECT_EQ(packed(EVENKEEL_FIRST_FIT_DECREASING, nullptr, unlimited), (Groups{{0, 3}, {1, 2}}));
  for (const std::int32_t algorithm :
       {EVENKEEL_BEST_FIT_DECREASING, EVENKEEL_MODIFIED_FIRST_FIT_DECREASING, EVENKEEL_BALANCED_BINS})
    EXPECT_EQ(packed(algorithm, nullptr, unlimited).size(), 2U) << algorithm;
  const Numbers counts{1, 1, 1, 2};
  EXPECT_EQ(packed(EVENKEEL_FIRST_FIT_DECREASING, counts.data(), 2).size(), 3U);
  std::int64_t bound = 0;
  ASSERT_EQ(evenkeel_min_bins_lower_bound(sizes.data(), nullptr, 4, 7, unlimited, &bound), EVENKEEL_OK);
  EXPECT_EQ(bound, 2);
  EXPECT_EQ(evenkeel_min_bins_lower_bound(sizes.data(), nullptr, 4, 4, unlimited, &bound),
            EVENKEEL_ERROR_LIMIT);
  EXPECT_EQ(evenkeel_min_bins_lower_bound(sizes.data(), nullptr, 4, 0, unlimited, &bound),
            EVENKEEL_ERROR_INPUT);
  EXPECT_STREQ(evenkeel_last_error_message(), "max_size: is 0; it must be at least 1");
}

TEST(CBalance, costs_follow_their_model) {
  evenkeel_cost_model model{};
  ASSERT_EQ(evenkeel_cost_model_flops_7b(&model), EVENKEEL_OK);
  const Numbers tokens{0, 1, 2};
  Numbers costs(3);
  ASSERT_EQ(evenkeel_costs(&model, tokens.data(), 3, costs.data()), EVENKEEL_OK);
  EXPECT_EQ(costs, (Numbers{0, 24577, 49156}));
  const evenkeel_cost_model squares{0, 1, 0};
  const Numbers suffixes{1, 2};
  std::int64_t cost = 0;
  ASSERT_EQ(evenkeel_cost_of_group(&squares, 3, suffixes.data(), 2, &cost), EVENKEEL_OK);
  EXPECT_EQ(cost, 32);
  const std::int64_t below = -1;
  EXPECT_EQ(evenkeel_costs(&model, &below, 1, &cost), EVENKEEL_ERROR_INPUT);
  EXPECT_STREQ(evenkeel_last_error_message(), "tokens[0]: is -1; it must be at least 0");
  evenkeel_model_shape shape{};
  shape.hidden_size = 64;
  shape.layers = 2;
  shape.heads = 4;
  shape.ffn_size = 256;
  shape.vocab_size = 100;
  shape.active_experts = 1;
  ASSERT_EQ(evenkeel_cost_model_of_shape(&shape, &model), EVENKEEL_OK);
  EXPECT_GT(model.linear, 0);
  shape.layers = 0;
  EXPECT_EQ(evenkeel_cost_model_of_shape(&shape, &model), EVENKEEL_ERROR_INPUT);
}

TEST(CDropIn, groups_are_closed_at_the_cap) {
  const Numbers costs{5, 4, 3, 2};
  const Groups groups = filled(4, 6, [&](auto* items, auto* offsets, auto* k) {
    return evenkeel_partition_with_cap(costs.data(), 4, 2, 7, items, offsets, k);
  });
  for (const Numbers& group : groups) {
    std::int64_t sum = 0;
    for (const std::int64_t item : group) sum += costs[static_cast<std::size_t>(item)];
    EXPECT_LE(sum, 7);
  }
}

TEST(CDropIn, samples_of_a_key_stay_together) {
  const Numbers lengths{10, 10, 30, 30};
  const Numbers keys{7, 7, 8, 8};
  const Groups parts = filled(4, 2, [&](auto* items, auto* offsets, auto*) {
    return evenkeel_partition_whole_groups(lengths.data(), keys.data(), 4, 2, 1, items, offsets);
  });
  EXPECT_EQ(parts, (Groups{{2, 3}, {0, 1}}));
  Numbers items(4);
  Numbers offsets(4);
  EXPECT_EQ(
      evenkeel_partition_whole_groups(lengths.data(), keys.data(), 4, 3, 0, items.data(), offsets.data()),
      EVENKEEL_ERROR_INPUT);
}

TEST(CDropIn, a_batch_is_balanced_and_its_order_can_be_restored) {
  const Groups ranks = filled(size_of(example), 2, [](auto* items, auto* offsets, auto*) {
    return evenkeel_roll_batch_balance(example.data(), size_of(example), 2, unlimited, items, offsets);
  });
  EXPECT_EQ(ranks[0].size(), 4U);
  EXPECT_EQ(ranks[1].size(), 4U);
  const Numbers order{2, 0, 1};
  Numbers inverse(3);
  ASSERT_EQ(evenkeel_inverse_order(order.data(), 3, inverse.data()), EVENKEEL_OK);
  EXPECT_EQ(inverse, (Numbers{1, 2, 0}));
  const Numbers twice{0, 0};
  EXPECT_EQ(evenkeel_inverse_order(twice.data(), 2, inverse.data()), EVENKEEL_ERROR_INPUT);
}

TEST(CDropIn, micro_batches_keep_the_cap_of_every_system) {
  const Numbers lengths{5, 4, 3, 2, 6, 1};
  for (const std::int32_t system : {EVENKEEL_MINDSPEED_RL, EVENKEEL_VERL, EVENKEEL_ROLL}) {
    const evenkeel_batching batching{system, 1, 8, unlimited, 1, 1, 1};
    std::int64_t count = 0;
    ASSERT_EQ(evenkeel_batching_count(&batching, lengths.data(), 6, &count), EVENKEEL_OK);
    ASSERT_EQ(evenkeel_batching_count_under_cap(&batching, lengths.data(), 6, count, &count), EVENKEEL_OK);
    ASSERT_EQ(evenkeel_batching_agreed_count(&batching, count, &count), EVENKEEL_OK);
    for (const Numbers& samples : filled(6, count, [&](auto*items, auto*offsets, auto*) {
           return evenkeel_batching_micro_batches(&batching, lengths.data(), 6, count, items, offsets);
         })) {
      std::int64_t tokens = 0;
      for (const std::int64_t sample : samples) tokens += lengths[static_cast<std::size_t>(sample)];
      EXPECT_LE(tokens, 8) << system;
    }
    std::int64_t kept = 0;
    const std::int64_t above = 9;
    EXPECT_EQ(evenkeel_batching_count_under_cap(&batching, &above, 1, 1, &kept), EVENKEEL_ERROR_LIMIT);
  }
  std::int64_t count = 0;
  const evenkeel_batching unknown{7, 0, 8, unlimited, 1, 1, 1};
  EXPECT_EQ(evenkeel_batching_agreed_count(&unknown, 1, &count), EVENKEEL_ERROR_ARGUMENT);
  evenkeel_batching of_zero{EVENKEEL_VERL, 0, 8, unlimited, 1, 0, 1};
  EXPECT_EQ(evenkeel_batching_agreed_count(&of_zero, 1, &count), EVENKEEL_ERROR_CONFIG);
  of_zero.multiple_of = 2;
  EXPECT_EQ(evenkeel_batching_agreed_count(&of_zero, -1, &count), EVENKEEL_ERROR_CONFIG);
}

TEST(CDropIn, padded_batches_match_the_example_in_the_header) {
  const Numbers lengths{7, 6, 8, 5, 1, 3, 8, 6};
  evenkeel_arrays* batches = nullptr;
  ASSERT_EQ(evenkeel_padded_batches(lengths.data(), 8, 2, 12, 2, 1, &batches), EVENKEEL_OK);
  EXPECT_EQ(values_of(batches, "items"), (Numbers{4, 3, 7, 2, 5, 1, 0, 6}));
  EXPECT_EQ(values_of(batches, "offsets"), (Numbers{0, 4, 8}));
  EXPECT_EQ(values_of(batches, "end"), (Numbers{2, 3, 4}));
  EXPECT_EQ(values_of(batches, "padded_length"), (Numbers{6, 8, 8}));
  EXPECT_EQ(values_of(batches, "padded_tokens"), Numbers{2 * (2 * 6 + 8 + 8)});
  evenkeel_arrays_destroy(batches);
}

TEST(CDropIn, figures_describe_an_assignment) {
  const Numbers lengths{4, 1, 1, 4};
  const Numbers items{0, 1, 2, 3};
  const Numbers offsets{0, 2, 4};
  std::array<double, 6> balance{};
  ASSERT_EQ(
      evenkeel_seqlen_balance_figures(lengths.data(), 4, items.data(), 4, offsets.data(), 2, balance.data()),
      EVENKEEL_OK);
  EXPECT_EQ(balance, (std::array<double, 6>{5, 5, 0, 5, 5, 5}));
  EXPECT_EQ(
      evenkeel_seqlen_balance_figures(lengths.data(), 2, items.data(), 4, offsets.data(), 2, balance.data()),
      EVENKEEL_ERROR_INPUT);
  std::array<double, 5> batching{};
  ASSERT_EQ(evenkeel_dynamic_batching_figures(lengths.data(), 4, 12, 5, batching.data()), EVENKEEL_OK);
  EXPECT_EQ(batching, (std::array<double, 5>{10, 20, 12, 8, 0.4}));
}

TEST(CDropIn, rows_are_taken_group_after_group) {
  const std::array<std::int32_t, 4> source{10, 11, 12, 13};
  const Numbers items{3, 0, 2};
  const Numbers offsets{0, 1, 3};
  std::array<std::int32_t, 1> first{};
  std::array<std::int32_t, 2> second{};
  const std::array<void*, 2> targets{first.data(), second.data()};
  ASSERT_EQ(evenkeel_take_rows(source.data(), 4, 4, items.data(), 3, offsets.data(), 2, targets.data(), 2),
            EVENKEEL_OK);
  EXPECT_EQ(first[0], 13);
  EXPECT_EQ(second, (std::array<std::int32_t, 2>{10, 12}));
  EXPECT_EQ(evenkeel_take_rows(source.data(), 3, 4, items.data(), 3, offsets.data(), 2, targets.data(), 2),
            EVENKEEL_ERROR_INPUT);
  const std::array<void*, 2> without_second{first.data(), nullptr};
  EXPECT_EQ(
      evenkeel_take_rows(source.data(), 4, 4, items.data(), 3, offsets.data(), 2, without_second.data(), 2),
      EVENKEEL_ERROR_ARGUMENT);
}

TEST(CErrors, an_error_may_be_set_by_a_caller) {
  EXPECT_EQ(evenkeel_set_last_error(EVENKEEL_ERROR_IO, "a place", "is wrong", nullptr, 3), EVENKEEL_ERROR_IO);
  EXPECT_STREQ(evenkeel_last_error_message(), "a place: is wrong (rank 3)");
  EXPECT_STREQ(evenkeel_last_error_hint(), "");
  EXPECT_EQ(evenkeel_last_error_rank(), 3);
}

}  // namespace
}  // namespace evenkeel::test
