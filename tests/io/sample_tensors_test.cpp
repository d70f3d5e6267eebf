#include "io/samples/sample_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "io/safetensors/safetensors.hpp"
#include "io/samples/sample_writer.hpp"
#include "io/temporary_file.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::made_up_batch;
using testing_support::report_of;
using testing_support::TemporaryFile;

/// Tensors of numbers, which are kept while they are written.
class Tensors {
 public:
  template <typename T>
  Tensors& add(const std::string& name, std::vector<std::int64_t> shape, const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    kept_.push_back(std::make_unique<std::vector<std::byte>>(bytes.begin(), bytes.end()));
    views_.push_back({name, dtype_of<T>, std::move(shape), *kept_.back()});
    return *this;
  }
  Tensors& ids(const std::string& name, std::vector<std::int64_t> shape,
               const std::vector<std::int64_t>& values) {
    return add(name, std::move(shape), values);
  }

  [[nodiscard]] SampleTensors open(const std::map<std::string, std::string>& metadata = {}) const {
    write_safetensors(file_->path(), views_, metadata);
    return SampleTensors(std::make_unique<TensorFile>(file_->path()));
  }
  /// Returns the error from reading all samples.
  [[nodiscard]] std::string refusal(const std::map<std::string, std::string>& metadata = {}) const;
  [[nodiscard]] const TemporaryFile& file() const { return *file_; }

 private:
  std::unique_ptr<TemporaryFile> file_ = std::make_unique<TemporaryFile>(".safetensors");
  std::vector<std::unique_ptr<std::vector<std::byte>>> kept_;
  std::vector<TensorView> views_;
};

/// Returns all samples as a batch without ids.
RaggedBatch read_all(const SampleTensors& samples) {
  std::vector<SampleShape> shapes;
  const std::vector<TensorSample> lengths = samples.lengths({0, samples.num_samples()});
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto sample = static_cast<std::int64_t>(i);
    shapes.push_back(
        {SampleId{sample}, group_of(samples.uid_of(sample), sample), lengths[i].prompt, lengths[i].response});
  }
  RaggedBatch batch(std::move(shapes));
  batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  for (std::size_t f = 0; f < samples.fields().size(); ++f) {
    const FieldSpec& spec = samples.fields()[f];
    std::vector<std::int64_t> counts;
    for (std::int64_t i = 0; is_counted(spec.kind) && i < batch.size(); ++i)
      counts.push_back(samples.num_counted_rows(f, i));
    batch.add_field(is_counted(spec.kind) ? Column(spec, SampleRows::from_counts(counts))
                                          : Column(spec, batch.rows_of(spec.kind)));
  }
  std::vector<std::span<std::byte>> rows(batch.fields().size());
  TensorPlace place;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    for (std::size_t f = 0; f < rows.size(); ++f) {
      Column& column = batch.fields()[f];
      const RowRange range = batch.rows_of(column, i);
      rows[f] = {column.row(range.begin), column.row(range.end)};
    }
    samples.read(i, lengths[static_cast<std::size_t>(i)], place, rows);
    place.token += batch.samples()[static_cast<std::size_t>(i)].length();
    place.response += batch.samples()[static_cast<std::size_t>(i)].response;
  }
  return batch;
}

std::string Tensors::refusal(const std::map<std::string, std::string>& metadata) const {
  const ErrorReport report = report_of<InputError>([&] { (void)read_all(open(metadata)); });
  EXPECT_EQ(report.where, file_->path());
  return report.message + ". " + report.hint;
}

template <typename T>
std::vector<T> values_of(const RaggedBatch& batch, std::string_view field) {
  const auto values = batch.at(field).values<T>();
  return {values.begin(), values.end()};
}

Tensors ragged() {
  Tensors tensors;
  tensors.ids("input_ids", {5}, {1, 2, 3, 4, 5}).ids("offsets", {3}, {0, 3, 5});
  return tensors;
}

