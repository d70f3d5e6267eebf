#include "io/jsonl/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::report_of;
using testing_support::scan_whole;
using testing_support::TemporaryFile;

using Dimensions = std::vector<std::int64_t>;

JsonlSchema infer(const std::string& text) {
  const TemporaryFile file(text, ".jsonl");
  return infer_schema(InputFile(file.path()), scan_whole(file.path()).lines);
}

JsonlSchema merged(const JsonlSchema& a, const JsonlSchema& b) {
  return merge(a, b, std::string("file.jsonl"));
}

/// Returns the schema of one rollout with this many tokens that has this text after its lists, such as
/// `"reward": 1`, and is on this line (0-based).
JsonlSchema infer_fields(int prompt, int response, const std::string& fields, int line = 0) {
  const auto list = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text.append(i == 0 ? "[" : ",").append(std::to_string(i));
    return count == 0 ? "[]" : text + "]";
  };
  return infer(std::string(static_cast<std::size_t>(line), '\n') + "{\"prompt_ids\": " + list(prompt) +
               ", \"response_ids\": " + list(response) + (fields.empty() ? "" : ", " + fields) + "}\n");
}

ErrorReport inferring_fails(const std::string& text) {
  return report_of<InputError>([&] { (void)infer(text); });
}

TEST(InferSchema, without_lines_the_schema_is_empty) {
  EXPECT_EQ(infer(""), JsonlSchema{});
  EXPECT_TRUE(infer("\n").empty);
  EXPECT_FALSE(infer_fields(1, 1, "").empty);
}

TEST(InferSchema, the_outer_length_determines_the_kind) {
  const JsonlSchema schema =
      infer_fields(2, 1, R"("reward": 0.5, "advantages": [0.25], "mask": [1, 0, 1], "sample": 3)");
  EXPECT_THAT(schema.fields,
              ElementsAre(FieldSpec{"advantages", DType::float32, FieldKind::response_token, {}},
                          FieldSpec{"mask", DType::int64, FieldKind::token, {}},
                          FieldSpec{"reward", DType::float32, FieldKind::sample, {}},
                          FieldSpec{"sample", DType::int64, FieldKind::sample, {}}));
  EXPECT_THAT(schema.kind_open, IsEmpty());
  EXPECT_THAT(schema.element_open, IsEmpty());
}

TEST(InferSchema, distinguishes_booleans_integers_and_reals) {
  const JsonlSchema schema =
      infer_fields(1, 2, R"("a": [true, false], "b": [1, 2], "c": [1, 2.5], "d": 1e3)");
  std::vector<DType> dtypes;
  for (const FieldSpec& field : schema.fields) dtypes.push_back(field.dtype);
  EXPECT_THAT(dtypes, ElementsAre(DType::boolean, DType::int64, DType::float32, DType::float32));
}

TEST(InferSchema, lists_inside_are_trailing_dimensions) {
  const JsonlSchema schema = infer_fields(1, 1, R"("experts": [[[1, 2, 3]], [[4, 5, 6]]])");
  EXPECT_EQ(schema.fields.at(0), (FieldSpec{"experts", DType::int64, FieldKind::token, {1, 3}}));
}

TEST(InferSchema, with_an_empty_prompt_the_kind_stays_open_until_another_line_decides) {
  const JsonlSchema open = infer_fields(0, 2, R"("x": [1, 2])");
  EXPECT_THAT(open.kind_open, ElementsAre("x"));
  EXPECT_EQ(open.fields.at(0).kind, FieldKind::token);
  const JsonlSchema decided = merged(open, infer_fields(1, 2, R"("x": [1, 2])"));
  EXPECT_THAT(decided.kind_open, IsEmpty());
  EXPECT_EQ(decided.fields.at(0).kind, FieldKind::response_token);
  EXPECT_EQ(merged(open, infer_fields(1, 2, R"("x": [1, 2, 3])")).fields.at(0).kind, FieldKind::token);
}

