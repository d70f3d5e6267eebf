#include "evenkeel/plan/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "evenkeel/base/error.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::use;

using testing::HasSubstr;

PlanSettings settings_with(int tp, CpGroup cp) {
  PlanSettings settings;
  settings.tp = tp;
  settings.cp = cp;
  return settings;
}

TEST(PlanSettings, alignment_follows_the_documents_rules) {
  EXPECT_EQ(settings_with(1, {1, CpLayout::zigzag}).alignment(), 1);
  EXPECT_EQ(settings_with(4, {1, CpLayout::zigzag}).alignment(), 4);
  EXPECT_EQ(settings_with(2, {2, CpLayout::zigzag}).alignment(), 8);
  EXPECT_EQ(settings_with(2, {2, CpLayout::contiguous}).alignment(), 4);
}

TEST(PlanSettings, align_lcm_is_taken_with_the_alignment_as_roll_does_with_16) {
  PlanSettings settings = settings_with(3, {2, CpLayout::zigzag});
  settings.align_lcm = 16;
  EXPECT_EQ(settings.alignment(), 48);
}

TEST(PlanSettings, a_stated_alignment_must_fit_the_cut) {
  PlanSettings settings = settings_with(2, {2, CpLayout::zigzag});
  settings.align = 4;
  EXPECT_EQ(settings.alignment(), 4);
  settings.align = 6;
  EXPECT_THROW((void)settings.alignment(), ConfigError);
  settings.align = 0;
  EXPECT_THROW((void)settings.alignment(), ConfigError);
}

TEST(PlanSettings, an_alignment_beyond_32_bits_is_refused_rather_than_wrapped) {
  PlanSettings settings;
  settings.micro_batch.max_tokens = 2147483647;
  // Primes: their least common multiple is the product, 2^92, which would overflow to a negative number.
  settings.align = 2147483647;
  settings.align_lcm = 2147483629;
  settings.strategy = PaddedSettings{};
  use<PaddedSettings>(settings).length_round = 1073741789;
  EXPECT_THROW((void)settings.alignment(), ConfigError);
  EXPECT_THROW(settings.validate(), ConfigError);
  settings.align_lcm = 1;
  EXPECT_THROW((void)settings.alignment(), ConfigError);
  settings.strategy = PackedSettings{};
  EXPECT_EQ(settings.alignment(), 2147483647);
  EXPECT_NO_THROW(settings.validate());
}

TEST(PlanSettings, sizes_that_would_overflow_sums_are_refused_by_key) {
  const auto expect_refused = [](auto member, const char* key) {
    PlanSettings settings;
    member(settings);
    try {
      settings.validate();
      ADD_FAILURE() << key << " was accepted";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.report().where, key);
      EXPECT_THAT(error.what(), HasSubstr("it must be at most 2147483647"));
    }
  };
  static constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  expect_refused([](PlanSettings& s) { s.align_lcm = huge; }, "pack.align_lcm");
  expect_refused([](PlanSettings& s) { s.micro_batch.max_tokens = huge; }, "micro_batch.max_tokens");
  expect_refused([](PlanSettings& s) { s.micro_batch.min_count = huge; }, "micro_batch.min_count");
  expect_refused([](PlanSettings& s) { s.micro_batch.multiple_of = huge; }, "micro_batch.multiple_of");
  expect_refused([](PlanSettings& s) { use<PaddedSettings>(s).length_round = huge; },
                 "micro_batch.length_round");
  expect_refused([](PlanSettings& s) { s.mini_batches.count = huge; }, "batch.mini_batches");
  expect_refused([](PlanSettings& s) { s.balance.speeds = {huge}; }, "balance.speeds");
}