TEST(SampleTensors, ragged_tensors_have_values_and_offsets) {
  Tensors tensors = ragged();
  tensors.ids("prompt_lengths", {2}, {1, 0}).ids("uid", {2}, {7, -1});
  tensors.add<float>("advantages", {4}, {2, 3, 4, 5}).add<float>("hidden", {5, 1}, {1, 2, 3, 4, 5});
  tensors.add<double>("reward", {2}, {0.1, 0.2}).ids("table", {3, 2}, {1, 2, 3, 4, 5, 6});
  const SampleTensors samples = tensors.open();
  const RaggedBatch batch = read_all(samples);
  EXPECT_THAT(batch.samples(), ElementsAre(SampleShape{SampleId{0}, 7, 1, 2},
                                           SampleShape{SampleId{1}, group_of_uid(std::int64_t{-1}), 0, 2}));
  EXPECT_THAT(values_of<std::int64_t>(batch, "input_ids"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(batch.at("advantages").spec().kind, FieldKind::response_token);
  EXPECT_EQ(batch.at("hidden").spec().trailing, std::vector<std::int64_t>{1});
  EXPECT_THAT(values_of<double>(batch, "reward"), ElementsAre(0.1, 0.2));
  ASSERT_EQ(samples.ignored_content().size(), 1);
  EXPECT_EQ(samples.ignored_content()[0].first, "table");
  EXPECT_THAT(samples.undecided_fields(), ElementsAre());
}

TEST(SampleTensors, a_row_count_that_matches_tokens_and_response_tokens_is_ambiguous) {
  Tensors tensors = ragged();
  tensors.add<float>("x", {5}, {1, 2, 3, 4, 5});
  EXPECT_THAT(tensors.open().undecided_fields(), ElementsAre("x"));
  EXPECT_EQ(tensors.open({{"evenkeel_fields", R"({"x":"response_token"})"}}).fields()[0].kind,
            FieldKind::response_token);
  EXPECT_THAT(tensors.refusal({{"evenkeel_fields", R"({"x":"sample"})"}}),
              HasSubstr("does not have the shape of a field of kind sample"));
}

TEST(SampleTensors, declared_kinds_that_are_not_kinds_are_refused) {
  Tensors tensors = ragged();
  tensors.add<float>("x", {5}, {1, 2, 3, 4, 5});
  EXPECT_THAT(
      tensors.refusal({{"evenkeel_fields", R"({"x": "sampel"})"}}),
      HasSubstr(R"(metadata evenkeel_fields gives field 'x' the kind "sampel"; it must be one of token, )"));
  EXPECT_THAT(tensors.refusal({{"evenkeel_fields", R"({"x": 1})"}}),
              HasSubstr("gives field 'x' the kind 1; it must be"));
  EXPECT_THAT(tensors.refusal({{"evenkeel_fields", "sample"}}),
              HasSubstr("evenkeel_fields is 'sample'; it must be a JSON object"));
}

TEST(SampleTensors, tensors_with_their_own_offsets_are_counted_rows) {
  Tensors tensors = ragged();
  tensors.add<float>("patches", {3, 2}, {1, 2, 3, 4, 5, 6}).ids("patches_offsets", {3}, {0, 1, 3});
  tensors.add<std::uint8_t>("source", {4}, {'a', 'b', 'c', 'd'}).ids("source_offsets", {3}, {0, 4, 4});
  const SampleTensors samples = tensors.open({{"evenkeel_fields", R"({"source":"text"})"}});
  ASSERT_EQ(samples.fields().size(), 2);
  EXPECT_TRUE(samples.ignored_content().empty());
  const RaggedBatch batch = read_all(samples);
  EXPECT_EQ(batch.at("patches").spec(), (FieldSpec{"patches", DType::float32, FieldKind::rows, {2}}));
  EXPECT_THAT(batch.at("patches").samples().offsets(), ElementsAre(0, 1, 3));
  EXPECT_THAT(values_of<float>(batch, "patches"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(batch.at("source").spec().kind, FieldKind::text);
  EXPECT_THAT(batch.at("source").samples().offsets(), ElementsAre(0, 4, 4));
}

TEST(SampleTensors, offsets_that_are_not_prefix_sums_are_refused_by_name) {
  const auto said_of = [](const std::vector<std::int64_t>& offsets, const std::string& kinds = {}) {
    Tensors tensors = ragged();
    tensors.add<float>("patches", {3, 2}, {1, 2, 3, 4, 5, 6});
    if (!offsets.empty()) tensors.ids("patches_offsets", {3}, offsets);
    return tensors.refusal(kinds.empty() ? std::map<std::string, std::string>{}
                                         : std::map<std::string, std::string>{{"evenkeel_fields", kinds}});
  };
  EXPECT_THAT(said_of({0, 2, 1}), HasSubstr("'patches_offsets' [3] decreases from 2 to 1 at element 2"));
  EXPECT_THAT(said_of({1, 2, 3}), HasSubstr("begins at 1; it must begin at 0"));
  EXPECT_THAT(said_of({0, 1, 2}), HasSubstr("ends at 2; 'patches' has 3 rows"));
  EXPECT_THAT(said_of({}, R"({"patches":"rows"})"), HasSubstr("Add 'patches_offsets'"));
}

TEST(SampleTensors, padded_tensors_follow_their_mask_on_either_side) {
  Tensors tensors;
  tensors.add<std::int32_t>("input_ids", {2, 4}, {0, 1, 2, 0, 3, 0, 4, 5});
  tensors.add<std::int32_t>("attention_mask", {2, 4}, {0, 1, 1, 0, 1, 0, 1, 1});
  tensors.ids("responses", {2, 2}, {2, 0, 4, 5}).add<float>("advantages", {2, 2}, {20, 0, 40, 50});
  tensors.add<float>("values", {2, 4, 1}, {0, 10, 20, 0, 30, 0, 40, 50})
      .add<float>("scores", {2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const SampleTensors samples = tensors.open({{"evenkeel_fields", R"({"scores": "sample"})"}});
  const RaggedBatch batch = read_all(samples);
  EXPECT_THAT(values_of<std::int64_t>(batch, "input_ids"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(batch.samples()[0].prompt, 1);
  EXPECT_EQ(batch.samples()[1].response, 2);
  EXPECT_THAT(values_of<float>(batch, "advantages"), ElementsAre(20, 40, 50));
  EXPECT_THAT(values_of<float>(batch, "values"), ElementsAre(10, 20, 30, 40, 50));
  EXPECT_EQ(batch.at("scores").spec(), (FieldSpec{"scores", DType::float32, FieldKind::sample, {5}}));
  ASSERT_EQ(samples.ignored_content().size(), 1);
  EXPECT_EQ(samples.ignored_content()[0],
            (std::pair<std::string, std::string>{"responses", "repeats input_ids"}));
}

TEST(SampleTensors, padded_tensors_may_have_a_real_valued_mask) {
  const auto with_mask = [](std::vector<float> mask) {
    Tensors tensors;
    tensors.ids("input_ids", {1, 3}, {0, 1, 2}).add<float>("attention_mask", {1, 3}, std::move(mask));
    return tensors;
  };
  EXPECT_THAT(values_of<std::int64_t>(read_all(with_mask({0, 1, 1}).open()), "input_ids"), ElementsAre(1, 2));
  Tensors half = with_mask({0, 0.5, 1});
  EXPECT_THROW((void)read_all(half.open()), InputError);
}

TEST(SampleTensors, padded_positions_may_have_leading_axes) {
  Tensors tensors;
  tensors.ids("input_ids", {2, 4}, {0, 1, 2, 3, 4, 0, 0, 0})
      .ids("attention_mask", {2, 4}, {0, 1, 1, 1, 1, 0, 0, 0});
  tensors.ids("position_ids", {2, 3, 4},
              {0, 0, 1, 2, 0, 10, 11, 12, 0, 20, 21, 22, 5, 0, 0, 0, 15, 0, 0, 0, 25, 0, 0, 0});
  const RaggedBatch batch = read_all(tensors.open());
  EXPECT_EQ(batch.at("position_ids").spec(),
            (FieldSpec{"position_ids", DType::int64, FieldKind::token, {3}}));
  EXPECT_THAT(values_of<std::int64_t>(batch, "position_ids"),
              ElementsAre(0, 10, 20, 1, 11, 21, 2, 12, 22, 5, 15, 25));
}

TEST(SampleTensors, padded_values_with_one_column_less_belong_to_the_tokens_after_the_first) {
  Tensors tensors;
  tensors.ids("input_ids", {2, 4}, {0, 1, 2, 3, 4, 5, 6, 0});
  tensors.add<float>("attention_mask", {2, 4}, {0, 1, 1, 1, 1, 1, 1, 0});
  tensors.ids("responses", {2, 2}, {2, 3, 6, 0});
  tensors.add<float>("old_log_probs", {2, 3}, {10, 20, 30, 50, 60, 0});
  const RaggedBatch batch = read_all(tensors.open());
  EXPECT_THAT(values_of<float>(batch, "old_log_probs"), ElementsAre(20, 30, 60));
}

TEST(SampleTensors, a_full_width_response_mask_determines_where_responses_begin) {
  Tensors tensors;
  tensors.ids("input_ids", {3, 4}, {0, 1, 2, 3, 4, 5, 6, 0, 7, 8, 9, 0});
  tensors.ids("attention_mask", {3, 4}, {0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0});
  tensors.ids("response_mask", {3, 4}, {0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0});
  tensors.add<float>("old_log_probs", {3, 3}, {10, 20, 30, 50, 60, 0, 80, 90, 0});
  const RaggedBatch batch = read_all(tensors.open());
  EXPECT_EQ(batch.samples()[0].response, 2);
  EXPECT_EQ(batch.samples()[1].prompt, 1);  // nothing predicts the first token
  EXPECT_EQ(batch.samples()[2].response, 0);
  EXPECT_EQ(batch.at("response_mask").spec().kind, FieldKind::response_token);
  EXPECT_THAT(values_of<std::int64_t>(batch, "response_mask"), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(values_of<float>(batch, "old_log_probs"), ElementsAre(20, 30, 50, 60));
}

TEST(SampleTensors, errors_name_the_tensor_and_the_position) {
  const auto with = [](const std::function<void(Tensors&)>& change) {
    Tensors tensors;
    change(tensors);
    return tensors.refusal();
  };
  const std::vector<std::int64_t> five{1, 2, 3, 4, 5};
  const auto from_offsets = [&](const std::vector<std::int64_t>& offsets) {
    return with(
        [&](Tensors& t) { t.ids("tokens", {5}, five).ids("offsets", {std::ssize(offsets)}, offsets); });
  };
  EXPECT_THAT(from_offsets({1, 5}), HasSubstr("'offsets' [2] begins at 1"));
  EXPECT_THAT(from_offsets({0, 4, 3, 5}), HasSubstr("decreases from 4 to 3 at element 2"));
  EXPECT_THAT(from_offsets({0, 4}), HasSubstr("ends at 4 in element 1; 'tokens' has 5 rows"));
  EXPECT_THAT(from_offsets({0, INT64_MAX}), HasSubstr("ends at 9223372036854775807"));
  EXPECT_THAT(from_offsets({0, INT64_MIN, 5}), HasSubstr("decreases from 0"));
  EXPECT_THAT(from_offsets({}), HasSubstr("is empty"));
  EXPECT_THAT(with([&](Tensors& t) { t.ids("tokens", {5}, five); }),
              HasSubstr("does not specify where samples begin"));
  EXPECT_THAT(with([&](Tensors& t) { t.ids("x", {5}, five); }), HasSubstr("neither input_ids nor tokens"));
  EXPECT_THAT(with([&](Tensors& t) { t.ids("tokens", {5}, five).ids("input_ids", {5}, five); }),
              HasSubstr("serve the same purpose"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.add<float>("tokens", {1}, {1}).ids("offsets", {2}, {0, 1});
              }),
              HasSubstr("holds F32; tokens must be integers"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {2}, {1, -2}).ids("offsets", {2}, {0, 2});
              }),
              HasSubstr("has -2 as token 1 of sample 0"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {1, 5}, five);
              }),
              HasSubstr("lengths are not guessed from pad tokens"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {1, 5}, five).ids("attention_mask", {5}, five);
              }),
              HasSubstr("does not have the shape of the tokens"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {1, 5}, five).ids("attention_mask", {1, 4}, {1, 1, 1, 1});
              }),
              HasSubstr("does not have the shape of the tokens"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {1, 5}, five).ids("attention_mask", {1, 5}, {1, 1, 2, 2, 0});
              }),
              HasSubstr("has 2 in row 0; a mask can have only 0 and 1"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {1, 5}, five).add<float>("attention_mask", {1, 5}, {0, 0, 0, 0, -10000});
              }),
              HasSubstr("has -10000 in row 0"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {1, 5}, five).ids("attention_mask", {1, 5}, {1, 1, 1, 1, 1});
                t.add<float>("scores", {1, 2}, {1, 2});
              }),
              HasSubstr("'scores' [1, 2] must have as many columns as 'tokens' (5) or one fewer"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {5}, five).ids("offsets", {2}, {0, 5}).ids("prompt_lengths", {1}, {6});
              }),
              HasSubstr("says that the prompt of sample 0 has 6 tokens; it must have from 0 to 5"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {5}, five).ids("offsets", {2}, {0, 5}).ids("prompt_offsets", {2}, {3, 2});
              }),
              HasSubstr("begins at 3"));
  EXPECT_THAT(with([&](Tensors& t) {
                t.ids("tokens", {2}, {1, 2}).ids("offsets", {3}, {0, 1, 2}).add<float>("x", {2}, {1, 2});
              }),
              HasSubstr("may have one row per sample or one per token"));
  EXPECT_THAT(
      with([&](Tensors& t) {
        t.ids("input_ids", {5}, five).ids("cu_seqlens", {2}, {0, 5}).ids("cu_seqlens_padded", {2}, {0, 8});
      }),
      HasSubstr("source.kind: dump"));
}

