#include "plan/micro_batches/shape_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "support/error_message.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::context_groups;
using testing_support::use;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PlanSettings settings_of(std::int64_t cap, std::int64_t shapes, std::int64_t max_samples = 8) {
  PlanSettings settings;
  settings.micro_batch.max_tokens = cap;
  settings.micro_batch.shapes = shapes;
  settings.micro_batch.max_samples = max_samples;
  return settings;
}

/// Returns the rows of micro-batches in the smallest shapes that hold them, over all ranks of their groups.
std::int64_t rows_in(std::span<const PackedShape> shapes, std::span<const PassNeeds> passes) {
  std::int64_t rows = 0;
  for (const PassNeeds& pass : passes)
    for (const PackedShape& needed : pass.needed)
      rows += smallest_fitting_shape(needed, shapes, *pass.settings).rows * needed.cp;
  return rows;
}

std::vector<PackedShape> with(std::vector<PackedShape> shapes, std::span<const PackedShape> more) {
  shapes.insert(shapes.end(), more.begin(), more.end());
  return shapes;
}

/// Returns the minimum number of rows with this many new shapes with any number of rows, for groups of any
/// size; a shape holds all micro-batches with at most that many rows.
std::int64_t fewest_rows(const std::vector<PackedShape>& shapes, std::span<const PassNeeds> passes,
                         std::int64_t number, std::int64_t cap, std::int64_t above = 1, std::int64_t cp = 1) {
  std::int64_t fewest = rows_in(shapes, passes);
  if (number == 0) return fewest;
  for (; cp <= passes.front().settings->largest_group(); cp *= 2, above = 1) {
    for (std::int64_t rows = above; rows <= cap; ++rows) {
      const std::vector<PackedShape> more =
          with(shapes, std::vector<PackedShape>{{rows, 1000, cp * rows, cp}});
      fewest = std::min(fewest, fewest_rows(more, passes, number - 1, cap, rows + 1, cp));
    }
  }
  return fewest;
}

std::vector<PackedShape> random_needs(std::mt19937_64& random, std::int64_t max_rows, std::size_t count) {
  std::vector<PackedShape> needs;
  for (std::size_t i = 0; i < count; ++i) {
    const auto rows = static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(max_rows));
    const auto sequences = static_cast<std::int64_t>(
        1 + random() % std::min<std::uint64_t>(8, static_cast<std::uint64_t>(rows)));
    const auto longest = static_cast<std::int64_t>(
        (rows + sequences - 1) / sequences +
        static_cast<std::int64_t>(random() %
                                  static_cast<std::uint64_t>(rows - (rows + sequences - 1) / sequences + 1)));
    needs.push_back({rows, sequences, longest});
  }
  return needs;
}

TEST(ShapeChoice, minimizes_padding_for_the_number_of_shapes) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    const auto cap = static_cast<std::int64_t>(6 + random() % 12);
    const auto most = static_cast<std::int64_t>(1 + random() % 10);
    const PlanSettings narrow = settings_of(cap, most);
    const PlanSettings wide = settings_of(cap + 4, most);
    std::vector<PassNeeds> passes{{&wide, random_needs(random, cap + 4, 1 + random() % 6)}};
    if (trial % 2 == 0 && most > 1) passes.push_back({&narrow, random_needs(random, cap, 1 + random() % 6)});
    std::vector<PackedShape> shapes{largest_shape(wide, 1)};
    if (passes.size() > 1) shapes.push_back(largest_shape(narrow, 1));
    while (true) {
      const std::vector<PackedShape> added = shapes_to_add(passes, shapes);
      const std::int64_t free = most - std::ssize(shapes);
      EXPECT_LE(std::ssize(added), (free + 2) / 3);
      EXPECT_EQ(rows_in(with(shapes, added), passes),
                fewest_rows(shapes, passes, std::ssize(added), cap + 4));
      if (added.empty()) break;
      shapes = with(shapes, added);
    }
    // Numbers of rows are so small here that saving a single row is worth a shape.
    if (std::ssize(shapes) < most) {
      EXPECT_EQ(rows_in(shapes, passes), fewest_rows(shapes, passes, 1, cap + 4));
    }
  }
}