TEST(PlanSettings, more_micro_batches_than_65536_of_a_step_without_samples_are_refused_by_key) {
  constexpr std::int64_t most = 1 << 16;
  const auto where = [](std::int64_t mini_batches, std::int64_t min_count, std::int64_t multiple) {
    PlanSettings settings;
    settings.mini_batches.count = mini_batches;
    settings.micro_batch.min_count = min_count;
    settings.micro_batch.multiple_of = multiple;
    try {
      settings.validate();
    } catch (const ConfigError& error) {
      return error.report().where;
    }
    return std::string("accepted");
  };
  EXPECT_EQ(where(most, 1, 1), "accepted");
  EXPECT_EQ(where(1 << 8, 1 << 7, 1 << 8), "accepted");
  EXPECT_EQ(where(most + 1, 1, 1), "batch.mini_batches");
  EXPECT_EQ(where(1, most + 1, 1), "micro_batch.min_count");
  EXPECT_EQ(where(1, 1, most + 1), "micro_batch.multiple_of");
  EXPECT_EQ(where(1 << 8, 1 << 9, 1), "micro_batch.min_count");
  EXPECT_EQ(where(3, 2, most / 2), "micro_batch.multiple_of");
}

TEST(PlanSettings, interleaved_pipelines_need_a_multiple_of_pp) {
  PlanSettings settings;
  settings.pp = 4;
  EXPECT_EQ(settings.count_multiple(), 1);
  settings.vpp = 2;
  EXPECT_EQ(settings.count_multiple(), 4);
  settings.micro_batch.multiple_of = 6;
  EXPECT_EQ(settings.count_multiple(), 6);
}

TEST(PlanSettings, a_cap_below_the_alignment_is_refused_with_both_numbers) {
  PlanSettings settings = settings_with(8, {4, CpLayout::zigzag});
  settings.micro_batch.max_tokens = 63;
  try {
    settings.validate();
    FAIL() << "the alignment is 64";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.report().where, "micro_batch.max_tokens");
    EXPECT_THAT(error.what(), HasSubstr("63 tokens"));
    EXPECT_THAT(error.what(), HasSubstr("64 tokens"));
  }
  settings.micro_batch.max_tokens = 64;
  EXPECT_NO_THROW(settings.validate());
}

TEST(PlanSettings, sizes_below_one_are_refused_by_key) {
  const auto expect_refused = [](auto member, const char* key) {
    PlanSettings settings;
    member(settings);
    try {
      settings.validate();
      ADD_FAILURE() << key << " was accepted";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.report().where, key);
    }
  };
  expect_refused([](PlanSettings& s) { s.dp = 0; }, "mesh.dp");
  expect_refused([](PlanSettings& s) { s.vpp = 0; }, "mesh.vpp");
  expect_refused([](PlanSettings& s) { s.align_lcm = 0; }, "pack.align_lcm");
  expect_refused([](PlanSettings& s) { s.micro_batch.max_tokens = 0; }, "micro_batch.max_tokens");
  expect_refused([](PlanSettings& s) { s.micro_batch.max_samples = 0; }, "micro_batch.max_samples");
  expect_refused([](PlanSettings& s) { s.micro_batch.min_count = 0; }, "micro_batch.min_count");
  expect_refused([](PlanSettings& s) { s.micro_batch.multiple_of = 0; }, "micro_batch.multiple_of");
}

/// Returns the rejected key and the text that the user reads; empty if the settings are accepted.
std::pair<std::string, std::string> refusal(const PlanSettings& settings) {
  try {
    settings.validate();
  } catch (const ConfigError& error) {
    return {error.report().where, error.what()};
  }
  return {};
}

PlanSettings with_speeds(std::vector<std::int64_t> speeds, int dp) {
  PlanSettings settings;
  settings.dp = dp;
  settings.balance.speeds = std::move(speeds);
  return settings;
}

TEST(PlanSettings, speeds_are_one_per_dp_rank_and_positive) {
  EXPECT_EQ(refusal(with_speeds({1000, 500}, 2)).first, "");
  EXPECT_EQ(refusal(with_speeds({}, 2)).first, "");
  const auto [key, message] = refusal(with_speeds({1000, 500}, 3));
  EXPECT_EQ(key, "balance.speeds");
  EXPECT_THAT(message, HasSubstr("2 speeds for 3 DP ranks"));
  EXPECT_EQ(refusal(with_speeds({1000, 0}, 2)).first, "balance.speeds");
}

