#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "config/refusal.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using test::refusal;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::read_text;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// yaml-cpp treats what it cannot parse as the next document, again and again.
TEST(ConfigDocument, content_after_its_end_is_refused_with_its_line) {
  EXPECT_EQ(
      refusal(","),
      "job.yaml:1:1: malformed YAML: found \",\" after the end of the document. Remove it, or look for an "
      "extra bracket or wrong indentation");
  EXPECT_THAT(refusal(R"({"mesh": {"tp": 1}},)"), StartsWith("job.yaml:1:20: malformed YAML: "));
  EXPECT_THAT(refusal("mesh: {tp: 1}}"), StartsWith("job.yaml:1:14: malformed YAML: "));
  EXPECT_THAT(refusal("{mesh: {tp: 1}}\n]\n"), StartsWith("job.yaml:2:1: malformed YAML: "));
  EXPECT_THAT(
      refusal("", {"balance.speeds=[1, 1],"}),
      StartsWith("--set balance.speeds=[1, 1],: malformed YAML: found \",\" after the end of the document"));
  EXPECT_THAT(refusal("", {"mesh.tp=,"}), StartsWith("--set mesh.tp=,: malformed YAML: "));
}

TEST(ConfigDocument, a_second_document_is_refused_with_its_line) {
  EXPECT_EQ(refusal("mesh: {}\n---\nmesh: {}\n"),
            "job.yaml:2:1: expected one YAML document, found a second one. Remove the second one");
  EXPECT_EQ(refusal("---\nmesh: {}\n...\n"), "accepted");
}

TEST(ConfigDocument, may_be_written_as_editors_and_programs_do) {
  Config expected;
  expected.mesh.tp = 2;
  expected.micro_batch.max_tokens = 16384;
  for (const char* yaml :
       {"mesh:\n  tp: 2\nmicro_batch:\n  max_tokens: 16384\n",
        "mesh:\r\n  tp: 2\r\nmicro_batch:\r\n  max_tokens: 16384\r\n",
        "\xef\xbb\xbfmesh: {tp: 2}\nmicro_batch: {max_tokens: 16384}\n",
        "%YAML 1.2\n---\nmesh: {tp: 2}\nmicro_batch: {max_tokens: 16384}\n",
        "{\"mesh\": {\"tp\": 2},\n \"micro_batch\": {\"max_tokens\": 16384}}",
        "{\"mesh\": {\"tp\": 2,}, \"micro_batch\": {\"max_tokens\": 16384,},}",
        "{\r\n\t\"mesh\": {\r\n\t\t\"tp\": 2\r\n\t},\r\n\t\"micro_batch\": {\"max_tokens\": 16384}\r\n}\r\n",
        "\n\n# comment\nmesh: {tp: 2} # more\nmicro_batch: {max_tokens: 16384}"})
    EXPECT_EQ(parse_config(yaml, "job.yaml"), expected) << yaml;
}

TEST(ConfigDocument, tabs_and_second_keys_are_refused_with_their_line) {
  EXPECT_EQ(refusal("mesh:\n\ttp: 2\n"),
            "job.yaml:2:4: malformed YAML: illegal map value. Indent with spaces: a tab is in front of the "
            "first word of the line");
  EXPECT_EQ(
      refusal("mesh:\n  tp: 2\n\tcp: 2\n"),
      "job.yaml:3:1: malformed YAML: illegal tab when looking for indentation. Indent with spaces: a tab is "
      "in front of the first word of the line");
  EXPECT_EQ(refusal("{\"mesh\": {\"tp\": 2},\n \"mesh\": {\"cp\": 2}}"),
            "job.yaml:2: mesh: the key is given twice. Remove one of them");
}

// yaml-cpp silently ends the document at \x04.
TEST(ConfigDocument, bytes_that_are_not_text_are_refused_with_their_line) {
  EXPECT_EQ(
      refusal("mesh: {tp: 2}\n  \x04\nmicro_batch: {max_tokens: 5}\n"),
      "job.yaml:2:3: malformed YAML: the byte shown as \\x04 is not text. Write the text as UTF-8; in double "
      "quotes, \\xNN stands for a control character");
  EXPECT_THAT(refusal(std::string("mesh: {tp: 2}\0 {", 16)), HasSubstr("shown as \\x00"));
  EXPECT_THAT(refusal("source: {path: caf\xe9.jsonl}"), HasSubstr("job.yaml:1:19: malformed YAML"));
  EXPECT_THAT(refusal("\xff\xfem\0e\0s\0h\0"), HasSubstr("job.yaml:1:1: malformed YAML"));
  EXPECT_EQ(parse_config("source: {path: café.jsonl}", "job.yaml").source.path, "café.jsonl");
}

