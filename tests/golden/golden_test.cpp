#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "golden/families.hpp"

namespace evenkeel::golden {
namespace {

json read_vectors(const std::string& family) {
  std::ifstream file(std::filesystem::path(EVENKEEL_GOLDEN_DIR) / (family + ".json"));
  return json::parse(file);
}

class GoldenVectors : public testing::TestWithParam<std::string> {};

// In a case marked `defect`, the reference contradicts its own documentation; the tests of the module define
// what is correct.
TEST_P(GoldenVectors, every_case_agrees_with_the_reference) {
  const json document = read_vectors(GetParam());
  const Family family = families().at(GetParam());
  int compared = 0;
  for (const json& entry : document.at("cases")) {
    const json actual = run_case(family, entry.at("input"));
    if (entry.contains("defect")) continue;
    ++compared;
    EXPECT_TRUE(matches(entry.at("expected"), actual))
        << entry.at("name") << "\n  expected " << entry.at("expected").dump().substr(0, 600)
        << "\n  actual   " << actual.dump().substr(0, 600);
  }
  EXPECT_GT(compared, 0);
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const auto& [name, family] : families()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenVectors, testing::ValuesIn(family_names()),
                         [](const auto& param) { return param.param; });

TEST(GoldenComparison, tells_a_wrong_answer_from_a_right_one) {
  EXPECT_TRUE(matches({{"a", {1, 2}}}, {{"a", {1, 2}}, {"more", 3}}));
  EXPECT_FALSE(matches({{"a", {1, 2}}}, {{"a", {2, 1}}}));
  EXPECT_FALSE(matches({{"a", 1}}, {{"b", 1}}));
  EXPECT_TRUE(matches(1.0, 1.000001));
  EXPECT_FALSE(matches(1.0, 1.001));
  EXPECT_FALSE(matches(7, 8));
  EXPECT_FALSE(matches({{"a", 1}}, {{"error", "x"}}));
  EXPECT_TRUE(matches({{"error", "x"}, {"a", 1}}, {{"error", "y"}, {"a", 1}}));
  EXPECT_FALSE(matches({{"error", "x"}, {"a", 1}}, {{"error", "x"}, {"a", 2}}));
}

}  // namespace
}  // namespace evenkeel::golden
