#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "buffer/intake/received_samples.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/sample_outlines.hpp"

namespace evenkeel {
namespace {

RequestBody spooled_lines(const std::string& text) {
  RequestBody body;
  body.write(text);
  return body;
}

/// The interpretation of a request, or the reason why it was refused.
struct Outcome {
  std::string error;
  std::vector<ReceivedSample> samples;
  std::vector<std::string> lines;
  JsonlSchema schema;
};

template <typename Read>
Outcome outcome_of(Read read) {
  try {
    const ReceivedSamples received = read();
    Outcome outcome{{}, received.samples(), {}, received.schema()};
    for (const ReceivedSample& sample : received.samples()) outcome.lines.emplace_back(sample.body);
    return outcome;
  } catch (const Error& error) {
    return {error.what(), {}, {}, {}};
  }
}

/// Requires that both ways of reading a body give the same result.
void expect_same(const std::string& text, const DeclaredFormats& told = stream_formats()) {
  const Outcome fast =
      outcome_of([&] { return ReceivedSamples(spooled_lines(text), SampleForm::lines, told); });
  const Outcome slow =
      outcome_of([&] { return ReceivedSamples::parse_without_outlines(spooled_lines(text), told); });
  ASSERT_EQ(fast.error, slow.error) << text;
  ASSERT_EQ(fast.schema, slow.schema) << text;
  ASSERT_EQ(fast.lines, slow.lines) << text;
  for (std::size_t i = 0; i < fast.samples.size(); ++i) {
    EXPECT_EQ(fast.samples[i].accepted, slow.samples[i].accepted) << text;
    EXPECT_EQ(fast.samples[i].number, slow.samples[i].number) << text;
  }
}

bool is_plain(const std::string& text) {
  RequestBody body = spooled_lines(text);
  static_cast<void>(body.file());
  return outline_samples(body.bytes(), stream_formats(), {}).has_value();
}

const std::string keys = R"("uid": "q", "index": 0, "version": 0, "prompt_ids": [1, 2], "response_ids": [3])";

TEST(PlainLines, are_outlined_without_a_parser) {
  const std::array fields{R"("reward": 1.0)",
                          R"("advantages": [0.25])",
                          R"("text": "\u00e9 \"quoted\" é")",
                          R"("meta": {"a": [1, {"b": "]"}]}, "none": null, "done": true)",
                          R"("experts": [[1, 2], [3, 4], [5, 6]])",
                          R"("versions": [[3, 1]])",
                          R"("ts": 1763800000123)",
                          R"("ts": [1763800000123, 12345678, 3])",
                          R"("ts": [12345678.25, 0.5, 16777216])",
                          R"("big": -1e300)"};
  for (const char* field : fields) {
    const std::string line = "{" + keys + ", " + field + "}\n";
    EXPECT_EQ(is_plain(line), std::string(field) != R"("big": -1e300)") << line;
    expect_same(line);
  }
}

TEST(PlainLines, do_not_mix_real_numbers_with_integers_that_float32_would_round) {
  for (const std::string& text : {"{" + keys + R"(, "ts": [1763800000123, 0.5, 1]})",
                                  "{" + keys + R"(, "ts": 1763800000123})" + "\n{" + keys + R"(, "ts": 0.5})",
                                  "{" + keys + R"(, "ts": 1.5})" + "\n{" + keys + R"(, "ts": 16777217})"}) {
    EXPECT_FALSE(is_plain(text));
    expect_same(text);
  }
}

TEST(PlainLines, may_have_declared_fields) {
  const DeclaredFormats runs{{"turn", LineFormat::runs}, {"versions", LineFormat::runs}};
  const DeclaredFormats axes{{"turn", LineFormat::axes}, {"versions", LineFormat::runs}};
  const std::string line = "{" + keys + R"(, "turn": [[0, 1], [7, 2]]})";
  for (const DeclaredFormats& told : {runs, axes}) {
    expect_same(line, told);
    expect_same("{" + keys + "}", told);
    expect_same("", told);
  }
  EXPECT_EQ(ReceivedSamples(spooled_lines(line), SampleForm::lines, runs).schema().fields[1].kind,
            FieldKind::token);
}

TEST(PlainLines, do_not_have_runs_as_index_or_version) {
  for (const std::string key : {"\"index\": ", "\"version\": "}) {
    std::string line = "{" + keys + "}";
    line.replace(line.find(key + "0"), key.size() + 1, key + "[[0, 3]]");
    ASSERT_TRUE(is_plain(line));
    expect_same(line);
    EXPECT_THROW(static_cast<void>(ReceivedSamples(spooled_lines(line))), InputError) << line;
  }
}

TEST(PlainLines, give_the_same_result_as_the_parser_wherever_they_are_cut_or_changed) {
  const std::string text =
      std::string("\n  {") + keys + R"(, "a": [0.5], "b": [[1, -2]], "c": 7, "versions": [[0, 3]]}  )" +
      "\r\n" +
      R"({"response_ids":[9,8],"prompt_ids":[],"uid":7,"index":1,"version":4,"a":[1,2e-3],"b":[[1,2],[3,4]],"c":2.5,"versions":[[5,1],[4,1]]})" +
      "\n";
  expect_same(text);
  for (std::size_t cut = 0; cut < text.size(); ++cut) expect_same(text.substr(0, cut));
  constexpr std::string_view letters = "{}[]\",:0-.e \n\\1tn\x80";
  std::mt19937_64 random(3);
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = letters[random() % letters.size()];
    expect_same(changed);
    changed.erase(random() % changed.size(), 1);
    expect_same(changed);
  }
}

}  // namespace
}  // namespace evenkeel
