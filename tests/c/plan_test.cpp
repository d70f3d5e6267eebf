// Configurations and plans through the C API, without MPI.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "c/values_of.hpp"
#include "evenkeel/c/evenkeel.h"

namespace evenkeel::test {
namespace {

using Numbers = std::vector<std::int64_t>;

struct Free {
  void operator()(evenkeel_config* config) const { evenkeel_config_destroy(config); }
  void operator()(evenkeel_plan* plan) const { evenkeel_plan_destroy(plan); }
  void operator()(evenkeel_arrays* arrays) const { evenkeel_arrays_destroy(arrays); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<evenkeel_config> config_of(const char* yaml) {
  evenkeel_config* config = nullptr;
  EXPECT_EQ(evenkeel_config_parse(yaml, nullptr, nullptr, 0, &config), EVENKEEL_OK)
      << evenkeel_last_error_message();
  return Owned<evenkeel_config>(config);
}

/// Samples without prompts.
struct Lengths {
  Numbers responses;
  Numbers prompts = Numbers(responses.size());
  evenkeel_lengths value{
      std::ssize(responses), prompts.data(), responses.data(), nullptr, nullptr, nullptr, nullptr};
};

Owned<evenkeel_plan> plan_of(const Lengths& lengths, const char* yaml) {
  evenkeel_plan* plan = nullptr;
  EXPECT_EQ(evenkeel_plan_create(&lengths.value, config_of(yaml).get(), nullptr, 0, -1, &plan), EVENKEEL_OK)
      << evenkeel_last_error_message();
  return Owned<evenkeel_plan>(plan);
}

constexpr const char* two_ranks = "{mesh: {dp: 2}, micro_batch: {max_tokens: 8}}";

TEST(CConfig, later_texts_override_earlier_ones_and_keys_are_listed) {
  const std::array<const char*, 2> yamls{"{mesh: {dp: 2, cp: 4}, profiles: {wide: {}}}", "mesh: {dp: 3}"};
  const std::array<const char*, 2> names{"one", "two"};
  evenkeel_config* made = nullptr;
  ASSERT_EQ(evenkeel_config_parse_texts(yamls.data(), names.data(), 2, nullptr, 0, &made), EVENKEEL_OK)
      << evenkeel_last_error_message();
  const Owned<evenkeel_config> config(made);
  char* settings = nullptr;
  ASSERT_EQ(evenkeel_config_settings(made, &settings, nullptr), EVENKEEL_OK);
  const std::string lines = settings;
  evenkeel_buffer_free(settings);
  EXPECT_NE(lines.find("\nmesh.dp=3\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find("\nprofiles.wide.balance."), std::string::npos) << lines;
  EXPECT_EQ(evenkeel_config_settings(nullptr, &settings, nullptr), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_config_equal(made, config_of("{mesh: {dp: 3, cp: 4}, profiles: {wide: {}}}").get()), 1);
  EXPECT_EQ(evenkeel_config_equal(made, config_of("{}").get()), 0);
}

TEST(CPlan, every_sample_is_in_one_micro_batch_within_the_cap) {
  const Lengths lengths{{5, 3, 4, 2}};
  const Owned<evenkeel_plan> plan = plan_of(lengths, two_ranks);
  const evenkeel_arrays* const arrays = evenkeel_plan_arrays(plan.get());
  EXPECT_EQ(values_of(arrays, "rank_offsets"), (Numbers{0, 1, 2}));
  EXPECT_EQ(values_of(arrays, "samples"), (Numbers{1, 2, 0, 3}));
  EXPECT_EQ(values_of(arrays, "tokens"), (Numbers{7, 7}));
  EXPECT_EQ(values_of(arrays, "num_tokens"), Numbers{14});
  EXPECT_EQ(values_of<double>(arrays, "quality").size(), 6U);
  EXPECT_EQ(values_of<double>(arrays, "token_weights").size(), 4U);
  EXPECT_EQ(evenkeel_plan_equal(plan.get(), plan_of(lengths, two_ranks).get()), 1);
  EXPECT_EQ(evenkeel_plan_equal(plan.get(), plan_of(Lengths{{5, 3, 4, 1}}, "{mesh: {dp: 1}}").get()), 0);
  EXPECT_EQ(evenkeel_plan_arrays(nullptr), nullptr);
}

TEST(CPlan, settings_and_lengths_that_do_not_fit_are_errors) {
  const Lengths lengths{{5, 9}};
  evenkeel_plan* plan = nullptr;
  const auto status = [&](const Lengths& of, const char* yaml, std::int32_t ranks) {
    return evenkeel_plan_create(&of.value, config_of(yaml).get(), nullptr, 0, ranks, &plan);
  };
  EXPECT_EQ(status(lengths, two_ranks, -1), EVENKEEL_ERROR_LIMIT);
  EXPECT_EQ(status(lengths, "{}", -1), EVENKEEL_ERROR_CONFIG);
  EXPECT_EQ(status(Lengths{{-1}}, two_ranks, -1), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(status(lengths, "{mesh: {dp: 1}, prefix: {share: tree}}", -1), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(evenkeel_plan_create(nullptr, config_of("{}").get(), nullptr, 0, 1, &plan),
            EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(plan, nullptr);
}

TEST(CPlan, a_micro_batch_is_laid_out_as_sequences_or_a_tree) {
  const Lengths lengths{{4, 3}};
  evenkeel_arrays* found = nullptr;
  ASSERT_EQ(evenkeel_plan_layout(plan_of(lengths, "mesh: {dp: 1}").get(), 0, &found), EVENKEEL_OK);
  const Owned<evenkeel_arrays> sequences(found);
  EXPECT_EQ(values_of<std::int32_t>(found, "cu_seqlens").back(), 7);
  EXPECT_EQ(evenkeel_plan_layout(plan_of(lengths, "mesh: {dp: 1}").get(), 5, &found),
            EVENKEEL_ERROR_ARGUMENT);

  Lengths shared{{4, 3}};
  const Numbers tokens{1, 2, 3, 4, 1, 2, 5};
  const Numbers offsets{0, 4, 7};
  const Numbers groups{7, 7};
  shared.value.groups = groups.data();
  shared.value.tokens = tokens.data();
  shared.value.token_offsets = offsets.data();
  ASSERT_EQ(evenkeel_plan_layout(plan_of(shared, "{mesh: {dp: 1}, prefix: {share: tree}}").get(), 0, &found),
            EVENKEEL_OK);
  const Owned<evenkeel_arrays> tree(found);
  EXPECT_EQ(values_of(found, "parents"), (Numbers{-1, 0, 0}));
}

TEST(CPlan, losses_of_other_micro_batches_add_up) {
  const Lengths lengths{{2, 2}};
  const Numbers samples{0, 1};
  const Numbers offsets{0, 1, 2};
  const Numbers ranks{0, 1, 2};
  evenkeel_arrays* found = nullptr;
  ASSERT_EQ(evenkeel_losses(&lengths.value, config_of("{}").get(), nullptr, samples.data(), offsets.data(), 2,
                            ranks.data(), 2, &found),
            EVENKEEL_OK)
      << evenkeel_last_error_message();
  const Owned<evenkeel_arrays> losses(found);
  EXPECT_EQ(values_of<double>(found, "token_weights"), (std::vector<double>{0.5, 0.5}))
      << "nothing predicts the first token of a sample without a prompt";
  const Numbers twice{0, 0};
  EXPECT_EQ(evenkeel_losses(&lengths.value, config_of("{}").get(), nullptr, twice.data(), offsets.data(), 2,
                            ranks.data(), 2, &found),
            EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(evenkeel_losses(&lengths.value, config_of("{}").get(), nullptr, samples.data(), offsets.data(),
                            -1, ranks.data(), 2, &found),
            EVENKEEL_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace evenkeel::test