TEST(ShapeChoice, adds_shapes_for_the_group_size_where_they_save_most_over_all_ranks) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const auto cap = static_cast<std::int64_t>(6 + random() % 4);
    const auto most = static_cast<std::int64_t>(3 + random() % 5);
    PlanSettings settings = settings_of(cap, most);
    settings.dp = 4;
    settings.strategy = ContextTreeSettings{4};
    settings.cp.layout = CpLayout::contiguous;
    std::vector<PassNeeds> passes{{&settings, {}}};
    for (const std::int64_t cp : {1, 2, 4}) {
      for (PackedShape needed : random_needs(random, cap, random() % 4)) {
        needed.cp = cp;
        needed.max_seqlen *= cp;
        passes.front().needed.push_back(needed);
      }
    }
    if (passes.front().needed.empty()) continue;
    std::vector<PackedShape> shapes = initial_shapes(std::vector{settings});
    EXPECT_EQ(shapes.size(), 3U);
    const std::vector<PackedShape> added = shapes_to_add(passes, shapes);
    EXPECT_EQ(rows_in(with(shapes, added), passes), fewest_rows(shapes, passes, std::ssize(added), cap));
  }
}

TEST(ShapeChoice, does_not_depend_on_the_order_of_micro_batches) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    const PlanSettings settings = settings_of(1 << 15, 8);
    const std::vector<PackedShape> shapes{largest_shape(settings, 1)};
    std::vector<PassNeeds> passes{{&settings, random_needs(random, 1 << 15, 40)}};
    const std::vector<PackedShape> chosen = shapes_to_add(passes, shapes);
    EXPECT_FALSE(chosen.empty());
    std::ranges::shuffle(passes.front().needed, random);
    EXPECT_EQ(shapes_to_add(passes, shapes), chosen);
  }
}

TEST(ShapeChoice, has_rows_in_multiples_of_a_128th_of_the_cap_and_a_margin_of_two_for_sequences) {
  const PlanSettings settings = settings_of(1 << 14, 4, 1000);
  const std::vector<PassNeeds> passes{{&settings, {{5000, 10, 3000}, {5100, 12, 900}}}};
  const std::vector<PackedShape> largest{largest_shape(settings, 1)};
  EXPECT_THAT(largest, ElementsAre(PackedShape{1 << 14, 1002, 1 << 14}));
  // 40 * 128 rows; two sequences of at most 5120 could save all of them.
  EXPECT_THAT(shapes_to_add(passes, largest), ElementsAre(PackedShape{5120, 2 * 12 + 1 + 1, 5120}));
}

TEST(ShapeChoice, has_no_more_sequences_than_a_fixed_micro_batch_has_samples_filler_and_padding) {
  PlanSettings settings = settings_of(300, 4, 300);
  settings.strategy = FixedSettings{};
  use<FixedSettings>(settings).size = 3;
  const std::vector<PackedShape> largest{largest_shape(settings, 1)};
  EXPECT_THAT(largest, ElementsAre(PackedShape{300, 3 + 1 + 1, 300}));
  const std::vector<PassNeeds> passes{{&settings, {{100, 3, 60}, {90, 2, 80}}}};
  EXPECT_THAT(shapes_to_add(passes, largest), ElementsAre(PackedShape{100, 3 + 1 + 1 + 1, 100}));
}

TEST(ShapeChoice, adds_only_shapes_that_save_a_400th_of_the_rows) {
  const PlanSettings settings = settings_of(1 << 14, 8);
  const std::vector<PackedShape> largest{largest_shape(settings, 1)};
  const auto added = [&](std::int64_t rows) {
    const std::vector<PassNeeds> passes{{&settings, {{rows, 1, rows}, {1 << 14, 1, 1 << 14}}}};
    return shapes_to_add(passes, largest).size();
  };
  EXPECT_EQ(added((1 << 14) - 128), 1U);
  // 64 of 32704 rows are below the threshold, even with a shape of exactly the right size.
  EXPECT_EQ(added((1 << 14) - 64), 0U);
}

TEST(ShapeChoice, adds_no_shape_if_alignments_have_no_common_multiple_below_the_cap) {
  PlanSettings settings = settings_of(100, 8);
  settings.align_lcm = 9;
  PlanSettings other = settings_of(100, 8);
  other.align_lcm = 16;
  const std::vector<PassNeeds> passes{{&settings, {{9, 1, 9}}}, {&other, {{16, 1, 16}}}};
  const std::vector<PackedShape> shapes{largest_shape(settings, 1), largest_shape(other, 1)};
  EXPECT_THAT(shapes_to_add(passes, shapes), IsEmpty());
}

TEST(FirstShapes, contain_the_largest_shape_of_each_kind_of_pass_once) {
  const PlanSettings wide = settings_of(1000, 2);
  const PlanSettings narrow = settings_of(500, 2);
  EXPECT_THAT(initial_shapes(std::vector{narrow, wide, narrow}),
              ElementsAre(PackedShape{1000, 10, 1000}, PackedShape{500, 10, 500}));
  EXPECT_THAT(initial_shapes(std::vector{PlanSettings{}}), IsEmpty());
}