/// Returns the whole content of a valid file with samples.
std::string sound_bytes() {
  const RaggedBatch batch =
      made_up_batch({{SampleId{0}, 3, 1, 2}, {SampleId{1}, 3, 0, 1}, {SampleId{2}, 4, 2, 0}},
                    std::vector<FieldSpec>{{"r", DType::float32, FieldKind::sample, {}},
                                           {"a", DType::int32, FieldKind::response_token, {}}});
  const TemporaryFile file(".safetensors");
  const auto writer = make_sample_writer(SampleFormat::safetensors, file.path(), {});
  writer->write(batch);
  writer->close();
  return file.content();
}

/// Reads a whole file: returns samples or throws an error of the library about this file.
void expect_samples_or_refusal(const std::string& bytes) {
  const TemporaryFile file(bytes, ".safetensors");
  try {
    EXPECT_LE(read_all(SampleTensors(std::make_unique<TensorFile>(file.path()))).size(), 1000);
  } catch (const LimitError&) {
  } catch (const Error& error) {
    EXPECT_THAT(error.report().where, testing::StartsWith(file.path().string())) << error.what();
  }
}

TEST(SampleTensors, a_file_with_a_flipped_bit_is_read_or_refused_by_name) {
  const std::string sound = sound_bytes();
  for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
    std::string flipped = sound;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    expect_samples_or_refusal(flipped);
  }
}

