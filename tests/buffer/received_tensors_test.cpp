#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/intake/received_samples.hpp"
#include "buffer/intake/sample_bodies.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "io/safetensors/safetensors.hpp"
#include "support/report_of.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::groups_of;
using testing_support::received;
using testing_support::report_of;
using testing_support::rollout_line;

/// Named arrays to send.
class Tensors {
 public:
  template <typename Element>
  Tensors& with(const std::string& name, std::vector<std::int64_t> shape,
                const std::vector<Element>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    tensors_[name] = {dtype_of<Element>, std::move(shape), {bytes.begin(), bytes.end()}};
    return *this;
  }
  Tensors& with(const std::string& name, const std::vector<std::int64_t>& values) {
    return with(name, {std::ssize(values)}, values);
  }
  Tensors& with_texts(const std::string& name, const std::string& text,
                      const std::vector<std::int64_t>& offsets) {
    with(name, {std::ssize(text)}, std::vector<std::uint8_t>(text.begin(), text.end()));
    return with(name + "_offsets", offsets);
  }
  Tensors& without(const std::string& name) {
    tensors_.erase(name);
    return *this;
  }
  Tensors& with_kinds(const std::string& kinds) {
    metadata_["evenkeel_fields"] = kinds;
    return *this;
  }

  [[nodiscard]] ReceivedSamples sent() const {
    std::vector<TensorView> views;
    for (const auto& [name, tensor] : tensors_)
      views.push_back({name, tensor.dtype, tensor.shape, tensor.bytes});
    RequestBody body;
    body.write(safetensors_bytes(views, metadata_));
    return ReceivedSamples(std::move(body), SampleForm::tensors);
  }
  [[nodiscard]] ErrorReport refused() const {
    return report_of<InputError>([&] { return sent(); });
  }

 private:
  struct Tensor {
    DType dtype = DType::int64;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Returns three samples with 2+1, 0+2 and 1+3 tokens in groups 7, 7 and 8.
Tensors three() {
  return Tensors()
      .with("input_ids", {9}, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9})
      .with("offsets", {0, 3, 5, 9})
      .with("prompt_lengths", {2, 0, 1})
      .with("uid", {7, 7, 8})
      .with("index", {3}, std::vector<std::int32_t>{0, 1, 0})
      .with("version", {4, 5, 6});
}

/// Returns the samples as a job receives them from a buffer.
RaggedBatch delivered_samples(const ReceivedSamples& received, const std::vector<std::int64_t>& order) {
  std::string answer;
  for (const std::int64_t sample : order) {
    const std::string_view body = received.samples()[static_cast<std::size_t>(sample)].body;
    const BodyFrame frame = make_body_frame(body);
    answer.append(frame.before).append(body).append(frame.after);
  }
  return parse_samples(answer, order, received.schema(), stream_formats());
}

TEST(ReceivedTensors, have_keys_lengths_and_versions) {
  const ReceivedSamples received = three().sent();
  ASSERT_EQ(received.samples().size(), 3);
  EXPECT_EQ(received.samples()[0].accepted, (stream::SampleAccepted{{std::int64_t{7}, 0}, 2, 1, 4, 0}));
  EXPECT_EQ(received.samples()[1].accepted, (stream::SampleAccepted{{std::int64_t{7}, 1}, 0, 2, 5, 0}));
  EXPECT_EQ(received.samples()[2].accepted, (stream::SampleAccepted{{std::int64_t{8}, 0}, 1, 3, 6, 0}));
  EXPECT_EQ(received.error_location(received.samples()[2]), "body, sample 2");
}

TEST(ReceivedTensors, have_text_uids_and_the_version_of_their_oldest_token) {
  const ReceivedSamples received = three()
                                       .without("version")
                                       .with("versions", {6}, std::vector<std::int32_t>{9, 4, 3, 8, 7, 9})
                                       .with_texts("uid", "aabc", {0, 1, 2, 4})
                                       .sent();
  EXPECT_EQ(received.samples()[2].accepted.key, (stream::SampleKey{"bc", 0}));
  EXPECT_EQ(received.samples()[0].accepted.version, 9);
  EXPECT_EQ(received.samples()[1].accepted.version, 3);
  EXPECT_EQ(received.samples()[2].accepted.version, 7);
}

TEST(ReceivedTensors, have_a_hash_that_depends_only_on_their_own_content) {
  const auto alone = [](std::int32_t token, std::int64_t version = 5) {
    return Tensors()
        .with("input_ids", {2}, std::vector<std::int32_t>{4, token})
        .with("offsets", {0, 2})
        .with("prompt_lengths", {0})
        .with("uid", {7})
        .with("index", {1}, std::vector<std::int32_t>{1})
        .with("version", {version})
        .sent();
  };
  const std::uint32_t content = three().sent().samples()[1].content;
  EXPECT_EQ(alone(5).samples()[0].content, content);
  EXPECT_EQ(alone(5, 3).samples()[0].content, content) << "a version that is drawn anew";
  EXPECT_NE(alone(6).samples()[0].content, content);
}

TEST(ReceivedTensors, are_returned_unchanged) {
  const ReceivedSamples received =
      three()
          .with("experts", {9, 2},
                std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17})
          .with("advantages", {6}, std::vector<float>{0.5F, 1.5F, 2.5F, 3.5F, 4.5F, 5.5F})
          .with("pixels", {3, 2}, std::vector<std::int16_t>{1, 2, 3, 4, 5, 6})
          .with("pixels_offsets", {0, 1, 1, 3})
          .with_texts("source", "mathcode", {0, 4, 4, 8})
          .with_kinds(R"({"source": "text"})")
          .sent();
  const RaggedBatch batch = delivered_samples(received, {2, 0});
  ASSERT_EQ(batch.size(), 2);
  EXPECT_EQ(batch.samples()[0], (SampleShape{SampleId{2}, 8, 1, 3}));
  EXPECT_EQ(batch.samples()[1], (SampleShape{SampleId{0}, 7, 2, 1}));
  EXPECT_THAT(batch.at("input_ids").values<std::int64_t>(), ElementsAre(6, 7, 8, 9, 1, 2, 3));
  EXPECT_THAT(batch.at("index").values<std::int32_t>(), ElementsAre(0, 0));
  EXPECT_THAT(batch.at("version").values<std::int64_t>(), ElementsAre(6, 4));
  EXPECT_EQ(batch.at("experts").spec(), (FieldSpec{"experts", DType::uint8, FieldKind::token, {2}}));
  EXPECT_THAT(batch.at("experts").values<std::uint8_t>(),
              ElementsAre(10, 11, 12, 13, 14, 15, 16, 17, 0, 1, 2, 3, 4, 5));
  EXPECT_EQ(batch.at("advantages").spec().kind, FieldKind::response_token);
  EXPECT_THAT(batch.at("advantages").values<float>(), ElementsAre(3.5F, 4.5F, 5.5F, 0.5F));
  EXPECT_EQ(batch.at("pixels").spec().kind, FieldKind::rows);
  EXPECT_THAT(batch.at("pixels").samples().offsets(), ElementsAre(0, 2, 3));
  EXPECT_THAT(batch.at("pixels").values<std::int16_t>(), ElementsAre(3, 4, 5, 6, 1, 2));
  EXPECT_EQ(batch.at("source").spec().kind, FieldKind::text);
}