TEST(InferSchema, if_all_prompts_are_empty_lists_have_one_row_per_token_and_are_reported) {
  const JsonlSchema schema = infer(
      R"({"prompt_ids": [], "response_ids": [2, 3], "reward": 1, "x": [0, 1], "advantages": [0.5, 1.5]})"
      "\n"
      R"({"prompt_ids": [], "response_ids": [4], "reward": 1, "x": [1], "advantages": [2.5]})");
  EXPECT_THAT(schema.fields, ElementsAre(FieldSpec{"advantages", DType::float32, FieldKind::token, {}},
                                         FieldSpec{"reward", DType::int64, FieldKind::sample, {}},
                                         FieldSpec{"x", DType::int64, FieldKind::token, {}}));
  EXPECT_EQ(undecided_fields(schema), "'advantages', 'x'");
  EXPECT_EQ(undecided_fields(infer_fields(1, 2, R"("x": [1, 2])")), "");
}

TEST(InferSchema, with_an_empty_response_the_elements_stay_open_until_another_line_decides) {
  const JsonlSchema open = infer_fields(2, 0, R"("x": [])");
  EXPECT_THAT(open.element_open, ElementsAre("x"));
  EXPECT_EQ(open.fields.at(0).kind, FieldKind::response_token);
  EXPECT_EQ(open.fields.at(0).dtype, DType::float32);
  const JsonlSchema decided = merged(open, infer_fields(0, 1, R"("x": [[true, false]])"));
  EXPECT_EQ(decided.fields.at(0), (FieldSpec{"x", DType::boolean, FieldKind::response_token, {2}}));
  EXPECT_THAT(decided.element_open, IsEmpty());
}

TEST(InferSchema, values_that_are_not_numbers_are_skipped_and_reported) {
  const JsonlSchema schema = infer_fields(1, 1,
                                          R"("uid": "u", "text": "hi", "none": null, "extra": {"a": 1}, )"
                                          R"("tags": ["a"], "chat": [{"role": "user"}], "tools": [], )"
                                          R"("input_ids": [0, 0])");
  EXPECT_THAT(schema.fields, IsEmpty());
  EXPECT_EQ(describe_ignored_fields(schema),
            "'chat' (objects), 'extra' (objects), 'input_ids' (made of prompt_ids and response_ids), "
            "'none' (null), 'tags' (text), 'text' (text), 'tools' (empty lists)");
  EXPECT_EQ(describe_ignored_fields(merged(schema, infer_fields(1, 1, R"("text": null)", 1))),
            "'chat' (objects), 'extra' (objects), 'input_ids' (made of prompt_ids and response_ids), "
            "'none' (null), 'tags' (text), 'text' (text, null), 'tools' (empty lists)");
  EXPECT_EQ(describe_ignored_fields(infer_fields(1, 1, R"("x": 1)")), "");
}

TEST(InferSchema, integers_in_one_line_and_reals_in_the_next_make_float32) {
  const JsonlSchema schema = infer(R"({"prompt_ids": [1], "response_ids": [2], "reward": 1})"
                                   "\n"
                                   R"({"prompt_ids": [1], "response_ids": [2], "reward": 0.5})");
  EXPECT_EQ(schema.fields.at(0), (FieldSpec{"reward", DType::float32, FieldKind::sample, {}}));
}

TEST(InferSchema, an_error_names_the_file_and_the_line_counted_from_one) {
  const TemporaryFile file("\n{\"prompt_ids\": [1], \"response_ids\": [2], \"x\": [1, 2, 3]}\n", ".jsonl");
  const ErrorReport report = report_of<InputError>(
      [&] { (void)infer_schema(InputFile(file.path()), scan_whole(file.path()).lines); });
  EXPECT_EQ(report.where, file.line(2));
  EXPECT_EQ(report.message, "field 'x' has 3 rows; the sample has 2 tokens, 1 in the response");
}

TEST(InferSchema, a_field_missing_in_a_later_line_is_an_error_there) {
  const TemporaryFile file(
      "{\"prompt_ids\": [1], \"response_ids\": [2], \"reward\": 1}\n"
      "{\"prompt_ids\": [1], \"response_ids\": [2]}\n",
      ".jsonl");
  const ErrorReport report = report_of<InputError>(
      [&] { (void)infer_schema(InputFile(file.path()), scan_whole(file.path()).lines); });
  EXPECT_EQ(report.where, file.line(2));
  EXPECT_THAT(report.message, HasSubstr("'reward'"));
}

