#include "io/jsonl/writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "io/jsonl/jsonl.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing_support::files_named_like;
using testing_support::report_of;
using testing_support::scan_whole;
using testing_support::TemporaryFile;

void write_jsonl(const std::filesystem::path& path, const RaggedBatch& batch) {
  JsonlWriter writer(path);
  writer.write(batch);
  writer.close();
}

RaggedBatch read_back(const std::filesystem::path& path) {
  const std::vector<LineRef> lines = scan_whole(path).lines;
  return read_samples(InputFile(path), lines, infer_schema(InputFile(path), lines));
}

/// One sample with prompt token 5 and response tokens 6 and 7.
RaggedBatch small_batch() {
  RaggedBatch batch({{SampleId{0}, 17, 1, 2}});
  auto ids = batch.add_field({"input_ids", DType::int64, FieldKind::token, {}}).values<std::int64_t>();
  std::ranges::copy(std::vector<std::int64_t>{5, 6, 7}, ids.begin());
  return batch;
}

TEST(JsonlWriter, writes_one_line_per_sample_with_the_group_as_uid) {
  RaggedBatch batch = small_batch();
  batch.add_field({"reward", DType::float32, FieldKind::sample, {}}).values<float>()[0] = 1.0F;
  auto pairs = batch.add_field({"top", DType::int32, FieldKind::response_token, {2}}).values<std::int32_t>();
  std::ranges::copy(std::vector<std::int32_t>{1, 2, 3, 4}, pairs.begin());
  batch.add_field({"mask", DType::boolean, FieldKind::token, {}}).values<bool>()[1] = true;
  const TemporaryFile file(".jsonl");
  write_jsonl(file.path(), batch);
  EXPECT_EQ(file.content(),
            "{\"uid\":17,\"prompt_ids\":[5],\"response_ids\":[6,7],\"reward\":1.0,\"top\":[[1,2],[3,4]],"
            "\"mask\":[false,true,false]}\n");
}

TEST(JsonlWriter, writes_uids_unchanged_and_omits_missing_ones) {
  const TemporaryFile file(".jsonl");
  JsonlWriter writer(file.path());
  const std::vector<Uid> uids{Uid("a \"q\""), Uid(std::int64_t{-3}),
                              Uid(std::numeric_limits<std::uint64_t>::max()), Uid()};
  for (const Uid& uid : uids) writer.write(small_batch(), std::span(&uid, 1));
  writer.close();
  const std::string tokens = "\"prompt_ids\":[5],\"response_ids\":[6,7]}\n";
  EXPECT_EQ(file.content(), R"({"uid":"a \"q\"",)" + tokens + R"({"uid":-3,)" + tokens +
                                R"({"uid":18446744073709551615,)" + tokens + "{" + tokens);
  EXPECT_EQ(read_uids(InputFile(file.path()), scan_whole(file.path()).lines), uids);
}

TEST(JsonlWriter, text_that_is_not_utf_8_is_an_error_that_names_sample_and_field) {
  const TemporaryFile file(".jsonl");
  JsonlWriter writer(file.path());
  const Uid uid("a\xff");
  const ErrorReport of_uid = report_of<InputError>([&] { writer.write(small_batch(), std::span(&uid, 1)); });
  EXPECT_EQ(of_uid.where, "sample 0, uid");
  EXPECT_THAT(of_uid.message, HasSubstr("not valid UTF-8 at byte 1"));
  RaggedBatch batch = small_batch();
  batch.add_field(
      Column({"note", DType::uint8, FieldKind::text, {}}, SampleRows::from_counts(std::array{1L})));
  batch.fields()[1].values<std::uint8_t>()[0] = 0xff;
  EXPECT_EQ(report_of<InputError>([&] { writer.write(batch); }).where, "sample 0, field 'note'");
}

TEST(JsonlWriter, rows_without_elements_are_refused_since_lines_would_lose_their_shape) {
  RaggedBatch batch = small_batch();
  batch.add_field({"none", DType::float32, FieldKind::token, {2, 0}});
  const TemporaryFile file(".jsonl");
  EXPECT_THAT(report_of<InputError>([&] { write_jsonl(file.path(), batch); }).message,
              HasSubstr("rows without elements"));
}