TEST(ReceivedTensors, need_a_group_an_index_and_a_version) {
  EXPECT_EQ(three().without("uid").refused().message, "has no uid");
  EXPECT_EQ(three().without("index").refused().message, "has no field 'index'");
  EXPECT_EQ(three().without("version").refused().message, "has no field 'version'");
  EXPECT_EQ(three().with("index", {3}, std::vector<float>{0, 1, 0}).refused().message,
            "field 'index' is F32 [3]; it must have one integer per sample");
  EXPECT_EQ(three().with("versions", {6}, std::vector<std::int32_t>{4, 4, 4, 6, 6, 6}).refused().message,
            "sample 1: field 'version' is 5, but the oldest version in 'versions' is 4");
}

TEST(ReceivedTensors, are_refused_with_the_same_errors_as_those_of_a_file) {
  const ErrorReport report = three().with("offsets", {0, 3, 5, 8}).refused();
  EXPECT_EQ(report.where, "body");
  EXPECT_THAT(report.message, HasSubstr("ends at 8 in element 3; 'input_ids' has 9 rows"));
  EXPECT_THAT(three().with("prompt_lengths", {2, 0, 5}).refused().message,
              HasSubstr("says that the prompt of sample 2 has 5 tokens"));
  RequestBody text;
  text.write(std::string_view("{\"uid\": 1}"));
  EXPECT_THAT(
      report_of<InputError>([&] { return ReceivedSamples(std::move(text), SampleForm::tensors); }).message,
      HasSubstr("the header has"));
}

TEST(ReceivedTensors, are_stored_completely_or_refused) {
  EXPECT_THAT(three().with("stray", {1, 2}).refused().message,
              HasSubstr("has a tensor 'stray' that does not form a field"));
}

