#include "plan/transfer/carried_fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "plan/transfer/field_transfers.hpp"
#include "support/report_of.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::report_of;
using Layers = std::vector<std::int64_t>;

const FieldSpec token_field{"input_ids", DType::int64, FieldKind::token, {}};
const FieldSpec experts{"experts", DType::int16, FieldKind::token, {4, 3}};

FieldRouting ways_of(const FieldSettings& settings, IntegerRange range = {0, 0}, int pp = 2) {
  FieldRouting ways;
  ways.settings["experts"] = settings;
  ways.ranges["experts"] = range;
  ways.pp = pp;
  return ways;
}

FieldSettings narrow() {
  FieldSettings settings;
  settings.wire_dtype = FieldWidth::narrow;
  return settings;
}

DType wire_of(DType brought, IntegerRange range) {
  FieldSpec spec = experts;
  spec.dtype = brought;
  return carried_fields(std::vector{spec}, ways_of(narrow(), range)).front().spec.dtype;
}

TEST(CarriedFields, without_settings_are_sent_unchanged) {
  const std::vector<CarriedField> carried = carried_fields(std::vector{token_field, experts});
  ASSERT_EQ(carried.size(), 2U);
  EXPECT_EQ(carried[1].spec, experts);
  EXPECT_FALSE(carried[1].stage);
  EXPECT_TRUE(std::ranges::none_of(carried, is_field_changed));
}

TEST(CarriedFields, with_layers_are_sent_once_per_stage) {
  const std::vector<CarriedField> carried =
      carried_fields(std::vector{token_field, experts}, ways_of({LayerMap{{{3, 0}, {1, 2, 3}}}}));
  ASSERT_EQ(carried.size(), 3U);
  EXPECT_FALSE(is_field_changed(carried[0]));
  for (int stage = 0; stage < 2; ++stage) {
    const auto transfers = field_transfers(carried, {stage, 2}, false);
    const auto found =
        std::ranges::find_if(transfers, [](const auto& t) { return t.spec.name == "experts"; });
    ASSERT_NE(found, transfers.end());
    EXPECT_THAT(found->spec.trailing, ElementsAre(stage == 0 ? 2 : 3, 3));
    EXPECT_TRUE(is_field_changed(carried[found->source]));
    EXPECT_EQ(*carried[found->source].layers, stage == 0 ? (Layers{3, 0}) : (Layers{1, 2, 3}));
    EXPECT_EQ(std::ranges::count_if(transfers, [](const auto& t) { return t.spec.name == "experts"; }), 1);
  }
}

