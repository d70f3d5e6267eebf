#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "config/import/document.hpp"
#include "config/import/resolvers.hpp"
#include "evenkeel/base/error.hpp"
#include "support/error_message.hpp"

// Every expected value of the references was compared with what OmegaConf 2.2 gives.
namespace evenkeel::config_import {
namespace {

using testing::HasSubstr;
using testing_support::message_of;

/// What a key stands for, or "! why" when it cannot be told.
std::string value_of(const std::string& yaml, const std::string& key, const ImportSettings& options = {}) {
  const Document document = read_document(yaml, "job.yaml", options);
  const auto found = std::ranges::find(document.keys, key, &ForeignKey::path);
  if (found == document.keys.end()) return "no such key";
  return found->value.missing.empty() ? found->text : "! " + found->value.missing;
}

std::string via_of(const std::string& yaml, const std::string& key, const ImportSettings& options = {}) {
  const Document document = read_document(yaml, "job.yaml", options);
  return std::ranges::find(document.keys, key, &ForeignKey::path)->value.via;
}

ImportSettings with_environment(std::map<std::string, std::string> environment) {
  ImportSettings options;
  options.environment = std::move(environment);
  return options;
}

const std::string sections = R"(
a: 8192
nested: {x: 3, same: "${.x}", up: "${..a}", deep: {z: "${...a}", n: null, m: "???"}}
list: [10, 20, 30]
)";

TEST(References, a_path_leads_from_the_root) {
  EXPECT_EQ(value_of(sections + "b: ${a}", "b"), "8192");
  EXPECT_EQ(value_of(sections + "b: ${nested.deep.z}", "b"), "8192");
  EXPECT_EQ(via_of(sections + "b: ${nested.x}", "b"), "follows nested.x");
}

TEST(References, dots_lead_to_the_sections_around_the_key) {
  EXPECT_EQ(value_of(sections, "nested.same"), "3");
  EXPECT_EQ(value_of(sections, "nested.up"), "8192");
  EXPECT_EQ(value_of(sections, "nested.deep.z"), "8192");
  EXPECT_THAT(value_of("a: ${....b}\nb: 1", "a"),
              HasSubstr("! refers to ....b, which leads out of the file"));
}

TEST(References, an_entry_of_a_list_is_named_by_its_number) {
  EXPECT_EQ(value_of(sections + "b: ${list[1]}", "b"), "20");
  EXPECT_EQ(value_of(sections + "b: ${list.2}", "b"), "30");
  EXPECT_THAT(value_of(sections + "b: ${list[7]}", "b"), HasSubstr("! refers to list.7, which this file"));
}

TEST(References, a_path_may_be_put_together_from_others) {
  EXPECT_EQ(value_of(sections + "which: a\nb: ${${which}}", "b"), "8192");
  EXPECT_EQ(value_of(sections + "letter: x\nb: ${nested.${letter}}", "b"), "3");
}

TEST(References, several_may_stand_in_one_text) {
  EXPECT_EQ(value_of(sections + "b: \"${a} tokens, ${nested.x} of them\"", "b"), "8192 tokens, 3 of them");
  EXPECT_EQ(value_of(sections + "b: ${nested.x}${a}", "b"), "38192");
  EXPECT_EQ(value_of(sections + "b: \\${a}", "b"), "${a}");
  EXPECT_THAT(value_of(sections + "b: \"x${nested}\"", "b"), HasSubstr("! has a section in the middle"));
}

TEST(References, a_section_may_be_taken_over_whole) {
  const std::string yaml = sections + "b: ${nested}\nc: ${b.deep.z}";
  EXPECT_EQ(value_of(yaml, "b.x"), "3");
  EXPECT_EQ(value_of(yaml, "b.deep.z"), "8192");
  EXPECT_EQ(value_of(yaml, "c"), "8192");
}

TEST(References, a_merge_key_takes_over_what_the_map_does_not_say) {
  const std::string yaml = "grid: &grid {tp: 4, cp: 2}\nactor: {<<: *grid, cp: 1}";
  EXPECT_EQ(value_of(yaml, "actor.tp"), "4");
  EXPECT_EQ(value_of(yaml, "actor.cp"), "1");
}

TEST(References, oc_select_has_a_default_for_what_is_not_there) {
  EXPECT_EQ(value_of(sections + "b: ${oc.select:a,1}", "b"), "8192");
  EXPECT_EQ(value_of(sections + "b: ${oc.select:nothing,16384}", "b"), "16384");
  EXPECT_EQ(value_of(sections + "b: ${oc.select:nothing}", "b"), "null");
  EXPECT_EQ(value_of(sections + "b: ${oc.select:nothing,${a}}", "b"), "8192");
  EXPECT_EQ(value_of(sections + "b: ${oc.select:nothing,'a, b'}", "b"), "a, b");
  EXPECT_EQ(value_of(sections + "b: ${oc.select:nothing,[1,2]}", "b"), "[1, 2]");
  EXPECT_EQ(via_of(sections + "b: ${oc.select:nothing,16384}", "b"), "there is no nothing: its default");
}

TEST(References, oc_select_takes_a_null_as_it_is_and_a_value_still_to_be_given_as_absent) {
  EXPECT_EQ(value_of(sections + "b: ${oc.select:nested.deep.n,7}", "b"), "null");
  EXPECT_EQ(value_of(sections + "b: ${oc.select:nested.deep.m,7}", "b"), "7");
}

TEST(References, oc_select_may_look_around_itself) {
  EXPECT_EQ(value_of("s: {other: 5, b: \"${oc.select:.other,1}\"}", "s.b"), "5");
  EXPECT_EQ(value_of("s: {b: \"${oc.select:.other,1}\"}", "s.b"), "1");
  EXPECT_EQ(value_of("a: 8\ns: {b: \"${oc.select:..a,1}\"}", "s.b"), "8");
}

TEST(References, oc_env_is_what_the_caller_hands_in) {
  const ImportSettings options = with_environment({{"CAP", "2048"}});
  EXPECT_EQ(value_of("b: ${oc.env:CAP}", "b", options), "2048");
  EXPECT_EQ(via_of("b: ${oc.env:CAP}", "b", options), "CAP of the environment");
  EXPECT_EQ(value_of("b: ${oc.env:CAP,4096}", "b"), "4096");
  EXPECT_EQ(via_of("b: ${oc.env:CAP,4096}", "b"), "CAP is not set in the environment: its default");
  EXPECT_EQ(value_of("b: ${oc.env:CAP,null}", "b"), "null");
  EXPECT_EQ(value_of("b: ${oc.env:CAP}", "b"), "! needs CAP, which is not set in the environment");
}

TEST(References, oc_decode_reads_a_text_as_a_value) {
  const ImportSettings options = with_environment({{"CAP", "2048"}, {"SIZES", "[1, 2]"}});
  EXPECT_EQ(value_of("b: ${oc.decode:${oc.env:CAP}}", "b", options), "2048");
  EXPECT_EQ(value_of("b: ${oc.decode:${oc.env:SIZES}}", "b", options), "[1, 2]");
  EXPECT_EQ(value_of("b: ${oc.decode:'null'}", "b", options), "null");
}

TEST(References, arithmetic_goes_by_the_names_that_projects_give_it) {
  const std::vector<std::pair<std::string, std::string>> cases{{"${mul:${a},2}", "16384"},
                                                               {"${multiply:${a}, 3, 2}", "49152"},
                                                               {"${div:${a},2}", "4096.0"},
                                                               {"${int_div:${a},3}", "2730"},
                                                               {"${add:${a},${nested.x}}", "8195"},
                                                               {"${sub:${a},192}", "8000"},
                                                               {"${max:1,${a},7}", "8192"},
                                                               {"${min:${a},7}", "7"},
                                                               {"${mod:${a},1000}", "192"},
                                                               {"${eval:'${a} * 2 + 1'}", "16385"},
                                                               {"${eval:'(${a} + 4) // 3'}", "2732"},
                                                               {"${eval:'2 ** 14'}", "16384"},
                                                               {"${eval:'-7 // 2'}", "-4"},
                                                               {"${eval:'int(${a} * 1.5)'}", "12288"},
                                                               {"${if:true,${a},1}", "8192"},
                                                               {"${mul:2,${sum:${a},8}}", "16400"}};
  for (const auto& [reference, value] : cases)
    EXPECT_EQ(value_of(sections + "b: " + reference, "b"), value) << reference;
}

TEST(References, arithmetic_that_makes_no_number_leads_nowhere) {
  for (const char* reference : {"${div:1,0}", "${int_div:1,0}", "${mul:a,2}", "${mul:9223372036854775807,2}",
                                "${eval:'import os'}", "${eval:'(1'}", "${eval:''}", "${mul:3}",
                                "${if:maybe,1,2}", "${eval:'2 ** 9999'}", "${nobody:1,2}", "${now:%Y}"}) {
    EXPECT_THAT(value_of(sections + "b: " + reference, "b"), HasSubstr("! needs the resolver")) << reference;
  }
}

TEST(References, what_leads_nowhere_says_why) {
  EXPECT_EQ(value_of("b: ${my.cap}", "b"), "! refers to my.cap, which this file does not have");
  EXPECT_EQ(value_of("b: ${a}\na: ${b}", "b"), "! refers to itself, by way of a");
  EXPECT_EQ(value_of("b: ???", "b"),
            "! is ??? there: a value that has to be given, on the command line, say");
  for (const char* broken : {"${a", "${", "${oc.select:a", "${oc.select:'a}"})
    EXPECT_THAT(value_of("a: 1\nb: \"" + std::string(broken) + "\"", "b"), HasSubstr("cannot be read"))
        << broken;
}

TEST(References, that_decode_themselves_lead_nowhere) {
  const ImportSettings options = with_environment({{"X", "${oc.decode:${oc.env:X}}"}});
  EXPECT_THAT(value_of("b: ${oc.decode:${oc.env:X}}", "b", options), HasSubstr("nested too deeply"));
}

TEST(References, that_grow_without_bound_are_refused) {
  std::string bomb = "a0: {x: 1, y: 1}\n";
  for (int i = 1; i < 40; ++i) {
    const std::string below = "${a" + std::to_string(i - 1) + "}";
    bomb += "a" + std::to_string(i) + ": {x: \"" + below + "\", y: \"" + below + "\"}\n";
  }
  EXPECT_THAT(message_of([&] { static_cast<void>(read_document(bomb, "job.yaml", {})); }),
              HasSubstr("job.yaml"));
}

RC_GTEST_PROP(References, any_text_is_followed_or_says_why, ()) {
  const std::vector<std::string> parts{
      "${", "}", "a", ".",   "..",         "b",       ":",          ",",    "'",     "\"", "[", "]", "{",
      "\\", " ", "0", "1e9", "oc.select:", "oc.env:", "oc.decode:", "mul:", "eval:", "-",  "(", ")", "*"};
  const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts));
  Value root;
  root.kind = Value::Kind::map;
  root.entries.emplace_back("a", scalar("8192"));
  root.entries.emplace_back("b", scalar(std::accumulate(pieces.begin(), pieces.end(), std::string())));
  const std::map<std::string, std::string> environment{{"a", "${b}"}, {"b", "3"}};
  try {
    const Value followed = References(root, environment, {}).follow_all();
    RC_ASSERT(followed.entries.size() == 2U);
  } catch (const ConfigError& error) {
    RC_ASSERT(!error.report().message.empty());
  }
}

