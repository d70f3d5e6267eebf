#include "plan/transfer/carried_fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Layers = std::vector<std::int64_t>;

TEST(LayersOfRanks, an_even_split_gives_each_rank_as_many_in_order) {
  EXPECT_THAT(layers_of_ranks({}, 6, 3, 1, "x"), ElementsAre(Layers{0, 1}, Layers{2, 3}, Layers{4, 5}));
  EXPECT_THAT(layers_of_ranks({}, 2, 1, 1, "x"), ElementsAre(Layers{0, 1}));
  EXPECT_THAT(layers_of_ranks({}, 0, 2, 1, "x"), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(LayersOfRanks, virtual_stages_are_round_robin_as_in_megatron) {
  // Megatron-Core: the first layer of chunk v of stage s is v * (layers / vpp) + s * (layers / vpp / pp).
  EXPECT_THAT(layers_of_ranks({}, 8, 2, 2, "x"), ElementsAre(Layers{0, 1, 4, 5}, Layers{2, 3, 6, 7}));
  for (const int pp : {1, 2, 4}) {
    for (const int vpp : {1, 2, 3}) {
      const std::int64_t layers = 5 * pp * vpp;
      const auto of_ranks = layers_of_ranks({}, layers, pp, vpp, "x");
      for (int s = 0; s < pp; ++s) {
        for (int v = 0; v < vpp; ++v) {
          const std::int64_t offset = v * (layers / vpp) + s * (layers / vpp / pp);
          for (std::int64_t i = 0; i < 5; ++i)
            EXPECT_EQ(of_ranks[static_cast<std::size_t>(s)][static_cast<std::size_t>(v * 5 + i)], offset + i);
        }
      }
    }
  }
}

TEST(LayersOfRanks, a_map_may_be_uneven_and_give_a_layer_to_several_stages) {
  EXPECT_THAT(layers_of_ranks({{{0}, {1, 2, 3}, {3}, {}}}, 4, 2, 2, "x"),
              ElementsAre(Layers{0, 3}, Layers{1, 2, 3}));
}

TEST(LayersOfRanks, layers_that_cannot_be_split_are_refused_with_the_reason) {
  const auto refusal = [](const LayerMap& map, std::int64_t layers) {
    const ErrorReport report = testing_support::report_of<InputError>(
        [&] { (void)layers_of_ranks(map, layers, 2, 2, "field 'x'"); });
    EXPECT_EQ(report.where, "field 'x'");
    return report.message + ". " + report.hint;
  };
  EXPECT_THAT(refusal({}, 6),
              HasSubstr("has 6 layers, which cannot be divided evenly among pp 2 x vpp 2 stages"));
  EXPECT_THAT(refusal({}, 6), HasSubstr("List the layers of each stage"));
  EXPECT_THAT(refusal({{{0}, {1}, {2}, {4}}}, 4), HasSubstr("contains layer 4"));
  EXPECT_THAT(refusal({{{0}, {1}, {3}, {}}}, 4), HasSubstr("does not contain layer 2"));
}

TEST(FieldSettings, reject_inconsistent_settings) {
  const auto refusal = [](const FieldSettings& field, const std::string& name = "x") {
    return testing_support::report_of<ConfigError>([&] { require_valid(field, name, 2, 1); });
  };
  FieldSettings narrow;
  narrow.dtype = FieldWidth::narrow;
  EXPECT_EQ(refusal(narrow).where, "fields.x.dtype");
  narrow.wire_dtype = FieldWidth::narrow;
  require_valid(narrow, "x", 2, 1);
  EXPECT_THAT(refusal(narrow, "input_ids").message, HasSubstr("is a built-in field"));
  FieldSettings axes;
  axes.read_as = LineFormat::axes;  // for position_ids, which samples may contain
  require_valid(axes, "position_ids", 2, 1);
  axes.read_as = LineFormat::rows;
  EXPECT_THAT(refusal(axes, "position_ids").message, HasSubstr("is a built-in field"));
  EXPECT_THAT(refusal({LayerMap{{{0}}}}).message,
              HasSubstr("lists layers for 1 stage, but the mesh has pp 2 x vpp 1"));
  EXPECT_THAT(refusal({LayerMap{{{0}, {1, 1}}}}).message,
              HasSubstr("lists layer 1 more than once for stage 1"));
  require_valid({LayerMap{}}, "x", 2, 1);
  require_valid({}, "input_ids", 2, 1);
}

}  // namespace
}  // namespace evenkeel
