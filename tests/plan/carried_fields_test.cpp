#include "plan/carried_fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "plan/field_transfers.hpp"
#include "support/made_up_batch.hpp"
#include "support/report_of.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::report_of;
using Layers = std::vector<std::int64_t>;

const FieldSpec tokens{"input_ids", DType::int64, FieldKind::token, {}};
const FieldSpec experts{"experts", DType::int16, FieldKind::token, {4, 3}};

FieldWays ways_of(const FieldSettings& settings, IntegerRange range = {0, 0}, int pp = 2) {
  FieldWays ways;
  ways.settings["experts"] = settings;
  ways.ranges["experts"] = range;
  ways.pp = pp;
  return ways;
}

FieldSettings narrow() {
  FieldSettings settings;
  settings.wire = FieldWidth::narrow;
  return settings;
}

DType wire_of(DType brought, IntegerRange range) {
  FieldSpec spec = experts;
  spec.dtype = brought;
  return carried_fields(std::vector{spec}, ways_of(narrow(), range)).front().spec.dtype;
}

TEST(CarriedFields, without_settings_travel_as_they_are) {
  const std::vector<CarriedField> carried = carried_fields(std::vector{tokens, experts});
  ASSERT_EQ(carried.size(), 2U);
  EXPECT_EQ(carried[1].spec, experts);
  EXPECT_EQ(carried[1].name, "experts");
  EXPECT_FALSE(carried[1].stage);
  EXPECT_FALSE(changes_fields(carried));
}

TEST(CarriedFields, with_layers_travel_once_for_each_stage_that_is_sent_its_own) {
  const std::vector<CarriedField> carried =
      carried_fields(std::vector{tokens, experts}, ways_of({LayerMap{{{3, 0}, {1, 2, 3}}}}));
  ASSERT_EQ(carried.size(), 3U);
  EXPECT_TRUE(changes_fields(carried));
  for (int stage = 0; stage < 2; ++stage) {
    const auto transfers = field_transfers(carried, {stage, 2}, false);
    const auto found =
        std::ranges::find_if(transfers, [](const auto& t) { return t.spec.name == "experts"; });
    ASSERT_NE(found, transfers.end());
    EXPECT_THAT(found->spec.trailing, ElementsAre(stage == 0 ? 2 : 3, 3));
    EXPECT_EQ(*carried[found->source].layers, stage == 0 ? (Layers{3, 0}) : (Layers{1, 2, 3}));
    EXPECT_EQ(std::ranges::count_if(transfers, [](const auto& t) { return t.spec.name == "experts"; }), 1);
  }
}

TEST(CarriedFields, travel_in_the_smallest_type_that_holds_every_element) {
  EXPECT_EQ(wire_of(DType::int16, {0, 255}), DType::uint8);
  EXPECT_EQ(wire_of(DType::int16, {0, 256}), DType::int16);
  EXPECT_EQ(wire_of(DType::int16, {-1, 127}), DType::int8);
  EXPECT_EQ(wire_of(DType::int16, {-128, 127}), DType::int8);
  EXPECT_EQ(wire_of(DType::int16, {-129, 0}), DType::int16);
  EXPECT_EQ(wire_of(DType::int16, {-1, 128}), DType::int16);
  EXPECT_EQ(wire_of(DType::int64, {0, 65535}), DType::uint16);
  EXPECT_EQ(wire_of(DType::int64, {0, 65536}), DType::uint32);
  EXPECT_EQ(wire_of(DType::int64, {-1, 65535}), DType::int32);
  EXPECT_EQ(wire_of(DType::int64, {0, 4294967296}), DType::int64);
  EXPECT_EQ(wire_of(DType::int64, {-2147483649, 0}), DType::int64);
  EXPECT_EQ(wire_of(DType::int8, {0, 100}), DType::int8);
  EXPECT_EQ(wire_of(DType::int64, {}), DType::uint8) << "nobody has an element";
}

TEST(CarriedFields, are_handed_out_as_brought_or_as_they_travelled) {
  FieldSettings settings = narrow();
  EXPECT_EQ(carried_fields(std::vector{experts}, ways_of(settings)).front().handed_out, DType::int16);
  settings.hand_out = FieldWidth::narrow;
  EXPECT_EQ(carried_fields(std::vector{experts}, ways_of(settings)).front().handed_out, DType::uint8);
}

TEST(CarriedFields, that_are_not_what_their_settings_need_are_refused_by_name) {
  FieldSpec wrong = experts;
  wrong.trailing.clear();
  const auto refusal = [&](const FieldSettings& settings) {
    const ErrorReport report =
        report_of<InputError>([&] { (void)carried_fields(std::vector{wrong}, ways_of(settings)); });
    EXPECT_EQ(report.where, "field 'experts'");
    return report.message;
  };
  EXPECT_THAT(refusal({LayerMap{}}), HasSubstr("one element a row"));
  wrong.trailing = {3};
  EXPECT_THAT(refusal({LayerMap{}}), HasSubstr("has 3 layers"));
  wrong.dtype = DType::float32;
  EXPECT_THAT(refusal(narrow()), HasSubstr("float32, and only integers are narrowed"));
  wrong.dtype = DType::boolean;
  EXPECT_THAT(refusal(narrow()), HasSubstr("bool, and only integers are narrowed"));
  wrong = {"experts", DType::int64, FieldKind::rows, {3}};
  EXPECT_THAT(refusal(narrow()), HasSubstr("neither split by layers nor narrowed"));
  EXPECT_THAT(refusal({LayerMap{}}), HasSubstr("is of rows, which samples count"));
}

TEST(Carry, gives_each_stage_a_column_of_its_layers_and_leaves_the_others) {
  RaggedBatch samples = testing_support::made_up_batch(
      {{SampleId{0}, 1, 2, 1}, {SampleId{1}, 2, 0, 0}, {SampleId{2}, 3, 0, 2}}, {});
  Column& column = samples.add_field(experts);
  for (std::size_t i = 0; i < 60; ++i) column.values<std::int16_t>()[i] = static_cast<std::int16_t>(i);
  const RaggedBatch before = samples;
  FieldSettings settings{LayerMap{}, FieldWidth::narrow};
  const auto carried = carried_fields(std::vector{tokens, experts}, ways_of(settings, {0, 59}));
  const RaggedBatch after = carry(std::move(samples), carried);
  EXPECT_EQ(after.at("input_ids"), before.at("input_ids"));
  EXPECT_EQ(after.find("experts"), nullptr);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    const Column& part = after.at(carried[1 + stage].spec.name);
    EXPECT_THAT(part.spec().trailing, ElementsAre(2, 3));
    const auto values = part.values<std::uint8_t>();
    for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(values[i], i / 6 * 12 + stage * 6 + i % 6);
  }
}

TEST(Carry, without_changes_copies_nothing) {
  RaggedBatch samples = testing_support::made_up_batch({{SampleId{0}, 1, 2, 1}}, std::vector{experts});
  const std::byte* const first = std::as_const(samples).at("experts").row(0);
  const auto carried = carried_fields(std::vector{tokens, experts});
  EXPECT_EQ(carry(std::move(samples), carried).at("experts").row(0), first);
}

}  // namespace
}  // namespace evenkeel
