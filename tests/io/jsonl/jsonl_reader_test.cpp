#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "io/jsonl/jsonl.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::report_of;
using testing_support::scan_whole;
using testing_support::TemporaryFile;

const std::string two_rollouts =
    R"({"uid": "q1", "sample": 0, "prompt_ids": [5, 6], "response_ids": [7], "reward": 1.0, "adv": [0.5]})"
    "\n"
    R"({"uid": "q1", "sample": 1, "response_ids": [8, 9], "prompt_ids": [5, 6], "adv": [-1, 2], "reward": 0})"
    "\n";

RaggedBatch read_all(const std::filesystem::path& path) {
  const std::vector<LineRef> lines = scan_whole(path).lines;
  return read_samples(InputFile(path), lines, infer_schema(InputFile(path), lines));
}

JsonlSchema schema_of(std::vector<FieldSpec> fields) {
  JsonlSchema schema;
  schema.empty = false;
  schema.fields = std::move(fields);
  return schema;
}

/// Returns the error from reading this one line with these fields.
ErrorReport jsonl_error(const std::string& line, const std::vector<FieldSpec>& fields = {}) {
  const TemporaryFile file("\n" + line + "\n", ".jsonl");
  const std::vector<LineRef> lines = scan_whole(file.path()).lines;
  ErrorReport report =
      report_of<InputError>([&] { (void)read_samples(InputFile(file.path()), lines, schema_of(fields)); });
  EXPECT_EQ(report.where, file.line(2)) << "the second line of the file";
  return report;
}

std::string rollout_with(const std::string& field) {
  return R"({"prompt_ids": [1], "response_ids": [2, 3], )" + field + "}";
}

TEST(ReadSamples, a_batch_has_the_tokens_then_the_schemas_fields) {
  const TemporaryFile file(two_rollouts, ".jsonl");
  const RaggedBatch batch = read_all(file.path());
  EXPECT_THAT(batch.samples(),
              ElementsAre(SampleShape{SampleId{0}, group_of_uid(std::string_view("q1")), 2, 1},
                          SampleShape{SampleId{1}, group_of_uid(std::string_view("q1")), 2, 2}));
  ASSERT_EQ(batch.fields().size(), 4U);
  EXPECT_THAT(batch.fields()[0].values<std::int64_t>(), ElementsAre(5, 6, 7, 5, 6, 8, 9));
  EXPECT_EQ(batch.fields()[0].spec(), (FieldSpec{"input_ids", DType::int64, FieldKind::token, {}}));
  EXPECT_EQ(batch.fields()[1].spec().name, "adv");
  EXPECT_THAT(batch.at("adv").values<float>(), ElementsAre(0.5F, -1.0F, 2.0F));
  EXPECT_THAT(batch.at("reward").values<float>(), ElementsAre(1.0F, 0.0F));
  EXPECT_THAT(batch.at("sample").values<std::int64_t>(), ElementsAre(0, 1));
}

const DeclaredFormats told{{"patches", LineFormat::rows},
                           {"raw", LineFormat::bytes},
                           {"source", LineFormat::text},
                           {"positions", LineFormat::axes},
                           {"versions", LineFormat::runs}};

RaggedBatch read_told(const std::string& text) {
  const TemporaryFile file(text, ".jsonl");
  const std::vector<LineRef> lines = scan_whole(file.path()).lines;
  return read_samples(InputFile(file.path()), lines, infer_schema(InputFile(file.path()), lines, {}, told),
                      told);
}

std::string bytes_of(const RaggedBatch& batch, const char* field, std::int64_t sample) {
  const Column& column = batch.at(field);
  const RowRange rows = batch.rows_of(column, sample);
  return {reinterpret_cast<const char*>(column.row(rows.begin)),
          reinterpret_cast<const char*>(column.row(rows.end))};
}