TEST(InferSchema, uneven_or_mixed_lists_are_errors) {
  const auto line = [](const std::string& value) {
    return R"({"prompt_ids": [1], "response_ids": [2], "x": )" + value + "}";
  };
  EXPECT_THAT(inferring_fails(line("[[1], [2, 3]]")).message,
              HasSubstr("lists of different lengths or depths"));
  EXPECT_THAT(inferring_fails(line("[1, [2]]")).message, HasSubstr("lists of different lengths or depths"));
  EXPECT_THAT(inferring_fails(line("[[2], 1]")).message, HasSubstr("lists of different lengths or depths"));
  EXPECT_THAT(inferring_fails(line("[1, \"a\"]")).message, HasSubstr("has \"a\" at [1]; it may contain"));
  EXPECT_THAT(inferring_fails(line("[null, 0.5]")).message, HasSubstr("has null at [0]; it may contain"));
  EXPECT_THAT(inferring_fails(line("[true, 1]")).message, HasSubstr("mixes booleans"));
}

TEST(MergeSchemas, clashes_are_errors_that_name_the_field_and_both_lines) {
  const auto clash = [](const JsonlSchema& a, const JsonlSchema& b) {
    const ErrorReport forward = report_of<InputError>([&] { (void)merged(a, b); });
    EXPECT_EQ(forward, report_of<InputError>([&] { (void)merged(b, a); }));
    EXPECT_EQ(forward.where, "file.jsonl:9") << "the later line";
    return forward.message;
  };
  const JsonlSchema scalar = infer_fields(1, 2, R"("x": 1)", 3);
  const JsonlSchema list = infer_fields(1, 2, R"("x": [1, 2])", 8);
  const JsonlSchema either = infer_fields(0, 2, R"("x": [1, 2])", 8);
  const JsonlSchema pairs = infer_fields(1, 2, R"("x": [[1, 2], [3, 4]])", 4);
  const JsonlSchema text = infer_fields(1, 2, R"("x": "one")", 5);
  const JsonlSchema flags = infer_fields(1, 2, R"("x": [true, false])", 6);
  EXPECT_EQ(clash(scalar, list),
            "field 'x' is a response_token field in line 9 and is a sample field in line 4");
  EXPECT_EQ(clash(scalar, either), "field 'x' is a token field in line 9 and is a sample field in line 4");
  EXPECT_EQ(clash(pairs, list),
            "field 'x' has rows of shape [] in line 9 and has rows of shape [2] in line 5");
  EXPECT_EQ(clash(flags, list), "field 'x' holds booleans in line 7 and holds numbers in line 9");
  EXPECT_EQ(clash(text, list),
            "field 'x' holds numbers in line 9 and is missing, empty or not a number in line 6");
  EXPECT_EQ(clash(infer_fields(1, 1, "", 8), scalar),
            "field 'x' holds numbers in line 4 and is missing, empty or not a number in line 9");
}

TEST(MergeSchemas, integers_that_float32_would_round_may_not_meet_real_numbers) {
  const JsonlSchema wide = infer_fields(1, 2, R"("ts": 1763800000123)", 1);
  const JsonlSchema real = infer_fields(1, 2, R"("ts": 0.5)", 3);
  for (const auto& [a, b] : {std::pair(wide, real), std::pair(real, wide)}) {
    const ErrorReport report = report_of<InputError>([&, a = a, b = b] { (void)merged(a, b); });
    EXPECT_EQ(report.where, "file.jsonl:4");
    EXPECT_EQ(report.message,
              "field 'ts' has an integer that float32 would round in line 2 and a real number in line 4");
  }
  EXPECT_EQ(merged(wide, infer_fields(1, 2, R"("ts": 16777217)", 0)).wide_integers.at("ts"), 0);
  for (const std::string exact : {"16777216", "-16777216", "1763799990272", "9223372036854775808"})
    EXPECT_EQ(merged(infer_fields(1, 2, "\"ts\": " + exact, 1), real).fields.at(0).dtype, DType::float32);
  for (const std::string value : {"[1763800000123, 0.5]", "[[0.5, -16777217], [1, 2]]"}) {
    EXPECT_THAT(inferring_fails(R"({"prompt_ids": [], "response_ids": [7, 8], "ts": )" + value + "}").message,
                HasSubstr("'ts' has a real number and an integer that float32 would round"));
  }
}

