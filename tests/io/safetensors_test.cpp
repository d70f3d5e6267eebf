#include "io/safetensors/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "io/temporary_file.hpp"
#include "support/safetensors_file.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::files_named_like;
using testing_support::report_of;
using testing_support::SafetensorsFile;
using testing_support::TemporaryFile;

template <typename T>
TensorView tensor_of(std::string name, const std::vector<T>& values) {
  return {std::move(name),
          dtype_of<T>,
          {static_cast<std::int64_t>(values.size())},
          std::as_bytes(std::span(values))};
}

/// Returns the bytes of a file: the length of the header, the header, the data.
std::string file_text(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

std::string safetensors_error(const std::string& text) {
  const TemporaryFile file(text, ".safetensors");
  const ErrorReport report = report_of<InputError>([&] { TensorFile{file.path()}; });
  EXPECT_EQ(report.where, file.path().string());
  return report.message;
}

TEST(WriteSafetensors, follows_the_format_to_the_byte) {
  const std::vector<std::int32_t> values{1, -1};
  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(), std::vector{tensor_of("a", values)}, {{"k", "v"}});
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(header.size() % 8, 7U) << "one space of padding is needed";
  EXPECT_EQ(file.content(), file_text(header + " ", std::string("\1\0\0\0\xff\xff\xff\xff", 8)));
}

TEST(WriteSafetensors, larger_elements_come_first_then_names) {
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  const std::vector<std::int64_t> longs{4};
  const std::vector<float> floats{0.5F};
  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(),
                    std::vector{tensor_of("z", bytes), tensor_of("c", floats), tensor_of("b", longs),
                                tensor_of("a", floats), tensor_of("d", bytes)},
                    {});
  EXPECT_THAT(SafetensorsFile(file.path()).names(), ElementsAre("b", "a", "c", "d", "z"));
}

TEST(WriteSafetensors, can_write_a_file_without_tensors) {
  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(), {}, {});
  EXPECT_EQ(file.content(), file_text("{}      ", ""));
  EXPECT_THAT(SafetensorsFile(file.path()).tensors(), IsEmpty());
  EXPECT_THAT(SafetensorsFile(file.path()).metadata(), IsEmpty());
}

TEST(WriteSafetensors, replaces_an_older_file_and_leaves_no_other) {
  const TemporaryFile file("old", ".safetensors");
  write_safetensors(file.path(), {}, {});
  EXPECT_EQ(file.content().size(), 16U);
  EXPECT_EQ(files_named_like(file.path()), 1);
}

TEST(WriteSafetensors, a_tensor_that_does_not_fit_its_shape_is_refused) {
  const std::vector<float> values{1, 2, 3};
  TensorView tensor = tensor_of("loss", values);
  tensor.shape = {2, 2};
  const TemporaryFile file(".safetensors");
  const ErrorReport report =
      report_of<InputError>([&] { write_safetensors(file.path(), std::vector{tensor}, {}); });
  EXPECT_EQ(report.where, "tensor 'loss'");
  EXPECT_EQ(report.message, "has 12 bytes; shape [2,2] of float32 needs 16");
  EXPECT_EQ(files_named_like(file.path()), 0);
}

TEST(WriteSafetensors, impossible_shapes_names_and_texts_are_refused) {
  const TemporaryFile file(".safetensors");
  const auto message = [&](TensorView tensor) {
    return report_of<InputError>([&] { write_safetensors(file.path(), std::vector{tensor}, {}); }).message;
  };
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THAT(message({"x", DType::int64, {-1}, {}}), HasSubstr("negative dimension"));
  EXPECT_THAT(message({"x", DType::int64, {huge, huge}, {}}), HasSubstr("too many elements"));
  EXPECT_THAT(message({"__metadata__", DType::int64, {0}, {}}),
              HasSubstr("has a name that is reserved for the metadata"));
  EXPECT_THAT(message({"\xff", DType::int64, {0}, {}}), HasSubstr("UTF-8"));
  const std::vector<TensorView> twice{{"x", DType::int64, {0}, {}}, {"x", DType::uint8, {0}, {}}};
  EXPECT_EQ(report_of<InputError>([&] { write_safetensors(file.path(), twice, {}); }).message,
            "appears twice");
}

TEST(WriteSafetensors, a_missing_folder_is_an_io_error_with_path_and_reason) {
  const ErrorReport report = report_of<IoError>([] { write_safetensors("/no/such/x.safetensors", {}, {}); });
  EXPECT_EQ(report.where, "/no/such/x.safetensors");
  EXPECT_THAT(report.message, HasSubstr("No such file or directory"));
}

