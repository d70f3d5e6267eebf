#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel::field_rule_test {
namespace {

using testing::HasSubstr;

std::string name_in_c(const FieldRule& rule) {
  std::string name = "EVENKEEL_";
  for (const char c : rule.name) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

TEST(FieldRules, are_in_the_order_of_kinds_with_distinct_names_and_c_values) {
  std::set<std::string_view> names;
  std::set<std::int32_t> c_values;
  for (std::size_t i = 0; i < field_rules.size(); ++i) {
    const FieldRule& rule = field_rules[i];
    EXPECT_EQ(static_cast<std::size_t>(rule.kind), i) << rule.name;
    EXPECT_EQ(&rule_of(rule.kind), &rule);
    EXPECT_EQ(find_rule(rule.name), &rule);
    EXPECT_EQ(name_of(rule.kind), rule.name);
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_TRUE(c_values.insert(rule.c_value).second) << rule.name;
    EXPECT_GT(rule.c_value, 0) << "a zeroed structure must not have a kind";
  }
  EXPECT_EQ(find_rule("no kind"), nullptr);
}

TEST(FieldRules, match_the_header_of_c) {
  std::ifstream file(EVENKEEL_C_HEADER);
  const std::string header(std::istreambuf_iterator<char>(file), {});
  for (const FieldRule& rule : field_rules)
    EXPECT_THAT(header, HasSubstr(name_in_c(rule) + " = " + std::to_string(rule.c_value)));
}

TEST(FieldRules, agree_with_a_batch_on_the_rows_of_samples) {
  const RaggedBatch batch({{SampleId{0}, 0, 2, 3}, {SampleId{1}, 0, 4, 0}});
  for (const FieldRule& rule : field_rules) {
    EXPECT_EQ(rule.is_counted(), rule.rows_of(2, 3, 77) == 77) << rule.name;
    EXPECT_TRUE(rule.is_counted() || rule.has_numbers()) << rule.name;
    EXPECT_TRUE(rule.is_counted() || !rule.is_cut_by_ranges) << rule.name;
    if (rule.is_counted()) continue;
    EXPECT_EQ(batch.rows_of(rule.kind, 0).size(), rule.rows_of(2, 3)) << rule.name;
    EXPECT_EQ(batch.rows_of(rule.kind, 1).size(), rule.rows_of(4, 0)) << rule.name;
    EXPECT_EQ(batch.rows_of(rule.kind), rule.rows_of(2, 3) + rule.rows_of(4, 0)) << rule.name;
  }
}

}  // namespace
}  // namespace evenkeel::field_rule_test