TEST(ReceivedTensors, cannot_be_mixed_with_lines) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(2));
  EXPECT_EQ(buffer.accept_samples(three().sent()).accepted, 3);
  EXPECT_EQ(buffer.accept_samples(three().sent()).duplicates, 3);
  EXPECT_EQ(report_of<FieldsError>([&] { buffer.accept_samples(received(rollout_line("a", 0))); }).message,
            "is in JSON Lines; earlier samples were sent as safetensors");
}

TEST(ReceivedTensors, always_have_the_same_fields_with_the_same_types) {
  const JsonlSchema so_far = three().sent().schema();
  const auto refused = [&](const Tensors& tensors) {
    return report_of<InputError>([&] { return join_tensor_schemas(so_far, tensors.sent().schema()); })
        .message;
  };
  EXPECT_EQ(join_tensor_schemas(so_far, three().sent().schema()).fields, so_far.fields);
  EXPECT_EQ(refused(three().with("reward", {3}, std::vector<float>{1, 0, 1})),
            "field 'reward' is present; in earlier samples it is missing");
  EXPECT_EQ(refused(three().with("version", {3}, std::vector<std::int32_t>{4, 5, 6})),
            "field 'version' is int32; in earlier samples it is int64");
}

TEST(ReceivedTensors, determine_undecided_properties_of_fields) {
  const auto one = [](std::int64_t prompt, std::vector<float> values) {
    const auto rows = std::ssize(values);
    return Tensors()
        .with("input_ids", {1, 2})
        .with("offsets", {0, 2})
        .with("prompt_lengths", {prompt})
        .with("uid", {prompt})
        .with("index", {0})
        .with("version", {0})
        .with("score", {rows}, values)
        .with_kinds(R"({"index": "sample", "version": "sample"})")
        .sent();
  };
  const ReceivedSamples open = one(0, {0.5F, 1.5F});
  EXPECT_THAT(open.schema().kind_open, ElementsAre("score"));
  const ReceivedSamples decided = Tensors()
                                      .with("input_ids", {1, 2, 3})
                                      .with("offsets", {0, 3})
                                      .with("prompt_lengths", {std::int64_t{1}})
                                      .with("uid", {std::int64_t{9}})
                                      .with("index", {std::int64_t{0}})
                                      .with("version", {std::int64_t{0}})
                                      .with("score", {2}, std::vector<float>{2.5F, 3.5F})
                                      .sent();
  const JsonlSchema joined = join_tensor_schemas(open.schema(), decided.schema());
  EXPECT_TRUE(joined.kind_open.empty());
  std::string answer;
  for (const ReceivedSamples* const sent : {&open, &decided}) {
    const std::string_view body = sent->samples()[0].body;
    answer.append(make_body_frame(body).before).append(body);
  }
  const RaggedBatch batch = parse_samples(answer, std::vector<std::int64_t>{1, 2}, joined, {});
  EXPECT_EQ(batch.at("score").spec().kind, FieldKind::response_token);
  EXPECT_THAT(batch.at("score").values<float>(), ElementsAre(0.5F, 1.5F, 2.5F, 3.5F));
}

TEST(SentSamples, are_read_like_a_file_of_lines) {
  const ReceivedSamples lines = received(rollout_line("a", 0) + rollout_line("b", 1, 7, 4));
  const RaggedBatch batch = delivered_samples(lines, {1, 0});
  EXPECT_EQ(batch.samples()[0], (SampleShape{SampleId{1}, group_of_uid("b"), 1, 4}));
  EXPECT_THAT(batch.at("version").values<std::int64_t>(), ElementsAre(7, 0));
  EXPECT_THAT(batch.at("input_ids").values<std::int64_t>(), ElementsAre(7, 0, 1, 2, 3, 7, 0, 1, 2));
  EXPECT_EQ(delivered_samples(lines, {}).fields().size(), 3);
}

TEST(SentSamples, are_refused_if_they_are_not_the_requested_ones) {
  const ReceivedSamples lines = received(rollout_line("a", 0));
  const std::string answer = std::string(lines.samples()[0].body) + "\n";
  const std::vector<std::int64_t> two{1, 2};
  EXPECT_EQ(report_of<InputError>([&] { return parse_samples(answer, two, lines.schema(), {}); }).message,
            "do not match the request: the number received is 1, but 2 were requested");
  const ReceivedSamples tensors = three().sent();
  const std::string_view body = tensors.samples()[0].body;
  const std::string cut = make_body_frame(body).before + std::string(body.substr(0, body.size() - 1));
  EXPECT_THROW(static_cast<void>(parse_samples(cut, std::vector<std::int64_t>{1}, tensors.schema(), {})),
               InputError);
}

}  // namespace
}  // namespace evenkeel
