#include "buffer/intake/received_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

#include "buffer/rollout_lines.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing_support::received;
using testing_support::report_of;

RequestBody spooled(std::string_view text) {
  RequestBody body;
  body.write(text);
  return body;
}

ErrorReport refused(const std::string& text) {
  return report_of<InputError>([&] { return received(text); });
}

std::string gzipped(const std::string& text) {
  std::string packed(compressBound(text.size()) + 32, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

ReceivedSamples spooled_samples(const std::string& packed) {
  return ReceivedSamples(spooled(packed).unpack_body(Packing::gzip, 100'000));
}

constexpr const char* line =
    R"({"uid": "q", "index": 2, "version": 5, "prompt_ids": [1, 2], "response_ids": [3], "reward": 1.0})";

TEST(ReceivedSamples, have_keys_lengths_and_versions) {
  const ReceivedSamples two = received(
      std::string(line) + "\n\n" +
      R"({"uid": 7, "index": 0, "version": 0, "prompt_ids": [], "response_ids": [3, 4], "reward": 0})");
  ASSERT_EQ(two.samples().size(), 2);
  EXPECT_EQ(two.samples()[0].accepted, (stream::SampleAccepted{{"q", 2}, 2, 1, 5, 0}));
  EXPECT_EQ(two.samples()[0].body, line);
  EXPECT_EQ(two.samples()[1].accepted, (stream::SampleAccepted{{std::int64_t{7}, 0}, 0, 2, 0, 0}));
  EXPECT_EQ(two.samples()[1].number, 2);
}

TEST(ReceivedSamples, have_the_version_of_their_oldest_token) {
  const ReceivedSamples one = received(
      R"({"uid": 1, "index": 0, "prompt_ids": [9], "response_ids": [3, 4], "versions": [[6, 1], [4, 1], [5, 1]]})");
  EXPECT_EQ(one.samples()[0].accepted.version, 4);
  const ErrorReport other = refused(
      R"({"uid": 1, "index": 0, "version": 6, "prompt_ids": [], "response_ids": [3], "versions": [[4, 1]]})");
  EXPECT_EQ(other.message, "field 'version' is 6, but the oldest version in 'versions' is 4");
}

TEST(ReceivedSamples, rejects_requests_without_samples) {
  EXPECT_TRUE(received("").samples().empty());
  EXPECT_TRUE(received("\n \n").samples().empty());
}

TEST(ReceivedSamples, are_refused_with_the_same_errors_as_lines_of_a_file) {
  const ErrorReport report = refused(std::string(line) + "\n{\"prompt_ids\": [5], \"response\": [7]}\n");
  EXPECT_EQ(report.where, "body:2");
  EXPECT_EQ(report.message, "has no response_ids");
}

TEST(ReceivedSamples, need_a_group_an_index_and_a_version) {
  EXPECT_EQ(refused(R"({"index": 0, "version": 0, "prompt_ids": [], "response_ids": [1]})").message,
            "has no uid");
  EXPECT_EQ(refused(R"({"uid": 1, "version": 0, "prompt_ids": [], "response_ids": [1]})").message,
            "has no field 'index'");
  EXPECT_EQ(refused(R"({"uid": 1, "index": 0, "prompt_ids": [], "response_ids": [1]})").message,
            "has no field 'version'");
  EXPECT_EQ(
      refused(R"({"uid": 1, "index": 0.5, "version": 0, "prompt_ids": [], "response_ids": [1]})").message,
      "field 'index' is 0.5; it must be an integer");
}

TEST(ReceivedSamples, rejects_text_as_index_or_version) {
  const auto with = [](const std::string& index, const std::string& version) {
    return "\n" + std::string(R"({"uid": 1, "prompt_ids": [], "response_ids": [1], "index": )") + index +
           R"(, "version": )" + version + "}";
  };
  const ErrorReport index = refused(with(R"("0")", "0"));
  EXPECT_EQ(index.where, "body:2");
  EXPECT_EQ(index.message, R"(field 'index' is the string "0"; it must be an integer)");
  EXPECT_EQ(refused(with("0", R"("3")")).message,
            R"(field 'version' is the string "3"; it must be an integer)");
  EXPECT_EQ(refused(with("null", "0")).message, "field 'index' is null; it must be an integer");
}

TEST(ReceivedSamples, have_a_hash_that_depends_only_on_their_own_content) {
  const std::string text = line;
  const std::uint32_t content = received(text).samples()[0].content;
  const std::string other =
      R"({"uid": "p", "index": 0, "version": 0, "prompt_ids": [], "response_ids": [], "reward": 2})";
  EXPECT_EQ(received(other + "\n  " + text + " \r\n").samples()[1].content, content);
  EXPECT_EQ(spooled_samples(gzipped(text)).samples()[0].content, content);
  for (const auto& [was, is] : {std::pair{"[3]", "[4]"}, std::pair{"1.0", "0.5"},
                                std::pair{"\"version\"", "\"weight\": 1, \"version\""}}) {
    std::string changed = text;
    changed.replace(changed.find(was), std::string(was).size(), is);
    EXPECT_NE(received(changed).samples()[0].content, content) << changed;
  }
}

TEST(ReceivedSamples, have_a_hash_that_does_not_depend_on_their_versions) {
  const auto with = [](const std::string& version, const std::string& behind = "") {
    const std::string text = R"({"uid": "a\"version", "index": 0, )" + version +
                             R"(, "prompt_ids": [], "response_ids": [7, 8])" + behind + "}";
    const std::uint32_t content = received(text).samples()[0].content;
    EXPECT_EQ(ReceivedSamples::parse_without_outlines(spooled(text)).samples()[0].content, content);
    return content;
  };
  EXPECT_EQ(with(R"("version": 5)"), with(R"("version":  1234)"));
  EXPECT_EQ(with(R"("versions": [[5, 2]])"), with(R"("versions": [[3, 1], [4, 1]])"));
  EXPECT_NE(with(R"("version": 5)"), with(R"("version": 5, "version_of_reward": 5)"));
  EXPECT_NE(with(R"("version": 5)", R"(, "reward": 1)"), with(R"("version": 5)", R"(, "reward": 2)"));
  EXPECT_NE(with(R"("version": 5, "version_of_reward": 1)"), with(R"("version": 5, "version_of_reward": 2)"));
  EXPECT_NE(with(R"("version": 5, "a": [1, 2])"), with(R"("version": 5, "a": [1, 3])"));
}

TEST(RequestBody, is_decompressed_up_to_a_limit) {
  const std::string text(100'000, 'a');
  EXPECT_EQ(spooled(gzipped(text)).unpack_body(Packing::gzip, 100'000).size(), 100'000);
  EXPECT_THAT(report_of<LimitError>([&] {
                return spooled(gzipped(text)).unpack_body(Packing::gzip, 99'999);
              }).message,
              HasSubstr("more than 99999 bytes when decompressed"));
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  RequestBody unpacked = spooled(packed).unpack_body(Packing::zstd, 100'000);
  static_cast<void>(unpacked.file());
  EXPECT_EQ(unpacked.bytes(), text);
}

TEST(RequestBody, is_refused_as_a_whole_if_truncated) {
  const std::string packed = gzipped(std::string(line) + "\n");
  EXPECT_THAT(report_of<InputError>([&] {
                return spooled(packed.substr(0, packed.size() - 4)).unpack_body(Packing::gzip, 1000);
              }).message,
              HasSubstr("ends too early"));
}

class JoinedSchema : public testing::Test {
 protected:
  static JsonlSchema schema(const std::string& field) {
    return received(R"({"uid": 1, "index": 0, "version": 0, "prompt_ids": [8], "response_ids": [1])" + field +
                    "}")
        .schema();
  }
};

TEST_F(JoinedSchema, requires_the_same_fields_in_every_request) {
  const ErrorReport report = report_of<InputError>(
      [&] { return join_schemas(schema(R"(, "reward": 1.0)"), schema(R"(, "score": 1.0)"), true); });
  EXPECT_EQ(report.where, "body:1");
  EXPECT_EQ(report.message,
            "field 'reward' holds numbers in earlier samples and is missing, empty or not a number in "
            "line 1 of body");
}

TEST_F(JoinedSchema, may_become_more_general_until_a_step_uses_it) {
  const JsonlSchema whole = schema(R"(, "reward": 1)");
  const JsonlSchema real = schema(R"(, "reward": 0.5)");
  EXPECT_EQ(join_schemas(whole, real, true).fields, real.fields);
  EXPECT_EQ(join_schemas(real, whole, false).fields, real.fields);
  EXPECT_THAT(report_of<InputError>([&] { return join_schemas(whole, real, false); }).message,
              HasSubstr("field 'reward' is float32, but it is int64 in steps that were already formed"));
}

TEST_F(JoinedSchema, refuses_integers_that_float32_would_round) {
  const JsonlSchema wide = parse_schema(serialize_schema(schema(R"(, "ts": 1763800000123)")));
  const ErrorReport report =
      report_of<InputError>([&] { return join_schemas(wide, schema(R"(, "ts": 0.5)"), true); });
  EXPECT_EQ(report.where, "body:1");
  EXPECT_THAT(report.message, HasSubstr("field 'ts' has an integer that float32 would round"));
}

TEST_F(JoinedSchema, is_unchanged_after_being_stored) {
  for (const JsonlSchema& before :
       {JsonlSchema{}, schema(""), schema(R"(, "pairs": [[1, 2], [3, 4]], "done": true)")}) {
    const JsonlSchema after = parse_schema(serialize_schema(before));
    EXPECT_EQ(after.fields, before.fields);
    EXPECT_EQ(after.kind_open, before.kind_open);
    EXPECT_EQ(after.element_open, before.element_open);
    EXPECT_EQ(after.empty, before.empty);
  }
  EXPECT_THROW(static_cast<void>(parse_schema("{}")), InputError);
  EXPECT_THROW(static_cast<void>(parse_schema("nonsense")), InputError);
  const auto with_extent = [](const std::string& extent) {
    return R"({"empty": false, "fields": [{"name": "x", "dtype": "float32", "kind": "sample", "kind_open": false,
               "element_open": false, "trailing": [)" +
           extent + "]}]}";
  };
  EXPECT_EQ(parse_schema(with_extent("3")).fields.front().trailing, std::vector<std::int64_t>{3});
  for (const char* const extent : {"1e67", "2.5", "9223372036854775808", "true"})
    EXPECT_THROW(static_cast<void>(parse_schema(with_extent(extent))), InputError) << extent;
}

}  // namespace
}  // namespace evenkeel