TEST(MergeSchemas, a_clash_names_the_lines_that_decided) {
  // Line 2 leaves the kind open, line 3 determines it; line 4 is the first one with real numbers.
  JsonlSchema schema = infer_fields(0, 2, R"("x": [1, 2])", 1);
  schema = merged(infer_fields(1, 2, R"("x": [1, 2])", 2), schema);
  schema = merged(infer_fields(1, 2, R"("x": [1, 2.5])", 3), schema);
  schema = merged(infer_fields(1, 2, R"("x": [1.5, 2])", 4), schema);
  EXPECT_EQ(schema.first_line, 1);
  EXPECT_THAT(schema.origins, ElementsAre(FieldOrigin{2, 1, 3}));
}

/// Returns schemas of single rollouts that differ in field x in every possible way, and a few that differ
/// elsewhere.
std::vector<JsonlSchema> all_forms() {
  int line = 0;
  const auto next = [&](int prompt, int response, const std::string& fields) {
    line = (line + 3) % 5;
    return infer_fields(prompt, response, fields, line);
  };
  std::vector<JsonlSchema> forms{JsonlSchema{},
                                 next(2, 0, R"("x": [])"),
                                 next(0, 0, R"("x": [])"),
                                 next(1, 2, R"("x": [0.5, 1], "note": "a")"),
                                 next(0, 2, R"("x": [1, 2], "tags": [])"),
                                 next(1, 2, R"("x": [1, 2], "y": 2)")};
  for (const std::string value : {"1", "1.5", "16777217", "true", "\"text\""})
    forms.push_back(next(1, 2, "\"x\": " + value));
  for (const std::string value : {"[1, 2]", "[0.5, 2]", "[true, false]", "[[1], [2]]"}) {
    for (const auto& [prompt, response] : {std::pair{0, 2}, std::pair{1, 2}, std::pair{1, 1}}) {
      forms.push_back(next(prompt, response, "\"x\": " + value));
    }
  }
  return forms;
}

/// Returns the merged schema, or std::nullopt if the two conflict.
std::optional<JsonlSchema> try_merge(const std::optional<JsonlSchema>& a,
                                     const std::optional<JsonlSchema>& b) {
  if (!a || !b) return std::nullopt;
  try {
    return merged(*a, *b);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

TEST(InferSchema, rows_without_elements_are_refused_since_their_shape_is_unknown) {
  for (const std::string value : {"[[], []]", "[[[]], [[]]]"}) {
    EXPECT_THAT(report_of<InputError>([&] { (void)infer_fields(0, 2, "\"x\": " + value, 0); }).message,
                HasSubstr("field 'x' has rows without elements"));
  }
}

TEST(MergeSchemas, the_order_and_grouping_of_merges_does_not_matter) {
  const std::vector<JsonlSchema> forms = all_forms();
  for (const JsonlSchema& a : forms) {
    for (const JsonlSchema& b : forms) {
      const auto ab = try_merge(a, b);
      ASSERT_EQ(ab, try_merge(b, a));
      for (const JsonlSchema& c : forms) ASSERT_EQ(try_merge(ab, c), try_merge(a, try_merge(b, c)));
    }
  }
}

TEST(MergeSchemas, merging_with_itself_or_nothing_changes_nothing) {
  for (const JsonlSchema& a : all_forms()) {
    EXPECT_EQ(merged(a, a), a);
    EXPECT_EQ(merged(a, JsonlSchema{}), a);
    EXPECT_EQ(merged(JsonlSchema{}, a), a);
  }
}

}  // namespace
}  // namespace evenkeel