TEST(ForeignValues, integers_are_read_as_yaml_1_1_and_python_read_them) {
  const std::vector<std::pair<std::string, std::int64_t>> cases{
      {"8192", 8192},  {"1_024", 1024}, {"0x400", 1024}, {"8e3", 8000},
      {"8.0e3", 8000}, {"+7", 7},       {"-7", -7},      {"010", 8}};
  for (const auto& [text, number] : cases) EXPECT_EQ(as_integer(scalar(text)), number) << text;
  EXPECT_EQ(as_integer(scalar("8192", true)), 8192) << "a text that is a number";
  for (const char* text : {"", "8.5", "lots", "8k", "1e400", "nan", "-", "0x", "99999999999999999999", "1 2"})
    EXPECT_EQ(as_integer(scalar(text)), std::nullopt) << text;
}

TEST(ForeignValues, flags_have_the_words_of_yaml_1_1) {
  for (const char* word : {"true", "True", "TRUE", "yes", "On"})
    EXPECT_EQ(as_flag(scalar(word)), true) << word;
  for (const char* word : {"false", "No", "OFF"}) EXPECT_EQ(as_flag(scalar(word)), false) << word;
  for (const char* word : {"maybe", "tRUE", "1", "y", ""})
    EXPECT_EQ(as_flag(scalar(word)), std::nullopt) << word;
}

}  // namespace
}  // namespace evenkeel::config_import