TEST(ReadSamples, counted_fields_have_the_declared_kind) {
  const RaggedBatch batch =
      read_told(rollout_with(R"("patches": [[1, 2], [3, 4.5]], "raw": "AP8=", "source": "gsm8k \u00e4")") +
                "\n" + rollout_with(R"("patches": [], "raw": "", "source": "")") + "\n" +
                rollout_with(R"("patches": [[5, 6]], "raw": "AQID", "source": "x")") + "\n");
  EXPECT_EQ(batch.at("patches").spec(), (FieldSpec{"patches", DType::float32, FieldKind::rows, {2}}));
  EXPECT_THAT(batch.at("patches").samples().offsets(), ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(batch.at("patches").values<float>(), ElementsAre(1, 2, 3, 4.5, 5, 6));
  EXPECT_EQ(batch.at("raw").spec(), (FieldSpec{"raw", DType::uint8, FieldKind::bytes, {}}));
  EXPECT_EQ(bytes_of(batch, "raw", 0), std::string("\0\xff", 2));
  EXPECT_EQ(bytes_of(batch, "raw", 2), "\1\2\3");
  EXPECT_EQ(batch.at("source").spec(), (FieldSpec{"source", DType::uint8, FieldKind::text, {}}));
  EXPECT_EQ(bytes_of(batch, "source", 0), "gsm8k \xc3\xa4");
  EXPECT_EQ(bytes_of(batch, "source", 1), "");
}

TEST(ReadSamples, axes_become_one_row_per_token_or_response_token) {
  const RaggedBatch batch =
      read_told(rollout_with(R"("positions": [[0, 1, 2], [0, 0, 7]], "adv": [1, 2])") + "\n" +
                R"({"prompt_ids": [], "response_ids": [], "positions": [[], []], "adv": []})" + "\n");
  EXPECT_EQ(batch.at("positions").spec(), (FieldSpec{"positions", DType::int64, FieldKind::token, {2}}));
  EXPECT_THAT(batch.at("positions").values<std::int64_t>(), ElementsAre(0, 0, 1, 0, 2, 7));
  const RaggedBatch of_responses =
      read_told(rollout_with(R"("positions": [[0.5, 1], [2, 3], [4, 5]])") + "\n");
  EXPECT_EQ(of_responses.at("positions").spec(),
            (FieldSpec{"positions", DType::float32, FieldKind::response_token, {3}}));
  EXPECT_THAT(of_responses.at("positions").values<float>(), ElementsAre(0.5, 2, 4, 1, 3, 5));
}

TEST(ReadSamples, runs_become_one_value_per_token_or_response_token) {
  const RaggedBatch batch = read_told(rollout_with(R"("versions": [[3, 1], [4, 1]])") + "\n" +
                                      rollout_with(R"("versions": [[5, 0], [6, 2]])") + "\n");
  EXPECT_EQ(batch.at("versions").spec(),
            (FieldSpec{"versions", DType::int64, FieldKind::response_token, {}}));
  EXPECT_THAT(batch.at("versions").values<std::int64_t>(), ElementsAre(3, 4, 6, 6));
  const RaggedBatch of_tokens = read_told(rollout_with(R"("versions": [[0.5, 2], [1, 1]])") + "\n");
  EXPECT_EQ(of_tokens.at("versions").spec(), (FieldSpec{"versions", DType::float32, FieldKind::token, {}}));
  EXPECT_THAT(of_tokens.at("versions").values<float>(), ElementsAre(0.5, 0.5, 1));
}

TEST(ReadSamples, values_that_contradict_the_declared_format_are_an_error_at_their_line) {
  const auto said_of = [](const std::string& field) {
    return report_of<InputError>([&] { (void)read_told(rollout_with(field)); }).message;
  };
  EXPECT_THAT(said_of(R"("source": 3)"), HasSubstr("field 'source' (text) is"));
  EXPECT_THAT(said_of(R"("raw": "not base64")"), HasSubstr("it must be base64"));
  EXPECT_THAT(said_of(R"("patches": 3)"), HasSubstr("it must be a list of rows"));
  EXPECT_THAT(said_of(R"("patches": [[1], [1, 2]])"), HasSubstr("lists of different lengths or depths"));
  EXPECT_THAT(said_of(R"("patches": ["a"])"), HasSubstr("has \"a\" at [0]; it may contain only numbers"));
  EXPECT_THAT(said_of(R"("positions": [0, 1, 2])"), HasSubstr("it must have one list of numbers per axis"));
  EXPECT_THAT(said_of(R"("positions": [])"), HasSubstr("it must have one list of numbers per axis"));
  EXPECT_THAT(said_of(R"("positions": [[0, 1, 2], [0, 1]])"),
              HasSubstr("lists of different lengths or depths"));
  EXPECT_THAT(said_of(R"("positions": [[0], [1]])"),
              HasSubstr("has 1 number per axis; the sample has 3 tokens"));
  EXPECT_THAT(said_of(R"("versions": [3, 1])"),
              HasSubstr("has 3 at [0]; every entry must be a [number, count]"));
  EXPECT_THAT(said_of(R"("versions": [[3, -1]])"),
              HasSubstr("has [3,-1] at [0]; every entry must be a [number, count]"));
  EXPECT_THAT(said_of(R"("versions": [["a", 3]])"),
              HasSubstr("has [\"a\",3] at [0]; every entry must be a [number, count]"));
  EXPECT_THAT(said_of(R"("versions": [[true, 1], [1, 1]])"), HasSubstr("mixes booleans and numbers"));
  EXPECT_THAT(said_of(R"("versions": [[3, 4]])"),
              HasSubstr("has counts that add up to 4; the sample has 3 tokens"));
  EXPECT_THAT(said_of(R"("versions": [[3, 9223372036854775807], [3, 3]])"),
              HasSubstr("has counts that add up to at least 9223372036854775807"));
  const ErrorReport missing = report_of<InputError>([&] {
    (void)read_told(rollout_with(R"("source": "a")") + "\n" + rollout_with(R"("reward": 1)") + "\n");
  });
  EXPECT_THAT(missing.message, HasSubstr("is missing"));
}

TEST(ReadSamples, samples_are_in_the_requested_order) {
  const TemporaryFile file(two_rollouts, ".jsonl");
  std::vector<LineRef> lines = scan_whole(file.path()).lines;
  std::swap(lines[0], lines[1]);
  lines.push_back(lines[0]);
  const RaggedBatch batch = read_samples(InputFile(file.path()), lines, schema_of({}));
  EXPECT_THAT(batch.at("input_ids").values<std::int64_t>(), ElementsAre(5, 6, 8, 9, 5, 6, 7, 5, 6, 8, 9));
  EXPECT_EQ(batch.samples()[0].id, SampleId{1});
}

TEST(ReadSamples, no_lines_give_an_empty_batch_with_the_fields) {
  const TemporaryFile file("", ".jsonl");
  const RaggedBatch batch =
      read_samples(InputFile(file.path()), {}, schema_of({{"x", DType::int64, FieldKind::sample, {}}}));
  EXPECT_EQ(batch.size(), 0);
  EXPECT_EQ(batch.at("x").rows(), 0);
  EXPECT_EQ(batch.at("input_ids").rows(), 0);
}

TEST(ReadSamples, prompt_and_response_may_be_empty) {
  const TemporaryFile file(
      "{\"prompt_ids\": [], \"response_ids\": [], \"x\": []}\n"
      "{\"prompt_ids\": [], \"response_ids\": [4], \"x\": [9]}\n"
      "{\"prompt_ids\": [3], \"response_ids\": [], \"x\": []}\n",
      ".jsonl");
  const RaggedBatch batch = read_all(file.path());
  EXPECT_THAT(batch.token_offsets(), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(batch.at("input_ids").values<std::int64_t>(), ElementsAre(4, 3));
  EXPECT_EQ(batch.at("x").spec(), (FieldSpec{"x", DType::int64, FieldKind::response_token, {}}));
  EXPECT_THAT(batch.at("x").values<std::int64_t>(), ElementsAre(9));
}

TEST(ReadSamples, every_dtype_and_trailing_shape_is_read) {
  const TemporaryFile file(
      rollout_with(
          R"("mask": [true, false, true], "top": [[1, 2], [3, 4]], "box": 7, "p": [[[0.5]], [[1]]])"),
      ".jsonl");
  const RaggedBatch batch = read_all(file.path());
  EXPECT_THAT(batch.at("mask").values<bool>(), ElementsAre(true, false, true));
  EXPECT_THAT(batch.at("top").values<std::int64_t>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(batch.at("top").spec().trailing, ElementsAre(2));
  EXPECT_THAT(batch.at("p").values<float>(), ElementsAre(0.5F, 1.0F));
  EXPECT_THAT(batch.at("p").spec().trailing, ElementsAre(1, 1));
}

TEST(ReadSamples, the_uid_determines_the_group) {
  const TemporaryFile file(
      "{\"uid\": \"a\", \"prompt_ids\": [], \"response_ids\": []}\n"
      "{\"uid\": 17, \"prompt_ids\": [], \"response_ids\": []}\n"
      "{\"uid\": -1, \"prompt_ids\": [], \"response_ids\": []}\n"
      "{\"uid\": null, \"prompt_ids\": [], \"response_ids\": []}\n"
      "{\"prompt_ids\": [], \"response_ids\": []}\n"
      "{\"uid\": 18446744073709551615, \"prompt_ids\": [], \"response_ids\": []}\n",
      ".jsonl");
  const RaggedBatch batch = read_all(file.path());
  std::vector<std::uint64_t> groups;
  for (const SampleShape& sample : batch.samples()) groups.push_back(sample.group);
  EXPECT_THAT(groups, ElementsAre(group_of_uid(std::string_view("a")), 17, group_of_uid(std::int64_t{-1}),
                                  own_group(3), own_group(4),
                                  group_of_uid(std::numeric_limits<std::uint64_t>::max())));
  EXPECT_EQ(std::set(groups.begin(), groups.end()).size(), 6U);
  EXPECT_THAT(read_uids(InputFile(file.path()), scan_whole(file.path()).lines),
              ElementsAre(Uid("a"), Uid(std::int64_t{17}), Uid(std::int64_t{-1}), Uid(), Uid(),
                          Uid(std::numeric_limits<std::uint64_t>::max())));
}

TEST(ReadSamples, a_first_line_without_a_uid_is_not_in_the_group_of_uid_0) {
  const TemporaryFile file(
      "{\"prompt_ids\": [], \"response_ids\": []}\n"
      "{\"uid\": 0, \"prompt_ids\": [], \"response_ids\": []}\n",
      ".jsonl");
  const RaggedBatch batch = read_all(file.path());
  EXPECT_NE(batch.samples()[0].group, batch.samples()[1].group);
}

TEST(ReadSamples, the_largest_token_is_read_and_one_more_is_refused) {
  const TemporaryFile file(R"({"prompt_ids": [9223372036854775807], "response_ids": []})", ".jsonl");
  EXPECT_THAT(read_all(file.path()).at("input_ids").values<std::int64_t>(), ElementsAre(9223372036854775807));
  EXPECT_EQ(jsonl_error(R"({"prompt_ids": [9223372036854775808], "response_ids": []})").message,
            "prompt_ids[0] is 9223372036854775808; a token must be an integer from 0 to 9223372036854775807");
}

TEST(ReadSamples, an_invalid_token_is_an_error_with_position_and_value) {
  const auto message = [](const std::string& token) {
    return jsonl_error(R"({"prompt_ids": [1], "response_ids": [2, 3, )" + token + "]}").message;
  };
  EXPECT_THAT(message("-4"), HasSubstr("response_ids[2] is -4;"));
  EXPECT_THAT(message("2.5"), HasSubstr("response_ids[2] is 2.5;"));
  EXPECT_THAT(message("\"x\""), HasSubstr("response_ids[2] is \"x\";"));
  EXPECT_THAT(message("null"), HasSubstr("response_ids[2] is null;"));
  EXPECT_THAT(message("[5]"), HasSubstr("response_ids[2] is [5];"));
  EXPECT_THAT(message("123456789012345678901234567890"), HasSubstr("must fit into 64 bits"));
}

TEST(ReadSamples, a_line_that_is_not_a_json_object_is_an_error) {
  EXPECT_THAT(jsonl_error("{\"prompt_ids\": [1, \"response_ids\": [2]}").message,
              HasSubstr("not valid JSON in column 34: "));
  EXPECT_THAT(jsonl_error(R"({"prompt_ids": [1], "response_ids": [2])").message,
              HasSubstr("not valid JSON in column "));
  EXPECT_THAT(jsonl_error(R"({"prompt_ids": [1], "response_ids": [2]} {})").message,
              HasSubstr("not valid JSON in column 42: "));
  EXPECT_EQ(jsonl_error("[1, 2]").message, "is [1,2]; it must be a JSON object");
  EXPECT_EQ(jsonl_error("3").message, "is 3; it must be a JSON object");
}

TEST(ReadSamples, numbers_that_are_not_finite_are_refused_by_name_field_and_column) {
  EXPECT_EQ(jsonl_error(rollout_with(R"("reward": NaN)")).message,
            "field 'reward' holds NaN in column 55; JSON does not have NaN or Infinity");
  EXPECT_EQ(jsonl_error(rollout_with(R"("adv": [0.5, -Infinity])")).message,
            "field 'adv' holds -Infinity in column 58; JSON does not have NaN or Infinity");
  EXPECT_EQ(jsonl_error(R"({"prompt_ids": [NaN], "response_ids": []})").message,
            "field 'prompt_ids' holds NaN in column 17; JSON does not have NaN or Infinity");
  EXPECT_EQ(jsonl_error(rollout_with(R"("é": "NaN \" Infinity", "top": [[1, 2], [3, Infinity]])")).message,
            "field 'top' holds Infinity in column 89; JSON does not have NaN or Infinity");
  EXPECT_EQ(jsonl_error("[1, NaN]").message, "holds NaN in column 5; JSON does not have NaN or Infinity");
}

TEST(ReadSamples, invalid_json_is_refused_with_field_and_column) {
  const auto message = [](const std::string& field) { return jsonl_error(rollout_with(field)).message; };
  EXPECT_EQ(
      message(R"("note": "é\ud83d\ude00 \ud83d!")"),
      R"(field 'note' has half of a surrogate pair (\ud83d) in column 68; a character above U+FFFF requires two of these escapes)");
  EXPECT_THAT(message(R"("note": "\ude00")"), HasSubstr("field 'note' has half of a surrogate pair"));
  EXPECT_EQ(message(R"("meta": {"n": [1, 1e999]})"),
            "field 'meta' holds 1e999 in column 63; a number must fit into 64 bits");
  EXPECT_THAT(message(R"("n": 18446744073709551616)"), HasSubstr("field 'n' holds 18446744073709551616 in"));
  EXPECT_THAT(message(R"("n": -9223372036854775809)"), HasSubstr("field 'n' holds -9223372036854775809 in"));
  EXPECT_THAT(message(R"("note": "a\q")"), HasSubstr(R"(field 'note' has the escape \q in column)"));
  EXPECT_THAT(message(R"("note": "a", "b\q": 2)"),
              AllOf(HasSubstr(R"(has the escape \q in column)"), Not(HasSubstr("note"))));
  EXPECT_THAT(message("\"note\": \"a\tb\""),
              HasSubstr("field 'note' has a control character in a string in"));
  EXPECT_THAT(message("\"note\": \"\xff\""),
              HasSubstr("field 'note' has bytes that are not UTF-8 in column"));
  EXPECT_THAT(jsonl_error("\xef\xbb\xbf" + rollout_with("\"x\": 1")).message,
              HasSubstr("holds a byte order mark in column 1"));
}

TEST(ReadSamples, a_number_that_is_not_finite_is_refused_at_any_position) {
  for (const std::string word : {"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "+Infinity", "-nan"}) {
    for (const std::string& value : {word, "[" + word + "]", R"({"deep": [{"er": )" + word + "}]}"}) {
      EXPECT_THAT(jsonl_error(rollout_with(R"("note": "a", "x": )" + value)).message,
                  HasSubstr("field 'x' holds " + word + " in column"));
    }
  }
  EXPECT_THAT(jsonl_error(rollout_with(R"("x": nano)")).message, HasSubstr("not valid JSON"));
}

TEST(ReadSamples, texts_and_names_may_contain_nan_and_infinity) {
  const TemporaryFile file(rollout_with(R"("NaN": 1, "note": "Infinity")"), ".jsonl");
  EXPECT_EQ(read_all(file.path()).at("NaN").rows(), 1);
}

TEST(ReadSamples, a_list_over_several_lines_gets_a_hint) {
  const TemporaryFile file("[\n  {\"prompt_ids\": [1], \"response_ids\": [2]}\n]\n", ".jsonl");
  const ErrorReport report = report_of<InputError>([&] { (void)read_all(file.path()); });
  EXPECT_EQ(report.where, file.line(1));
  EXPECT_THAT(report.hint, HasSubstr("one complete object per line"));
}

TEST(ReadSamples, utf_16_is_refused_by_name) {
  const TemporaryFile file(std::string("\xff\xfe{\0}\0\n\0", 8), ".jsonl");
  EXPECT_THAT(report_of<InputError>([&] { (void)read_all(file.path()); }).message, HasSubstr("UTF-16"));
}

TEST(ReadSamples, a_long_value_is_cut_short_in_the_message) {
  EXPECT_LT(jsonl_error("\"" + std::string(5000, 'x') + "\"").message.size(), 120U);
}

TEST(ReadSamples, missing_or_odd_token_lists_are_errors) {
  EXPECT_EQ(jsonl_error(R"({"response_ids": [2]})").message, "has no prompt_ids");
  EXPECT_EQ(jsonl_error(R"({"prompt_ids": [2]})").message, "has no response_ids");
  EXPECT_EQ(jsonl_error(R"({"prompt_ids": 2, "response_ids": []})").message,
            "prompt_ids is 2; it must be a list of tokens");
}

TEST(ReadSamples, a_duplicate_key_is_an_error) {
  EXPECT_EQ(jsonl_error(R"({"prompt_ids": [1], "prompt_ids": [2], "response_ids": []})").message,
            "has the key 'prompt_ids' twice");
}

TEST(ReadSamples, a_uid_that_is_neither_text_nor_integer_is_an_error) {
  EXPECT_EQ(jsonl_error(R"({"uid": 1.5, "prompt_ids": [], "response_ids": []})").message,
            "uid is 1.5; it must be a string or an integer");
}

TEST(ReadSamples, a_field_that_does_not_fit_the_schema_is_an_error) {
  const FieldSpec advantages{"adv", DType::float32, FieldKind::response_token, {}};
  const FieldSpec count{"n", DType::int64, FieldKind::sample, {}};
  const FieldSpec mask{"mask", DType::boolean, FieldKind::token, {}};
  const FieldSpec pairs{"top", DType::int64, FieldKind::response_token, {2}};
  EXPECT_EQ(jsonl_error(rollout_with("\"x\": 1"), {count}).message,
            "has no field 'n', which other samples have");
  EXPECT_EQ(jsonl_error(rollout_with("\"adv\": [1]"), {advantages}).message,
            "field 'adv' (response_token, float32) has 1 row; the sample needs 2");
  EXPECT_EQ(jsonl_error(rollout_with("\"adv\": 1"), {advantages}).message,
            "field 'adv' (response_token, float32) has 1 where a list is expected");
  EXPECT_EQ(jsonl_error(rollout_with("\"adv\": [1, true]"), {advantages}).message,
            "field 'adv' (response_token, float32) has the element true; it must be a real number within "
            "the range of float32, or an integer that float32 represents exactly");
  EXPECT_THAT(jsonl_error(rollout_with("\"adv\": [1, 1e39]"), {advantages}).message,
              HasSubstr("a real number within the range of float32"));
  EXPECT_EQ(jsonl_error(rollout_with("\"n\": 1.5"), {count}).message,
            "field 'n' (sample, int64) is 1.5; it must be a signed 64-bit integer");
  EXPECT_THAT(jsonl_error(rollout_with("\"n\": 9223372036854775808"), {count}).message,
              HasSubstr("it must be a signed 64-bit integer"));
  EXPECT_THAT(jsonl_error(rollout_with("\"mask\": [true, 1, false]"), {mask}).message,
              HasSubstr("it must be true or false"));
  EXPECT_EQ(jsonl_error(rollout_with("\"top\": [[1, 2], [3]]"), {pairs}).message,
            "field 'top' (response_token, int64) has 1 element in a row; other samples have 2");
  EXPECT_THAT(jsonl_error(rollout_with("\"top\": [[1, 2], [3, [4]]]"), {pairs}).message,
              HasSubstr("has the element [4]"));
}

TEST(ReadSamples, a_schema_with_a_dtype_that_json_cannot_express_is_refused) {
  const TemporaryFile file("", ".jsonl");
  const ErrorReport report = report_of<InputError>([&] {
    (void)read_samples(InputFile(file.path()), {},
                       schema_of({{"x", DType::bfloat16, FieldKind::sample, {}}}));
  });
  EXPECT_THAT(report.message, HasSubstr("bfloat16"));
}

TEST(ReadSamples, a_file_that_is_missing_or_has_shrunk_is_an_io_error) {
  const TemporaryFile missing;
  EXPECT_THROW((void)read_samples(InputFile(missing.path()), {}, {}), IoError);
  const TemporaryFile shrunk("{}\n", ".jsonl");
  const std::vector<LineRef> lines{{0, 100, 0}};
  EXPECT_THAT(report_of<IoError>([&] { (void)read_samples(InputFile(shrunk.path()), lines, {}); }).message,
              HasSubstr("ends at byte 3"));
}

TEST(ReadSamples, windows_line_ends_a_byte_order_mark_and_blank_lines_do_not_matter) {
  const TemporaryFile file(
      "\xef\xbb\xbf{\"prompt_ids\":[1],\"response_ids\":[2]}\r\n\r\n  "
      "{\"prompt_ids\":[3],\"response_ids\":[]}",
      ".jsonl");
  const RaggedBatch batch = read_all(file.path());
  EXPECT_THAT(batch.at("input_ids").values<std::int64_t>(), ElementsAre(1, 2, 3));
  EXPECT_EQ(batch.samples()[1].id, SampleId{2}) << "blank lines count";
}

TEST(ReadSamples, lines_longer_than_any_buffer_are_read) {
  std::string tokens = "0";
  std::vector<std::int64_t> expected{0};
  for (std::int64_t token = 1; token < 400000; ++token) {
    tokens.append(",").append(std::to_string(token));
    expected.push_back(token);
  }
  const std::string line = "{\"prompt_ids\":[" + tokens + "],\"response_ids\":[]}\n";
  const TemporaryFile file("{\"prompt_ids\":[7],\"response_ids\":[]}\n" + line + line, ".jsonl");
  const RaggedBatch batch = read_all(file.path());
  EXPECT_EQ(batch.num_tokens(), 800001);
  const auto values = batch.at("input_ids").values<std::int64_t>();
  EXPECT_TRUE(std::ranges::equal(values.subspan(1, 400000), expected));
  EXPECT_TRUE(std::ranges::equal(values.subspan(400001), expected));
}

TEST(ReadSamples, many_lines_in_any_order_are_returned_in_that_order) {
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += "{\"prompt_ids\": [" + std::to_string(i) + "], \"response_ids\": [2]" +
            std::string(static_cast<std::size_t>(i % 7 * 400), ' ') + "}\n";
  }
  const TemporaryFile file(text, ".jsonl");
  const std::vector<LineRef> lines = scan_whole(file.path()).lines;
  std::vector<LineRef> chosen;
  std::vector<std::int64_t> expected;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t line =
        i * 1009 % lines.size() / (1 + i % 3);  // some nearby, some repeated, most far away
    chosen.push_back(lines[line]);
    expected.insert(expected.end(), {static_cast<std::int64_t>(line), 2});
  }
  const RaggedBatch batch = read_samples(InputFile(file.path()), chosen, schema_of({}));
  EXPECT_TRUE(std::ranges::equal(batch.at("input_ids").values<std::int64_t>(), expected));
}

RC_GTEST_PROP(ReadSamples, any_choice_of_lines_in_any_order_reads_those_samples, ()) {
  const auto lengths = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 2000)));
  std::string text;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    text += "{\"prompt_ids\":[" + std::to_string(i) + "],\"note\":\"" +
            std::string(static_cast<std::size_t>(lengths[i]), 'x') + "\",\"response_ids\":[]}\n";
  }
  const TemporaryFile file(text, ".jsonl");
  const std::vector<LineRef> all = scan_whole(file.path()).lines;
  const auto chosen =
      *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, all.size()));
  std::vector<LineRef> lines;
  for (const std::size_t i : chosen) lines.push_back(all[i]);
  const RaggedBatch batch = read_samples(InputFile(file.path()), lines, schema_of({}));
  const auto tokens = batch.at("input_ids").values<std::int64_t>();
  RC_ASSERT(std::ranges::equal(tokens, chosen, [](std::int64_t token, std::size_t line) {
    return token == static_cast<std::int64_t>(line);
  }));
}

RC_GTEST_PROP(ReadSamples, damaged_lines_are_refused_or_read_as_a_whole_batch, ()) {
  std::string text = two_rollouts;
  for (int damage = *rc::gen::inRange(1, 4); damage > 0; --damage) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] =
        *rc::gen::elementOf(std::string("\n\xff 019\"-.e,[]{}:tnNaI\\"));
  }
  const TemporaryFile file(text, ".jsonl");
  try {
    const RaggedBatch batch = read_all(file.path());
    RC_ASSERT(batch.at("input_ids").rows() == batch.num_tokens());
  } catch (const InputError& error) {
    RC_ASSERT(error.report().where.starts_with(file.path().string() + ":"));
  }
}

}  // namespace
}  // namespace evenkeel