TEST(PlanSettings, speeds_are_refused_if_assignment_does_not_depend_on_work_alone) {
  const auto expect_refused = [](auto change, const char* refused, const char* hint) {
    PlanSettings settings = with_speeds({1000, 500}, 2);
    change(settings);
    const auto [key, message] = refusal(settings);
    EXPECT_EQ(key, refused);
    EXPECT_THAT(message, AllOf(HasSubstr("balance.speeds"), HasSubstr(hint)));
  };
  expect_refused([](PlanSettings& s) { s.strategy = GridSettings{}; }, "balance.speeds",
                 "strategy: hierarchical");
  expect_refused([](PlanSettings& s) { s.strategy = ReferenceSettings{Preset::verl}; }, "balance.speeds",
                 "preset: none");
  expect_refused([](PlanSettings& s) { use<PackedSettings>(s).algorithm = BalanceAlgorithm::lpt; },
                 "balance.algorithm", "algorithm: auto");
  expect_refused([](PlanSettings& s) { use<PackedSettings>(s).refine = false; }, "balance.refine",
                 "refine: true");
  expect_refused([](PlanSettings& s) { use<FixedSettings>(s).equal_count = true; }, "balance.equal_count",
                 "equal_count: false");
  expect_refused([](PlanSettings& s) { s.strategy = PaddedSettings{}; }, "balance.speeds", "mode: packed");
}

TEST(PlanSettings, a_named_packing_determines_the_number_of_micro_batches) {
  PlanSettings both;
  use<PackedSettings>(both).packing = BinPacking::first_fit_decreasing;
  use<PackedSettings>(both).count = CountRule::fastest;
  EXPECT_EQ(refusal(both).first, "micro_batch.packing");
}

TEST(PlanSettings, flexible_groups_are_rejected_with_other_planners) {
  const auto expect_refused = [](auto change, const std::string& refused, const char* hint) {
    PlanSettings settings;
    settings.dp = 4;
    settings.strategy = ContextTreeSettings{4};
    EXPECT_EQ(refusal(settings).first, "");
    change(settings);
    const auto [key, message] = refusal(settings);
    EXPECT_EQ(key, refused);
    EXPECT_THAT(message, HasSubstr(hint));
    if (key != "mesh.cp") {
      EXPECT_THAT(message, HasSubstr("cannot be combined with mesh.cp: flexible"));
    }
  };
  expect_refused([](PlanSettings& s) { s.cp.size = 2; }, "mesh.cp", "with cp 1");
  expect_refused(
      [](PlanSettings& s) {
        s.mini_batches = {2, false, false};
      },
      "batch.keep_mini_batch", "keep_mini_batch: true");
  expect_refused([](PlanSettings& s) { s.align = 64; }, "pack.align", "pack.align: auto");
  expect_refused([](PlanSettings& s) { s.pp = 2; }, "mesh.cp", "strategy: grid");
  expect_refused([](PlanSettings& s) { s.micro_batch.min_count = 2; }, "mesh.cp", "strategy: grid");
}

TEST(PlanSettings, flexible_groups_are_as_fast_as_their_slowest_ranks) {
  PlanSettings settings = with_speeds({1000, 500, 2000, 1000}, 4);
  EXPECT_EQ(settings.speed_of(DpRank{0}, {DataPlace{0}, 2}), 1000);
  settings.strategy = ContextTreeSettings{4};
  EXPECT_EQ(refusal(settings).first, "");
  EXPECT_EQ(settings.speed_of(DpRank{0}, {DataPlace{0}, 2}), 500);
  EXPECT_EQ(settings.speed_of(DpRank{3}, {DataPlace{2}, 2}), 1000);
  EXPECT_EQ(settings.time_of(70, 1), 70);  // it is a time
  settings.balance.speeds.pop_back();
  const auto [key, message] = refusal(settings);
  EXPECT_EQ(key, "balance.speeds");
  EXPECT_THAT(message, HasSubstr("3 speeds for 4 DP ranks"));
  settings.balance.speeds.clear();
  EXPECT_EQ(settings.speed_of(DpRank{3}, {DataPlace{2}, 2}), 1000);
}