TEST(SampleTensors, a_truncated_file_is_refused_by_name) {
  const std::string sound = sound_bytes();
  for (std::size_t size = 0; size < sound.size(); ++size) {
    const TemporaryFile file(sound.substr(0, size), ".safetensors");
    const ErrorReport report = report_of<InputError>(
        [&] { (void)read_all(SampleTensors(std::make_unique<TensorFile>(file.path()))); });
    EXPECT_THAT(report.where, testing::StartsWith(file.path().string()));
  }
}

TEST(SampleTensors, false_sizes_in_a_header_are_refused_before_memory_is_allocated) {
  const auto refusal = [](const std::string& header) {
    const std::uint64_t size = header.size();
    const TemporaryFile file(std::string(reinterpret_cast<const char*>(&size), sizeof size) + header,
                             ".safetensors");
    return report_of<InputError>([&] { TensorFile{file.path()}; }).message;
  };
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"I64","shape":[0,1099511627776,1099511627776],"data_offsets":[0,0]}})"),
      HasSubstr("too many elements"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})"),
              HasSubstr("has the dtype F4 and a shape whose elements do not fill whole bytes"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"I64","shape":[1099511627776],"data_offsets":[0,8796093022208]}})"),
              HasSubstr("8796093022208 bytes, but the file has 0"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"I63","shape":[],"data_offsets":[0,8]}})"),
              HasSubstr("which is not a known dtype of safetensors"));
}