TEST(ConfigDocument, a_path_may_contain_any_quoted_character_except_nul) {
  EXPECT_EQ(parse_config(R"(source: {path: "a\x1b[31m\x04b"})", "job.yaml").source.path,
            "a\x1b[31m\x04"
            "b");
  EXPECT_EQ(refusal(R"(source: {path: "a\0b"})"),
            "job.yaml:1: source.path: contains a NUL byte, which a path cannot have. Remove it");
}

TEST(ConfigAliases, expand_to_their_anchors) {
  const Config config = parse_config(
      "micro_batch: &own {max_tokens: 512}\n"
      "profiles:\n  a: {micro_batch: *own}\n",
      "job.yaml", std::vector<std::string>{"micro_batch.max_tokens=1024"});
  EXPECT_EQ(config.micro_batch.max_tokens, 1024);
  EXPECT_EQ(config.profile("a").micro_batch.max_tokens, 512);
}

TEST(ConfigAliases, merge_keys_add_keys_that_a_map_does_not_have) {
  const Config config = parse_config(
      "profiles:\n"
      "  a: &a {micro_batch: &m {max_tokens: 50, min_count: 2}}\n"
      "  b: {<<: *a, loss: {aggregation: token-sum}}\n"
      "  c: {micro_batch: {<<: [{min_count: 3}, *m], max_tokens: 7}}\n",
      "job.yaml");
  EXPECT_EQ(config.profile("b").micro_batch.max_tokens, 50);
  EXPECT_EQ(config.profile("b").loss.aggregation, LossAggregation::token_sum);
  EXPECT_EQ(config.profile("c").micro_batch.max_tokens, 7);
  EXPECT_EQ(config.profile("c").micro_batch.min_count, 3);
}

TEST(ConfigAliases, merged_keys_are_checked_like_others) {
  EXPECT_EQ(refusal("mesh:\n  <<: {tpp: 3}\n").substr(0, 35), "job.yaml:2: mesh.tpp: unknown key. ");
  EXPECT_EQ(refusal("mesh: {<<: 4}"),
            "job.yaml:1: <<: only maps can be merged into a map. Refer to a map, or leave the key out");
  EXPECT_THAT(refusal("mesh: {\"<<\": {tp: 4}}"), HasSubstr("mesh.<<: unknown key"));
}

TEST(ConfigAliases, recursive_aliases_are_refused) {
  EXPECT_THAT(refusal("profiles: &p {a: *p}"),
              HasSubstr("has more than 500 levels of maps and lists, counting those of aliases"));
  EXPECT_THAT(refusal("mesh: &m\n  <<: *m\n  tp: 1"), HasSubstr("counting those of aliases"));
}

TEST(ConfigDocument, deeply_nested_documents_are_refused) {
  EXPECT_THAT(refusal(repeated("[", 100000)), HasSubstr("it is nested too deeply; the limit is 500 levels"));
  EXPECT_THAT(refusal(repeated("{a: ", 100000)),
              HasSubstr("it is nested too deeply; the limit is 500 levels"));
  EXPECT_THAT(refusal(repeated("- ", 100000)), HasSubstr("it is nested too deeply; the limit is 500 levels"));
}

TEST(ConfigDocument, a_message_stays_short_whatever_it_quotes) {
  const std::string word = repeated("\xc3\xa9", 1000);
  for (const std::string& yaml : {"mesh: {tp: " + word + "}", "? " + word + "\n: 1\n",
                                  "mesh: {? " + word + "\n: 1}", "mesh: {}}" + word})
    EXPECT_LT(refusal(yaml).size(), 400U) << refusal(yaml);
  EXPECT_LT(refusal("", {"mesh.tp=" + word}).size(), 400U);
}

/// Changes a text in one to four places, like a typing error or disk corruption.
std::string mutated(std::string text, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr std::string_view marks = "{}[],:?-&*!|>'\"%@`#<~.= \n\t\r\x04\x1b\xff\x80";
  for (std::size_t changes = 1 + below(4); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = below(text.size());
    const std::size_t size = 1 + below(20);
    switch (below(5)) {
      case 0:
        text[at] = marks[below(marks.size())];
        break;
      case 1:
        text.insert(at, 1, marks[below(marks.size())]);
        break;
      case 2:
        text.erase(at, size);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), size));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

TEST(ConfigDocument, any_change_to_a_valid_document_is_accepted_or_refused_with_a_place) {
  std::mt19937_64 random(2026);
  std::size_t refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EVENKEEL_SOURCE_DIR "/configs")) {
    const std::string good = read_text(entry.path());
    for (int i = 0; i < 300; ++i) {
      const std::string changed = mutated(good, random);
      try {
        const Config config = parse_config(changed, "job.yaml");
        EXPECT_EQ(parse_config(to_yaml(config), "written"), config) << changed;
      } catch (const ConfigError& error) {
        EXPECT_THAT(error.report().where, StartsWith("job.yaml")) << changed;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500U);
}

}  // namespace
}  // namespace evenkeel