TEST(FirstShapes, reject_too_many_shapes_and_passes_without_shapes) {
  const std::vector<PlanSettings> caps{settings_of(1000, 1), settings_of(500, 1)};
  EXPECT_THAT(testing_support::message_of([&] { (void)initial_shapes(caps); }),
              HasSubstr("is 1, but 2 shapes are required"));
  for (const std::vector<PlanSettings>& passes :
       {std::vector{settings_of(1000, 4), settings_of(1000, 5)}, {settings_of(1000, 4), PlanSettings{}}})
    EXPECT_THAT(testing_support::message_of([&] { (void)initial_shapes(passes); }),
                HasSubstr("differs between profiles"));
}

/// Steps with increasing lengths: samples of up to `longest` tokens, some with none.
LengthTable table_of(std::mt19937_64& random, std::int64_t longest) {
  std::vector<LengthEntry> entries;
  const auto samples = static_cast<std::int64_t>(random() % 60);
  for (std::int64_t id = 0; id < samples; ++id) {
    const auto length = random() % 9 == 0 ? 0 : random() % static_cast<std::uint64_t>(longest + 1);
    entries.push_back({{SampleId{id}, 0, 0, static_cast<std::int64_t>(length)},
                       WorldRank{0},
                       static_cast<std::int32_t>(id),
                       -1,
                       0});
  }
  return LengthTable(std::move(entries));
}

TEST(ShapeChoice, covers_every_micro_batch_below_the_cap_with_the_allowed_number_of_shapes) {
  std::mt19937_64 random(6);
  for (int run = 0; run < 60; ++run) {
    PlanSettings settings = settings_of(64 + static_cast<std::int64_t>(random() % 200),
                                        1 + static_cast<std::int64_t>(random() % 6),
                                        1 + static_cast<std::int64_t>(random() % 20));
    settings.dp = 1 + static_cast<int>(random() % 3);
    settings.cp.size = 1 + static_cast<int>(random() % 2);
    settings.align_lcm = 1 + static_cast<std::int64_t>(random() % 5);
    const auto size = 1 + static_cast<std::int64_t>(random() % 9);
    if (run % 3 == 0) use<FixedSettings>(settings).size = size;
    if (run % 3 == 1) settings.strategy = GridSettings{};
    if (run % 6 == 5) {
      settings.dp = 4;
      settings.cp.size = 1;
      settings.strategy = context_groups(4, run % 12 != 5);
      settings.balance.meet = run % 12 == 5 ? SyncPoint::step : SyncPoint::micro_batch;
      *settings.micro_batch.shapes += 3;
    }
    settings.validate();
    std::vector<PackedShape> shapes = initial_shapes(std::vector{settings});
    const std::int64_t alignment = settings.alignment(settings.largest_group());
    const std::int64_t longest = settings.cap(settings.largest_group()) / alignment * alignment;
    const std::int64_t steps =
        settings.find<ContextGroupSettings>() != nullptr ? 3 : 12;  // plans of groups take longer
    for (std::int64_t step = 0; step < steps; ++step) {
      const LengthTable table = table_of(random, longest * (step + 1) / steps);
      const StepPlan plan = plan_step({table, settings, step, {}});
      PassNeeds pass{&settings, {}};
      for (const DpRankPlan& rank : plan.ranks)
        for (const MicroBatchPlan& m : rank.micro_batches)
          pass.needed.push_back(
              needed_shape(table, m, settings));  // once per rank: the same for all ranks of a group
      const std::vector<PackedShape> added = shapes_to_add(std::span(&pass, 1), shapes);
      for (const PackedShape& shape : added)
        for (const PackedShape& needed : pass.needed)
          if (needed.rows <= shape.rows && needed.cp == shape.cp) {
            EXPECT_TRUE(shape.holds(needed, settings.alignment(static_cast<int>(needed.cp))));
          }
      shapes = with(shapes, added);
      ASSERT_LE(std::ssize(shapes), *settings.micro_batch.shapes);
      for (const PackedShape& needed : pass.needed) {
        const PackedShape shape = smallest_fitting_shape(needed, shapes, settings);
        EXPECT_TRUE(shape.holds(needed, settings.alignment(static_cast<int>(needed.cp))));
        EXPECT_LE(shape.rows * settings.cp.size, settings.micro_batch.max_tokens);
        EXPECT_NE(std::ranges::find(shapes, shape), shapes.end());
      }
    }
  }
}

TEST(SmallestShape, rejects_a_step_planned_with_other_settings) {
  const PlanSettings settings = settings_of(1000, 2);
  EXPECT_THAT(
      testing_support::message_of([&] {
        (void)smallest_fitting_shape({600, 1, 600}, std::vector<PackedShape>{{500, 9, 500}}, settings);
      }),
      HasSubstr("no shape of this step (it has 1) is large enough for a micro-batch with 600 rows"));
}

}  // namespace
}  // namespace evenkeel