TEST(SampleTensors, tensors_of_unsupported_dtypes_are_skipped_with_the_reason) {
  const std::string header = R"({"tokens":{"dtype":"U16","shape":[2],"data_offsets":[0,4]},)"
                             R"("offsets":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                             R"("w":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[6,8]}})";
  const std::uint64_t size = header.size();
  const TemporaryFile file(std::string(reinterpret_cast<const char*>(&size), sizeof size) + header +
                               std::string("\xff\xff\x01\x00\x00\x02xx", 8),
                           ".safetensors");
  const SampleTensors samples(std::make_unique<TensorFile>(file.path()));
  EXPECT_THAT(values_of<std::int64_t>(read_all(samples), "input_ids"), ElementsAre(65535, 1));
  ASSERT_EQ(samples.ignored_content().size(), 1);
  EXPECT_EQ(samples.ignored_content()[0].second, "its elements are F8_E4M3");
}

TEST(SampleTensors, unsigned_64_bit_integers_become_int64_if_they_fit) {
  const auto read = [](const std::string& last_byte) {
    const std::string header = R"({"tokens":{"dtype":"U64","shape":[2],"data_offsets":[0,16]},)"
                               R"("offsets":{"dtype":"I16","shape":[2],"data_offsets":[16,20]}})";
    const std::uint64_t size = header.size();
    const TemporaryFile file(std::string(reinterpret_cast<const char*>(&size), sizeof size) + header +
                                 std::string("\5\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff", 15) + last_byte +
                                 std::string("\0\0\2\0", 4),
                             ".safetensors");
    return read_all(SampleTensors(std::make_unique<TensorFile>(file.path())));
  };
  EXPECT_THAT(values_of<std::int64_t>(read("\x7f"), "input_ids"),
              ElementsAre(5, std::numeric_limits<std::int64_t>::max()));
  EXPECT_THAT(
      report_of<InputError>([&] { (void)read("\x80"); }).message,
      HasSubstr("element 1 (at byte 137) is 9295429630892703743; int64 holds at most 9223372036854775807"));
}