TEST(CarriedFields, are_sent_in_the_smallest_type_that_holds_every_element) {
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

TEST(CarriedFields, are_delivered_in_the_original_or_the_sent_type) {
  FieldSettings settings = narrow();
  for (const DType delivered_dtype : {DType::int16, DType::uint8}) {
    const auto carried = carried_fields(std::vector{experts}, ways_of(settings));
    EXPECT_EQ(carried.front().spec.dtype, DType::uint8);
    EXPECT_EQ(carried.front().delivered_dtype, delivered_dtype);
    EXPECT_EQ(field_transfers(carried, {1, 2}, false).front().spec.dtype, delivered_dtype)
        << "the consumer's column";
    settings.dtype = FieldWidth::narrow;
  }
}

TEST(CarriedFields, are_not_narrowed_if_nothing_is_sent_and_the_original_type_is_delivered) {
  FieldRouting ways = ways_of(narrow());
  ways.sends_messages = false;
  ways.ranges.clear();  // as if no ranges had been computed
  EXPECT_FALSE(is_field_changed(carried_fields(std::vector{experts}, ways).front()));
  const FieldSpec floats{experts.name, DType::float32, experts.kind, experts.trailing};
  EXPECT_THROW((void)carried_fields(std::vector{floats}, ways), InputError) << "refused all the same";

  FieldSettings settings = narrow();
  settings.dtype = FieldWidth::narrow;
  ways = ways_of(settings);
  ways.sends_messages = false;
  EXPECT_EQ(carried_fields(std::vector{experts}, ways).front().delivered_dtype, DType::uint8);
}

TEST(CarriedFields, are_refused_by_name_if_they_contradict_their_settings) {
  FieldSpec wrong = experts;
  wrong.trailing.clear();
  const auto refusal = [&](const FieldSettings& settings) {
    const ErrorReport report =
        report_of<InputError>([&] { (void)carried_fields(std::vector{wrong}, ways_of(settings)); });
    EXPECT_EQ(report.where, "field 'experts'");
    return report.message;
  };
  EXPECT_THAT(refusal({LayerMap{}}), HasSubstr("one element per row"));
  wrong.trailing = {3};
  EXPECT_THAT(refusal({LayerMap{}}), HasSubstr("has 3 layers"));
  wrong.dtype = DType::float32;
  EXPECT_THAT(refusal(narrow()), HasSubstr("float32, but only integers can be narrowed"));
  wrong.dtype = DType::boolean;
  EXPECT_THAT(refusal(narrow()), HasSubstr("bool, but only integers can be narrowed"));
  wrong = {"experts", DType::int64, FieldKind::rows, {3}};
  EXPECT_THAT(refusal(narrow()), HasSubstr("cannot be split by layers or narrowed"));
  EXPECT_THAT(refusal({LayerMap{}}), HasSubstr("is of kind rows, so each sample has its own number of rows"));
}

TEST(CarriedFields, with_shared_values_are_counted_and_not_sent_per_sample) {
  FieldSettings settings;
  settings.share = FieldSharing::equal;
  FieldSpec images{"experts", DType::int16, FieldKind::rows, {4, 3}};
  const std::vector<CarriedField> carried =
      carried_fields(std::vector{token_field, images}, ways_of(settings));
  EXPECT_TRUE(carried[1].shares_equal);
  EXPECT_FALSE(is_field_changed(carried[1])) << "owners send from what they were brought";
  EXPECT_EQ(field_transfers(carried, {1, 2}, false).size(), 1U);
  for (const FieldKind kind : {FieldKind::token, FieldKind::response_token, FieldKind::sample}) {
    images.kind = kind;
    const ErrorReport report =
        report_of<InputError>([&] { (void)carried_fields(std::vector{images}, ways_of(settings)); });
    EXPECT_EQ(report.where, "field 'experts'");
    EXPECT_EQ(report.hint, "Set fields.experts.share: none");
  }
}

TEST(CarriedFields, are_sent_only_in_passes_of_their_profiles) {
  FieldRouting ways = ways_of({LayerMap{}, FieldWidth::original});
  ways.settings["experts"].profiles = {"encoder", "model"};
  const std::vector<CarriedField> carried = carried_fields(std::vector{token_field, experts}, ways);
  ASSERT_EQ(carried.size(), 3U) << "layers of two stages";
  for (const char* profile : {"encoder", "model"}) EXPECT_EQ(fields_for_profile(profile, carried), carried);
  for (const char* profile : {"", "enc"})
    EXPECT_EQ(fields_for_profile(profile, carried), std::vector{carried.front()}) << profile;
}

FieldRouting cut_ways() {
  FieldRouting ways;
  ways.settings["patches"].cut_by = "spans";
  return ways;
}

const FieldSpec patches{"patches", DType::uint8, FieldKind::rows, {6}};
const FieldSpec spans{"spans", DType::int64, FieldKind::rows, {2}};

TEST(CarriedFields, are_cut_together_with_the_field_of_token_ranges) {
  const std::vector<CarriedField> carried =
      carried_fields(std::vector{patches, spans, token_field}, cut_ways());
  EXPECT_EQ(carried[0].cut_by, "spans");
  EXPECT_EQ(carried[1].cut_by, "spans");
  EXPECT_EQ(carried[2].cut_by, "");
  EXPECT_TRUE(is_field_changed(carried[0]));
  FieldRouting alone;
  alone.settings["spans"].cut_by = "spans";
  EXPECT_EQ(carried_fields(std::vector{spans}, alone).front().cut_by, "spans");
}

TEST(CarriedFields, are_refused_by_name_if_they_cannot_be_cut) {
  const auto refusal = [](std::vector<FieldSpec> brought, const FieldRouting& ways = cut_ways()) {
    const ErrorReport report = report_of<InputError>([&] { (void)carried_fields(brought, ways); });
    return report.where + ": " + report.message;
  };
  EXPECT_THAT(refusal({patches, token_field}),
              HasSubstr("field 'patches': is cut by 'spans', which was not provided with it"));
  FieldSpec wrong = patches;
  for (const FieldKind kind : {FieldKind::token, FieldKind::sample, FieldKind::text, FieldKind::bytes}) {
    wrong.kind = kind;
    EXPECT_THAT(refusal({wrong, spans}), HasSubstr("field 'patches': is of kind "));
  }
  for (const auto& [form, description] :
       {std::pair{FieldSpec{"spans", DType::int32, FieldKind::rows, {2}},
                  "an int32 rows field with rows of shape [2]"},
        std::pair{FieldSpec{"spans", DType::int64, FieldKind::rows, {3}},
                  "an int64 rows field with rows of shape [3]"},
        std::pair{FieldSpec{"spans", DType::int64, FieldKind::sample, {2, 2}},
                  "an int64 sample field with rows of shape [2, 2]"}}) {
    EXPECT_THAT(refusal({patches, form}),
                HasSubstr("field 'spans': is named by fields.patches.cut_by, but is " +
                          std::string(description) + "; it must be int64 rows of shape [2]"));
  }
  FieldRouting ways = cut_ways();
  ways.settings["spans"].share = FieldSharing::equal;
  EXPECT_THAT(refusal({patches, spans}, ways),
              HasSubstr("field 'spans': is named by fields.patches.cut_by, but has share: equal"));
  ways = cut_ways();
  ways.settings["spans"].cut_by = "patches";
  EXPECT_THAT(refusal({patches, spans}, ways),
              HasSubstr("fields.spans.cut_by: is 'patches', but fields.patches.cut_by is 'spans'"));
}

}  // namespace
}  // namespace evenkeel