TEST(JsonlWriter, integers_of_any_width_are_written_unchanged) {
  RaggedBatch batch = small_batch();
  batch.add_field({"a", DType::int8, FieldKind::sample, {}}).values<std::int8_t>()[0] = -128;
  batch.add_field({"b", DType::int16, FieldKind::sample, {}}).values<std::int16_t>()[0] = -32768;
  batch.add_field({"c", DType::uint16, FieldKind::sample, {}}).values<std::uint16_t>()[0] = 65535;
  batch.add_field({"d", DType::uint32, FieldKind::sample, {}}).values<std::uint32_t>()[0] = 4294967295;
  const TemporaryFile file(".jsonl");
  write_jsonl(file.path(), batch);
  EXPECT_EQ(file.content(),
            "{\"uid\":17,\"prompt_ids\":[5],\"response_ids\":[6,7],\"a\":-128,\"b\":-32768,\"c\":65535,"
            "\"d\":4294967295}\n");
}

TEST(JsonlWriter, text_becomes_strings_bytes_base64_and_rows_lists) {
  RaggedBatch batch = small_batch();
  const auto add = [&](const char* name, DType dtype, FieldKind kind, std::string_view bytes,
                       std::int64_t rows) {
    Column& column =
        batch.add_field(Column({name, dtype, kind, {}}, SampleRows::from_counts(std::vector{rows})));
    std::ranges::copy(std::as_bytes(std::span(bytes)), column.bytes().begin());
  };
  add("source", DType::uint8, FieldKind::text, "a \"b\"\n", 6);
  add("raw", DType::uint8, FieldKind::bytes, {"\0\xff", 2}, 2);
  add("calls", DType::int64, FieldKind::rows, {"\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16}, 2);
  const TemporaryFile file(".jsonl");
  write_jsonl(file.path(), batch);
  EXPECT_EQ(
      file.content(),
      "{\"uid\":17,\"prompt_ids\":[5],\"response_ids\":[6,7],\"source\":\"a \\\"b\\\"\\n\",\"raw\":\"AP8=\","
      "\"calls\":[1,2]}\n");
}

TEST(JsonlWriter, batches_follow_each_other) {
  const TemporaryFile file(".jsonl");
  JsonlWriter writer(file.path());
  writer.write(small_batch());
  writer.write(small_batch());
  writer.close();
  EXPECT_EQ(read_back(file.path()).size(), 2);
}

TEST(JsonlWriter, names_are_escaped) {
  RaggedBatch batch = small_batch();
  batch.add_field({"a\"\n", DType::uint8, FieldKind::sample, {}}).values<std::uint8_t>()[0] = 200;
  const TemporaryFile file(".jsonl");
  write_jsonl(file.path(), batch);
  EXPECT_EQ(read_back(file.path()).at("a\"\n").values<std::int64_t>()[0], 200);
}

TEST(JsonlWriter, without_close_nothing_is_left_and_an_older_file_stays) {
  const TemporaryFile file("old", ".jsonl");
  {
    JsonlWriter writer(file.path());
    writer.write(small_batch());
  }
  EXPECT_EQ(file.content(), "old");
  EXPECT_EQ(files_named_like(file.path()), 1);
}

TEST(JsonlWriter, values_that_json_cannot_express_are_an_error_that_names_sample_and_field) {
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    RaggedBatch batch = small_batch();
    batch.add_field({"x", DType::float32, FieldKind::sample, {}}).values<float>()[0] = value;
    const TemporaryFile file(".jsonl");
    const ErrorReport report = report_of<InputError>([&] { write_jsonl(file.path(), batch); });
    EXPECT_EQ(report.where, "sample 0, field 'x'");
    EXPECT_THAT(report.message, HasSubstr("JSON cannot express"));
    EXPECT_EQ(files_named_like(file.path()), 0);
  }
  RaggedBatch half = small_batch();
  half.add_field({"x", DType::bfloat16, FieldKind::sample, {}});
  const TemporaryFile file(".jsonl");
  EXPECT_THAT(report_of<InputError>([&] { write_jsonl(file.path(), half); }).message, HasSubstr("bfloat16"));
}

TEST(JsonlWriter, a_batch_without_tokens_or_with_a_taken_name_is_refused) {
  const TemporaryFile file(".jsonl");
  EXPECT_THROW(write_jsonl(file.path(), RaggedBatch({{SampleId{0}, 0, 1, 1}})), InputError);
  RaggedBatch batch = small_batch();
  batch.add_field({"uid", DType::int64, FieldKind::sample, {}});
  EXPECT_THAT(report_of<InputError>([&] { write_jsonl(file.path(), batch); }).where, HasSubstr("uid"));
}

TEST(JsonlWriter, a_place_that_cannot_be_written_is_an_io_error) {
  const ErrorReport missing = report_of<IoError>([] { JsonlWriter("/no/such/folder/x.jsonl"); });
  EXPECT_EQ(missing.where, "/no/such/folder/x.jsonl");
  EXPECT_THAT(missing.message, HasSubstr("No such file or directory"));
  EXPECT_THAT(report_of<IoError>([] { JsonlWriter(testing::TempDir()); }).message, HasSubstr("folder"));
  EXPECT_THAT(report_of<IoError>([] { JsonlWriter("/dev/null"); }).message, HasSubstr("regular file"));
}

TEST(JsonlWriter, floats_that_would_be_misread_through_double_get_more_digits) {
  RaggedBatch batch = small_batch();
  auto values = batch.add_field({"x", DType::float32, FieldKind::response_token, {}}).values<float>();
  values[0] = 7.038531e-26F;
  values[1] = 0.1F;
  const TemporaryFile file(".jsonl");
  write_jsonl(file.path(), batch);
  EXPECT_THAT(file.content(), HasSubstr(",0.1]"));
  EXPECT_EQ(read_back(file.path()).at("x").values<float>()[0], 7.038531e-26F);
}

/// Returns the group of a uid, or of a single sample.
rc::Gen<std::uint64_t> any_group(std::size_t sample) {
  return rc::gen::map(rc::gen::arbitrary<std::uint64_t>(), [sample](std::uint64_t number) {
    return number % 3 == 0 ? own_group(static_cast<std::int64_t>(sample)) : number >> 1;
  });
}

/// Returns a batch of random lengths, groups and contents with a field of every kind and dtype that the
/// format preserves.
RaggedBatch any_batch() {
  std::vector<SampleShape> shapes(*rc::gen::inRange<std::size_t>(0, 6));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    shapes[i] = {SampleId{static_cast<std::int64_t>(i)}, *any_group(i), *rc::gen::inRange<std::int64_t>(0, 5),
                 *rc::gen::inRange<std::int64_t>(0, 5)};
  }
  // Adds one sample that has a prompt and a response, so every kind and element type is determined.
  shapes.push_back({SampleId{static_cast<std::int64_t>(shapes.size())}, 1, 2, 1});
  RaggedBatch batch(shapes);
  batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
  batch.add_field({"a", DType::int64, FieldKind::token, {2}});
  batch.add_field({"b", DType::float32, FieldKind::response_token, {}});
  batch.add_field({"c", DType::float32, FieldKind::sample, {}});
  batch.add_field({"d", DType::boolean, FieldKind::response_token, {1, 3}});
  const auto fields = batch.fields();
  for (std::int64_t& x : fields[0].values<std::int64_t>()) x = *rc::gen::positive<std::int64_t>();
  for (std::int64_t& x : fields[1].values<std::int64_t>()) x = *rc::gen::arbitrary<std::int64_t>();
  for (const std::size_t f : {2U, 3U}) {
    for (float& x : fields[f].values<float>()) {
      x = std::bit_cast<float>(*rc::gen::arbitrary<std::uint32_t>());
      if (!std::isfinite(x)) x = 3.0F;
    }
  }
  for (bool& x : fields[4].values<bool>()) x = *rc::gen::arbitrary<bool>();
  return batch;
}

RC_GTEST_PROP(JsonlWriter, round_trips, ()) {
  const RaggedBatch batch = any_batch();
  const TemporaryFile file(".jsonl");
  write_jsonl(file.path(), batch);
  const RaggedBatch read = read_back(file.path());
  RC_ASSERT(std::ranges::equal(read.samples(), batch.samples()));
  RC_ASSERT(std::ranges::equal(read.fields(), batch.fields()));
}

}  // namespace
}  // namespace evenkeel