rc::Gen<RaggedBatch> any_sample_batch() {
  return rc::gen::map(rc::gen::container<std::vector<std::pair<int, int>>>(
                          rc::gen::pair(rc::gen::inRange(0, 7), rc::gen::inRange(0, 7))),
                      [](const std::vector<std::pair<int, int>>& lengths) {
                        std::vector<SampleShape> shapes;
                        for (std::size_t i = 0; i < lengths.size(); ++i)
                          shapes.push_back({SampleId{static_cast<std::int64_t>(i)},
                                            (i / 2 * 0x9e3779b97f4a7c15) % first_own_group, lengths[i].first,
                                            lengths[i].second});
                        return made_up_batch(
                            std::move(shapes),
                            std::vector<FieldSpec>{{"a", DType::float32, FieldKind::response_token, {}},
                                                   {"e", DType::int16, FieldKind::token, {2, 2}},
                                                   {"m", DType::int32, FieldKind::token, {2}},
                                                   {"n", DType::float16, FieldKind::token, {0}},
                                                   {"r", DType::float64, FieldKind::sample, {}},
                                                   {"u", DType::uint16, FieldKind::response_token, {}},
                                                   {"v", DType::uint8, FieldKind::sample, {3}}});
                      });
}

RC_GTEST_PROP(SampleWriters, round_trip_ragged_samples, ()) {
  const RaggedBatch batch = *any_sample_batch();
  const TemporaryFile file(".safetensors");
  const auto writer = make_sample_writer(SampleFormat::safetensors, file.path(), {});
  writer->write(batch);
  writer->close();
  const RaggedBatch read = read_all(SampleTensors(std::make_unique<TensorFile>(file.path())));
  RC_ASSERT(std::ranges::equal(read.samples(), batch.samples()));
  RC_ASSERT(std::ranges::equal(read.fields(), batch.fields()));
}