TEST(TensorFile, returns_the_written_tensors) {
  const std::vector<std::int64_t> ids{5, 6, 7, 8, 9, 10};
  const std::vector<double> scalar{2.5};
  TensorView matrix = tensor_of("input_ids", ids);
  matrix.shape = {2, 3};
  TensorView number = tensor_of("weight", scalar);
  number.shape = {};
  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(), std::vector{matrix, number},
                    {{"num_tokens", "6"}, {"layout", "packed \"x\""}});
  const SafetensorsFile read(file.path());
  EXPECT_THAT(read.metadata(),
              ElementsAre(testing::Pair("layout", "packed \"x\""), testing::Pair("num_tokens", "6")));
  EXPECT_EQ(read.at("input_ids").dtype, DType::int64);
  EXPECT_THAT(read.at("input_ids").shape, ElementsAre(2, 3));
  EXPECT_TRUE(std::ranges::equal(read.at("input_ids").bytes, matrix.bytes));
  EXPECT_THAT(read.at("weight").shape, IsEmpty());
  EXPECT_TRUE(std::ranges::equal(read.at("weight").bytes, number.bytes));
}

TEST(TensorFile, files_of_other_writers_are_read) {
  const TemporaryFile file(file_text(" {\"b\":{\"shape\":[1],\"data_offsets\":[2,3],\"dtype\":\"U8\"},"
                                     "\"empty\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[2,2]},"
                                     "\"a\":{\"dtype\":\"I8\",\"shape\":[2,1],\"data_offsets\":[0,2]}}\n",
                                     "xyz"),
                           ".safetensors");
  const SafetensorsFile read(file.path());
  EXPECT_THAT(read.names(), ElementsAre("a", "empty", "b"));
  EXPECT_EQ(read.at("b").bytes[0], std::byte{'z'});
}

TEST(TensorFile, a_header_that_is_cut_off_or_too_long_is_refused) {
  EXPECT_THAT(safetensors_error(""), HasSubstr("has 0 bytes"));
  EXPECT_THAT(safetensors_error("1234567"), HasSubstr("has 7 bytes"));
  EXPECT_THAT(safetensors_error(file_text("{}", "").substr(0, 9)),
              HasSubstr("the header has 2 bytes, but the file has 1"));
  EXPECT_THAT(safetensors_error(std::string(8, '\xff')), HasSubstr("at most 100000000"));
}