TEST(PlanSettings, a_cap_per_rank_grows_with_the_group_like_the_alignment) {
  PlanSettings settings;
  settings.dp = 8;
  settings.tp = 2;
  settings.strategy = ContextTreeSettings{8};
  settings.micro_batch.max_tokens = 100;
  EXPECT_EQ(settings.cap(1), 100);
  EXPECT_EQ(settings.cap(8), 800);
  EXPECT_EQ(settings.alignment(1), 2);
  EXPECT_EQ(settings.alignment(4), 16);
  settings.cp.layout = CpLayout::contiguous;
  EXPECT_EQ(settings.alignment(4), 8);
}

TEST(PlanSettings, communication_is_derived_from_the_cost_by_default) {
  PlanSettings settings;
  settings.balance.cost = CostModel{49152, 2};
  settings.tp = 4;
  EXPECT_EQ(settings.communication_cost(),
            (CommunicationCost{666, 5000, 2, 1000, 256 * 49152 + 2 * 256 * 256}));
  settings.balance.communication = {1, 2, 3, 500};
  settings.balance.overhead = 7;
  EXPECT_EQ(settings.communication_cost(), (CommunicationCost{1, 2, 3, 500, 7}));
}

TEST(PlanSettings, costs_of_flexible_groups_can_be_measured) {
  PlanSettings settings;
  settings.dp = 4;
  settings.strategy = ContextTreeSettings{4};
  settings.balance.measured = MeasuredCost{};
  EXPECT_EQ(refusal(settings).first, "");
  settings.strategy = ContextWavesSettings{4};
  EXPECT_EQ(refusal(settings).first, "");
}

TEST(PlanSettings, a_cap_too_small_for_one_sequence_in_any_group_size_is_refused) {
  PlanSettings settings;
  settings.dp = 8;
  settings.strategy = ContextTreeSettings{8};
  settings.align_lcm = 16;
  settings.micro_batch.max_tokens = 16;
  EXPECT_EQ(refusal(settings).first, "");
  settings.micro_batch.max_tokens = 15;
  EXPECT_THAT(
      refusal(settings).second,
      testing::HasSubstr(
          "cap of 15 tokens is below the alignment of one sequence, 16 tokens, in a CP group of 1 rank"));
}

TEST(PlanSettings, presets_cannot_measure_their_costs) {
  PlanSettings settings;
  settings.balance.measured = MeasuredCost{};
  EXPECT_EQ(refusal(settings).first, "");
  settings.strategy = ReferenceSettings{Preset::mindspeed_rl};
  EXPECT_EQ(refusal(settings).first, "balance.cost");
  settings.strategy = PackedSettings{};
  settings.balance.measured->every = 0;
  EXPECT_EQ(refusal(settings).first, "balance.cost: measured: every");
}

TEST(PlanSettings, presets_keep_their_own_orders) {
  PlanSettings settings;
  settings.micro_batch.order = MicroBatchOrder::schedule;
  EXPECT_NO_THROW(settings.validate());
  for (const Preset preset : {Preset::verl, Preset::roll, Preset::mindspeed_rl}) {
    settings.strategy = ReferenceSettings{preset};
    EXPECT_EQ(refusal(settings).first, "micro_batch.order");
  }
}

TEST(PlanSettings, time_is_work_of_the_slowest_rank) {
  const PlanSettings settings = with_speeds({1000, 500, 2000}, 3);
  EXPECT_EQ(settings.time_of(600, 0), 300);
  EXPECT_EQ(settings.time_of(600, 1), 600);
  EXPECT_EQ(settings.time_of(600, 2), 150);
  constexpr Cost huge = (Cost{1} << 62) - 1;
  EXPECT_EQ(settings.time_of(huge, 1), huge);
  EXPECT_EQ(settings.time_of(huge, 2), huge / 4);
  EXPECT_EQ(with_speeds({}, 3).time_of(huge, 2), huge);
}

}  // namespace
}  // namespace evenkeel
