// Settings of single fields.
#include <gtest/gtest.h>

#include "config/fixtures.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel {
namespace {

using test::parse;

TEST(ConfigFields, have_settings_by_name) {
  const Config config = parse(
      "mesh: {pp: 2}\n"
      "field: {wire_dtype: narrow}\n"
      "fields:\n"
      "  routed_experts: {layers: stage, dtype: narrow}\n"
      "  logits: {layers: [[0, 2], [1]], wire_dtype: original}\n"
      "  ids: {}\n");
  ASSERT_EQ(config.fields.size(), 3U);
  EXPECT_EQ(config.fields.at("routed_experts"),
            (FieldSettings{LayerMap{}, FieldWidth::narrow, FieldWidth::narrow}));
  EXPECT_EQ(config.fields.at("logits").layers, (LayerMap{{{0, 2}, {1}}}));
  EXPECT_EQ(config.fields.at("logits").wire_dtype, FieldWidth::original);
  EXPECT_EQ(config.fields.at("ids"), config.field);
  EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigFields, have_the_profiles_whose_passes_get_them) {
  const Config config = parse(
      "profiles: {encoder: {}, all: {}, model: {}}\n"
      "fields:\n"
      "  patches: {profiles: [encoder, all]}\n"
      "  masks: {profiles: [all]}\n"
      "  texts: {profiles: all}\n");
  EXPECT_EQ(config.fields.at("patches").profiles, (std::vector<std::string>{"encoder", "all"}));
  EXPECT_EQ(config.fields.at("masks").profiles, std::vector<std::string>{"all"})
      << "the profile of that name";
  EXPECT_TRUE(config.fields.at("texts").profiles.empty()) << "every pass";
  EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigFields, have_stages_formats_and_sharing) {
  const Config config = parse(
      "fields:\n"
      "  data_source: {read_as: text, stage: first}\n"
      "  patches: {read_as: rows, stage: all, share: equal}\n"
      "  positions: {read_as: axes}\n"
      "  versions: {read_as: runs}\n"
      "  images: {read_as: rows, cut_by: spans}\n"
      "  frames: {cut_by: null}\n");
  EXPECT_EQ(config.fields.at("data_source").read_as, LineFormat::text);
  EXPECT_EQ(config.fields.at("data_source").stage, FieldStages::first);
  EXPECT_EQ(config.fields.at("patches").read_as, LineFormat::rows);
  EXPECT_EQ(config.fields.at("patches").stage, FieldStages::all);
  EXPECT_EQ(config.fields.at("positions").read_as, LineFormat::axes);
  EXPECT_EQ(config.fields.at("versions").read_as, LineFormat::runs);
  EXPECT_EQ(config.fields.at("patches").share, FieldSharing::equal);
  EXPECT_EQ(config.fields.at("data_source").share, FieldSharing::none);
  EXPECT_EQ(config.fields.at("images").cut_by, "spans");
  EXPECT_EQ(config.fields.at("frames").cut_by, "");
  EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigFields, may_be_made_and_changed_by_overrides) {
  const std::vector<std::string> overrides{"fields.x.layers=stage", "fields.x.wire_dtype=narrow",
                                           "fields.y={}"};
  const Config config = parse_config("fields: {x: {layers: null}}\n", "job.yaml", overrides);
  EXPECT_EQ(config.fields.at("x"), (FieldSettings{LayerMap{}, FieldWidth::narrow}));
  EXPECT_EQ(config.fields.at("y"), FieldSettings{});
}

}  // namespace
}  // namespace evenkeel