TEST(TensorFile, a_header_that_is_malformed_is_refused) {
  const auto message = [](const std::string& header) { return safetensors_error(file_text(header, "")); };
  EXPECT_THAT(message("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(message(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(message(R"({"a":1})"), HasSubstr("entry for tensor 'a' is not a JSON object"));
  EXPECT_THAT(message(R"({"__metadata__":[]})"),
              HasSubstr("__metadata__ in the header is not a JSON object"));
  EXPECT_THAT(message(R"({"__metadata__":{"a":1}})"), HasSubstr("__metadata__ 'a' is not a string"));
  EXPECT_THAT(message(R"({"__metadata__":{"a":"1","a":"2"}})"), HasSubstr("__metadata__ has 'a' twice"));
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(message("{\"a\":" + entry + ",\"a\":" + entry + "}"), HasSubstr("'a' twice"));
}

TEST(TensorFile, a_tensor_entry_that_is_malformed_is_refused) {
  const auto message = [](const std::string& entry) {
    return safetensors_error(file_text("{\"a\":" + entry + "}", "12345678"));
  };
  EXPECT_THAT(message(R"({"shape":[8],"data_offsets":[0,8]})"), HasSubstr("no dtype"));
  EXPECT_THAT(message(R"({"dtype":"F9","shape":[8],"data_offsets":[0,8]})"),
              HasSubstr("F9, which is not a known dtype of safetensors"));
  EXPECT_THAT(message(R"({"dtype":"U8","data_offsets":[0,8]})"), HasSubstr("shape is missing"));
  EXPECT_THAT(message(R"({"dtype":"U8","shape":8,"data_offsets":[0,8]})"), HasSubstr("shape is not a list"));
  EXPECT_THAT(message(R"({"dtype":"U8","shape":[-8],"data_offsets":[0,8]})"),
              HasSubstr("not an integer from 0"));
  EXPECT_THAT(message(R"({"dtype":"U8","shape":[8.5],"data_offsets":[0,8]})"),
              HasSubstr("not an integer from 0"));
  EXPECT_THAT(message(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
              HasSubstr("too many elements"));
  EXPECT_THAT(message(R"({"dtype":"U8","shape":[8]})"), HasSubstr("data_offsets is missing"));
  EXPECT_THAT(message(R"({"dtype":"U8","shape":[8],"data_offsets":[0]})"),
              HasSubstr("the start and the end"));
  EXPECT_THAT(message(R"({"dtype":"I32","shape":[8],"data_offsets":[0,8]})"),
              HasSubstr("8 bytes; its shape and dtype need 32"));
  EXPECT_THAT(message(R"({"dtype":"U8","shape":[0],"data_offsets":[8,0]})"), HasSubstr("need 0"));
}

TEST(TensorFile, holes_overlaps_and_unused_bytes_are_refused) {
  const auto two = [](const std::string& first, const std::string& second, const std::string& data) {
    return safetensors_error(
        file_text("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + first +
                      "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + second + "}}",
                  data));
  };
  EXPECT_THAT(two("[0,4]", "[5,9]", "123456789"), HasSubstr("'b' starts at byte 5"));
  EXPECT_THAT(two("[0,4]", "[3,7]", "1234567"), HasSubstr("'b' starts at byte 3"));
  EXPECT_THAT(two("[1,5]", "[5,9]", "123456789"), HasSubstr("'a' starts at byte 1"));
  EXPECT_THAT(two("[0,4]", "[4,8]", "123456789"), HasSubstr("have 8 bytes, but the file has 9"));
  EXPECT_THAT(two("[0,4]", "[4,8]", "1234567"), HasSubstr("have 8 bytes, but the file has 7"));
}

RC_GTEST_PROP(TensorFile, any_tensors_come_back_aligned, ()) {
  const auto count = *rc::gen::inRange(0, 8);
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorView> tensors;
  for (int i = 0; i < count; ++i) {
    const DType dtype = *rc::gen::elementOf(all_dtypes);
    const auto shape = *rc::gen::container<std::vector<std::int64_t>>(*rc::gen::inRange<std::size_t>(0, 4),
                                                                      rc::gen::inRange<std::int64_t>(0, 4));
    const auto elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
    const int value = dtype == DType::boolean ? 1 : i + 1;
    contents.emplace_back(static_cast<std::size_t>(elements) * size_of(dtype), static_cast<std::byte>(value));
    tensors.push_back({std::to_string(i), dtype, shape, contents.back()});
  }
  const auto metadata = *rc::gen::arbitrary<std::map<std::string, int>>();
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : metadata) texts[std::to_string(key.size())] = std::to_string(value);

  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(), tensors, texts);
  const SafetensorsFile read(file.path());
  RC_ASSERT(read.metadata() == texts);
  RC_ASSERT(read.tensors().size() == tensors.size());
  for (const TensorView& tensor : tensors) {
    const TensorView& back = read.at(tensor.name);
    RC_ASSERT(back.dtype == tensor.dtype);
    RC_ASSERT(back.shape == tensor.shape);
    RC_ASSERT(std::ranges::equal(back.bytes, tensor.bytes));
  }
  // Tensors are adjacent, so in this order each that has elements is aligned to its element size.
  std::vector<std::size_t> sizes;
  for (const TensorView& tensor : read.tensors())
    if (!tensor.bytes.empty()) sizes.push_back(size_of(tensor.dtype));
  RC_ASSERT(std::ranges::is_sorted(sizes, std::ranges::greater()));
}

RC_GTEST_PROP(TensorFile, a_damaged_file_is_refused_or_stays_within_its_bytes, ()) {
  const std::vector<std::int64_t> ids{1, 2, 3};
  const std::vector<float> loss{0.5F};
  const TemporaryFile whole(".safetensors");
  write_safetensors(whole.path(), std::vector{tensor_of("ids", ids), tensor_of("loss", loss)}, {{"k", "v"}});
  std::string text = whole.content();
  for (int damage = *rc::gen::inRange(1, 4); damage > 0; --damage) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] =
        *rc::gen::elementOf(std::string("\0\xff 019\"-,[]{}:", 15));
  }
  text.resize(*rc::gen::elementOf(std::vector{text.size(), text.size(), text.size() - 1, text.size() + 1}));
  const TemporaryFile damaged(text, ".safetensors");
  try {
    const SafetensorsFile read(damaged.path());
    std::size_t bytes = 0;
    for (const TensorView& tensor : read.tensors()) bytes += tensor.bytes.size();
    RC_ASSERT(bytes < text.size());
  } catch (const InputError& error) {
    RC_ASSERT(error.report().where == damaged.path().string());
  }
}

}  // namespace
}  // namespace evenkeel