TEST(SampleTensors, uids_may_be_texts_and_other_types_are_refused) {
  const std::vector<std::uint8_t> bytes{'q', '1', 'q', 0xff};
  Tensors tensors;
  tensors.ids("tokens", {2}, {5, 6}).ids("offsets", {3}, {0, 1, 2});
  tensors.add("uid", {4}, bytes).ids("uid_offsets", {3}, {0, 2, 4});
  const SampleTensors samples = tensors.open();
  EXPECT_EQ(samples.uid_of(0), Uid("q1"));
  EXPECT_THAT(report_of<InputError>([&] { (void)samples.uid_of(1); }).message,
              HasSubstr("has a uid of sample 1 that is not valid UTF-8 at byte 1"));
  EXPECT_TRUE(samples.fields().empty() && samples.ignored_content().empty());
  Tensors falling;
  falling.ids("tokens", {2}, {5, 6}).ids("offsets", {3}, {0, 1, 2});
  EXPECT_THAT(falling.add("uid", {4}, bytes).ids("uid_offsets", {3}, {0, 5, 4}).refusal(),
              HasSubstr("decreases"));
  Tensors alone;
  alone.ids("tokens", {2}, {5, 6}).ids("offsets", {3}, {0, 1, 2});
  EXPECT_THAT(alone.add("uid", {4}, bytes).refusal(),
              HasSubstr("must have one element per sample; the file has 2 samples"));
}

TEST(SampleWriters, reject_fields_that_the_format_cannot_store_unless_dropped) {
  const RaggedBatch batch = made_up_batch(
      {{SampleId{0}, 5, 1, 2}}, std::vector<FieldSpec>{{"x", DType::bfloat16, FieldKind::token, {}}});
  const auto refusal = [&](SampleFormat format, const char* ending, const DroppedFields& dropped) {
    const TemporaryFile file(ending);
    const ErrorReport report = report_of<InputError>([&] {
      const auto writer = make_sample_writer(format, file.path(), dropped);
      writer->write(batch);
      writer->close();
    });
    EXPECT_EQ(testing_support::files_named_like(file.path()), 0);
    return report.message + ". " + report.hint;
  };
  EXPECT_THAT(refusal(SampleFormat::jsonl, ".jsonl", {}), HasSubstr("field 'x' of bfloat16"));
  EXPECT_THAT(refusal(SampleFormat::lengths, ".csv", {"x"}), HasSubstr("--drop input_ids"));
  EXPECT_THAT(refusal(SampleFormat::megatron, ".idx", {"x"}), HasSubstr("--drop prompt_lengths"));
  EXPECT_THAT(refusal(SampleFormat::megatron, ".idx", {"x", "prompt_lengths"}), HasSubstr("--drop uid"));
  for (const auto& [format, ending] : {std::pair{SampleFormat::jsonl, ".jsonl"},
                                       {SampleFormat::megatron, ".idx"},
                                       {SampleFormat::lengths, ".csv"}}) {
    const TemporaryFile file(ending);
    const auto writer = make_sample_writer(format, file.path(), {"all"});
    writer->write(batch);
    writer->close();
    EXPECT_TRUE(std::filesystem::exists(file.path()));
    for (const auto& made : files_of(format, file.path())) std::filesystem::remove(made);
  }
}

}  // namespace
}  // namespace evenkeel
