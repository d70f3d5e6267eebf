#include "evenkeel/plan/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

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

}  // namespace
}  // namespace evenkeel
