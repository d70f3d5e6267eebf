#include "io/numpy/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "io/numpy/npy_text.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::string_literals;
using namespace testing_support;

const std::string six_numbers = "\1\0\xff\xff\3\0\4\0\5\0\6\0"s;

ErrorReport refusal_of(const std::string& text) {
  const TemporaryFile file(text, ".npy");
  const ErrorReport report = report_of<InputError>([&] { NpyArray{file.path()}; });
  EXPECT_EQ(report.where, file.path().string());
  EXPECT_FALSE(report.hint.empty());
  return report;
}

std::string refusal_of_header(const std::string& header) {
  return refusal_of(npy_text(header + "\n", six_numbers)).message;
}

/// An array of one dimension with these elements, as `T`.
template <typename T>
std::vector<T> read_as(const std::string& descr, std::size_t element_bytes, const std::string& data) {
  const TemporaryFile file(npy_text(npy_dict(descr, data.size() / element_bytes), data), ".npy");
  const NpyArray array(file.path());
  std::vector<T> values(static_cast<std::size_t>(array.num_rows()));
  array.read_rows({0, array.num_rows()}, dtype_of<T>, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(NpyArray, reads_what_the_format_says) {
  // every byte as numpy.save writes it
  const std::string text =
      "\x93NUMPY\1\0\x76\0"s
      "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }" +
      std::string(58, ' ') + "\n" + six_numbers;
  ASSERT_EQ(text.size(), 128U + 12U);
  const TemporaryFile file(text, ".npy");
  const NpyArray array(file.path());
  EXPECT_EQ(array.dtype(), NpyDType::int16);
  EXPECT_THAT(array.shape(), ElementsAre(3, 2));
  EXPECT_EQ(array.num_rows(), 3);
  EXPECT_EQ(array.row_elements(), 2);
  std::vector<std::int32_t> rows(4);
  array.read_rows({1, 3}, DType::int32, std::as_writable_bytes(std::span(rows)));
  EXPECT_THAT(rows, ElementsAre(3, 4, 5, 6));
  std::vector<std::int64_t> first(2);
  array.read_rows({0, 1}, DType::int64, std::as_writable_bytes(std::span(first)));
  EXPECT_THAT(first, ElementsAre(1, -1));
  array.read_rows({3, 3}, DType::int64, {});
}

TEST(NpyArray, versions_2_and_3_have_longer_lengths) {
  for (const char version : {'\2', '\3'}) {
    const std::string header = npy_dict("<i2", 6);
    const auto length = static_cast<std::uint32_t>(header.size());
    std::string text = "\x93NUMPY"s + version + '\0' + std::string(4, '\0') + header + six_numbers;
    std::memcpy(text.data() + 8, &length, sizeof length);
    const TemporaryFile file(text, ".npy");
    EXPECT_THAT(NpyArray(file.path()).shape(), ElementsAre(6));
    for (std::size_t size = 0; size < text.size(); ++size) {
      EXPECT_FALSE(refusal_of(text.substr(0, size)).message.empty()) << size;
    }
  }
}

TEST(NpyArray, a_dict_may_be_written_otherwise) {
  for (const std::string& header :
       {R"({"shape":(6,),"fortran_order":False,"descr":"<i2"})"s,
        "{ 'fortran_order' : True , 'shape' : ( 1 , 6 , ) , 'descr' : \"<i2\" }  "s,
        "  {'descr': '<i2', 'shape': (6, 1), 'fortran_order': True}"s}) {
    const TemporaryFile file(npy_text(header + "\n", six_numbers), ".npy");
    EXPECT_EQ(NpyArray(file.path()).dtype(), NpyDType::int16) << header;
  }
}

TEST(NpyArray, scalars_and_empty_arrays_are_arrays_too) {
  const TemporaryFile scalar(npy_text("{'descr': '<i2', 'fortran_order': False, 'shape': ()}\n", "\7\0"s),
                             ".npy");
  const NpyArray array(scalar.path());
  EXPECT_THAT(array.shape(), IsEmpty());
  EXPECT_EQ(array.num_rows(), 1);
  EXPECT_EQ(array.row_elements(), 1);
  std::array<std::int32_t, 1> value{};
  array.read_rows({0, 1}, DType::int32, std::as_writable_bytes(std::span(value)));
  EXPECT_EQ(value[0], 7);

  for (const std::string& shape : {"(0, 3)"s, "(3, 0)"s, "(0,)"s, "(0, 9223372036854775807)"s}) {
    const TemporaryFile file(
        npy_text("{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + "}\n", ""), ".npy");
    const NpyArray empty(file.path());
    empty.read_rows({0, empty.num_rows()}, DType::uint8, {});
  }
}

TEST(NpyArray, integers_are_read_as_columns_that_hold_them) {
  EXPECT_THAT(read_as<std::int32_t>("|i1", 1, "\x80\xff\x7f"), ElementsAre(-128, -1, 127));
  EXPECT_THAT(read_as<std::int64_t>("|u1", 1, "\x80\xff\x7f"), ElementsAre(128, 255, 127));
  EXPECT_THAT(read_as<std::int32_t>("<u2", 2, "\xff\xff\1\0"s), ElementsAre(65535, 1));
  EXPECT_THAT(read_as<std::int64_t>("<i2", 2, "\xff\xff\1\0"s), ElementsAre(-1, 1));
  EXPECT_THAT(read_as<std::int64_t>("<u4", 4, "\xff\xff\xff\xff"s), ElementsAre(4294967295));
  EXPECT_THAT(read_as<std::int64_t>("<i4", 4, "\xff\xff\xff\xff"s), ElementsAre(-1));
  EXPECT_THAT(read_as<std::int32_t>("<i4", 4, "\xff\xff\xff\xff"s), ElementsAre(-1));
  EXPECT_THAT(read_as<std::int64_t>("<u8", 8, "\xff\xff\xff\xff\xff\xff\xff\x7f"s),
              ElementsAre(9223372036854775807));
  EXPECT_THAT(read_as<float>("<f4", 4, "\0\0\x80\x3f"s), ElementsAre(1.0F));
  EXPECT_THAT(read_as<double>("<f8", 8, "\0\0\0\0\0\0\xf0\x3f"s), ElementsAre(1.0));
}

TEST(NpyArray, more_elements_than_a_block_are_converted) {
  std::string data;
  for (int i = 0; i < 700'000; ++i) data += {static_cast<char>(i % 256), static_cast<char>(i / 256 % 256)};
  const std::vector<std::int64_t> values = read_as<std::int64_t>("<u2", 2, data);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<std::int64_t>(i % 65536)) << i;
  }
}

TEST(NpyArray, an_element_that_its_column_cannot_hold_is_named) {
  std::string big((std::size_t{1} << 20) + 16, '\0');
  big[(std::size_t{1} << 20) + 15] = '\x80';
  EXPECT_THAT(report_of<InputError>([&] { read_as<std::int64_t>("<u8", 8, big); }).message,
              HasSubstr("element 131073 (at byte 1048657) is 9223372036854775808; int64 holds at most "
                        "9223372036854775807"))
      << "73 bytes are ahead of the elements";
  const TemporaryFile file(npy_text(npy_dict("|b1", 3), "\0\1\2"s), ".npy");
  std::array<std::byte, 3> values{};
  const ErrorReport report = report_of<InputError>([&] {
    NpyArray(file.path()).read_rows({0, 3}, DType::boolean, values);
  });
  EXPECT_EQ(report.message, "element 2 (at byte 70) of an array of bool is 2; it is 0 or 1");
}

TEST(NpyArray, a_column_that_would_lose_something_is_refused) {
  const auto readable_as = [&](NpyDType dtype) {
    std::string names;
    for (const DType column : all_dtypes) {
      if (is_lossless(dtype, column)) names += std::string(name_of(column)) + " ";
    }
    return names;
  };
  EXPECT_EQ(readable_as(NpyDType::boolean), "bool ");
  EXPECT_EQ(readable_as(NpyDType::uint8), "uint8 int32 int64 ");
  EXPECT_EQ(readable_as(NpyDType::int8), "int32 int64 int8 ");
  EXPECT_EQ(readable_as(NpyDType::int16), "int32 int64 int16 ");
  EXPECT_EQ(readable_as(NpyDType::uint16), "int32 int64 uint16 ");
  EXPECT_EQ(readable_as(NpyDType::int32), "int32 int64 ");
  EXPECT_EQ(readable_as(NpyDType::uint32), "int64 uint32 ");
  EXPECT_EQ(readable_as(NpyDType::int64), "int64 ");
  EXPECT_EQ(readable_as(NpyDType::uint64), "int64 ");
  EXPECT_EQ(readable_as(NpyDType::float16), "float16 ");
  EXPECT_EQ(readable_as(NpyDType::float32), "float32 ");
  EXPECT_EQ(readable_as(NpyDType::float64), "float64 ");
  const ErrorReport report = report_of<InputError>([&] { read_as<std::int32_t>("<u4", 4, "1234"); });
  EXPECT_EQ(report.message, "holds uint32, which cannot be read as int32 without loss");
  EXPECT_EQ(report.hint, "Read it as uint32, or save it with array.astype() of another type");
}

TEST(NpyArray, magic_version_and_length_are_checked) {
  const std::string whole = npy_text(npy_dict("<i2", 6), six_numbers);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(refusal_of(whole.substr(0, size)).message.empty()) << size;
  }
  EXPECT_EQ(refusal_of("").message, "has 0 bytes; magic and version have 8");
  EXPECT_EQ(refusal_of("PK\3\4 a zip file").message, "does not start with \\x93NUMPY");
  EXPECT_EQ(refusal_of("\x93NUMPY\4\0\0\0"s).message,
            "has version 4.0 (at byte 6); known are 1.0, 2.0 and 3.0");
  EXPECT_THAT(refusal_of("\x93NUMPY\1\1\0\0"s).message, HasSubstr("has version 1.1"));
  EXPECT_EQ(refusal_of("\x93NUMPY\1\0\2"s).message, "has 9 bytes and ends in the length of its header");
  EXPECT_EQ(refusal_of("\x93NUMPY\1\0\x0a\0{}"s).message,
            "has a header of 10 bytes (at byte 8); 2 bytes follow");
  EXPECT_EQ(refusal_of("\x93NUMPY\2\0\xff\xff\xff\xff{}"s).message,
            "has a header of 4294967295 bytes (at byte 8); at most 10000 are read");
  EXPECT_THAT(refusal_of("\x93NUMPY\1\0\0\0"s).message, HasSubstr("the header ends (at byte 10) where '{'"));
}

TEST(NpyArray, a_header_that_is_no_dict_of_the_three_keys_is_refused) {
  const std::string rest = "'fortran_order': False, 'shape': (6,)}";
  const std::string two = "{'descr': '<i2', 'fortran_order': False";
  EXPECT_THAT(refusal_of_header("[]"), HasSubstr("has '[]\n' (at byte 10) where '{' belongs"));
  EXPECT_EQ(refusal_of_header("{}"), "the header has no 'descr'");
  EXPECT_EQ(refusal_of_header("{" + rest), "the header has no 'descr'");
  EXPECT_EQ(refusal_of_header("{'descr': '<i2', 'shape': (6,)}"), "the header has no 'fortran_order'");
  EXPECT_EQ(refusal_of_header(two + "}"), "the header has no 'shape'");
  EXPECT_EQ(refusal_of_header("{'descr': '<i2', 'descr': '<i2', " + rest),
            "the header has 'descr' twice (at byte 27)");
  EXPECT_EQ(refusal_of_header(two + ", 'fortran_order': False}"),
            "the header has 'fortran_order' twice (at byte 51)");
  EXPECT_THAT(refusal_of_header(two + ", 'shape': (6,), 'shape': (6,)}"), HasSubstr("has 'shape' twice"));
  EXPECT_EQ(refusal_of_header(two + ", 'shape': (6,), 'x': 1}"),
            "the header has the unknown key 'x' (at byte 66)");
  EXPECT_THAT(refusal_of_header("{'descr' '<i2', " + rest), HasSubstr("where ':' belongs"));
  EXPECT_THAT(refusal_of_header("{'descr': '<i2' " + rest), HasSubstr("where '}' belongs"));
  EXPECT_THAT(refusal_of_header("{,'descr': '<i2', " + rest), HasSubstr("a text in quotes"));
  EXPECT_THAT(refusal_of_header("{'descr': '<i2',, " + rest), HasSubstr("a text in quotes"));
  EXPECT_THAT(refusal_of_header("{descr: '<i2', " + rest), HasSubstr("a text in quotes"));
}

TEST(NpyArray, what_follows_the_dict_is_spaces_and_a_line_feed) {
  const std::string dict = "{'descr': '<i2', 'fortran_order': False, 'shape': (6,)}";
  for (const std::string& end : {""s, " "s, "\n\n"s, "\n "s, " x\n"s, "\t\n"s, ", \n"s, "\0\n"s}) {
    EXPECT_THAT(refusal_of(npy_text(dict + end, six_numbers)).message,
                HasSubstr("where spaces and a line feed at the end belongs"));
  }
}

TEST(NpyArray, texts_that_do_not_end_or_have_escapes_are_refused) {
  EXPECT_THAT(refusal_of_header("{'descr"), HasSubstr("a text that does not end"));
  EXPECT_THAT(refusal_of_header("{'descr': '<i2"), HasSubstr("a text that does not end"));
  EXPECT_THAT(refusal_of_header("{'de\\x73cr': '<i2'}"), HasSubstr("a backslash"));
  EXPECT_THAT(refusal_of_header("{'"), HasSubstr("(at byte 11)"));
}

TEST(NpyArray, dtypes_that_no_column_holds_are_refused_by_name) {
  const auto refusal = [](const std::string& descr) {
    return refusal_of(
        npy_text("{'descr': " + descr + ", 'fortran_order': False, 'shape': (6,)}\n", six_numbers));
  };
  EXPECT_EQ(refusal("'>i2'").message, "holds elements of '>i2' (at byte 20), which are big-endian");
  EXPECT_EQ(refusal("'>i2'").hint, "Save array.astype(array.dtype.newbyteorder('<'))");
  for (const std::string& descr :
       {"'|O'"s, "'<U8'"s, "'|S2'"s, "'<c8'"s, "'<M8[ns]'"s, "'<f16'"s, "'|V2'"s, "'i2'"s, "'=i2'"s, "''"s}) {
    EXPECT_THAT(refusal(descr).message, HasSubstr("holds elements of " + descr + " (at byte 20)"));
  }
  EXPECT_EQ(refusal("[('a', '<i2')]").message,
            "holds records of several fields (at byte 20); only plain numbers are read");
  EXPECT_THAT(refusal("2").message, HasSubstr("a text in quotes"));
}

TEST(NpyArray, shapes_that_are_no_tuple_of_sizes_are_refused) {
  const auto refusal = [](const std::string& shape) {
    return refusal_of_header("{'descr': '<i2', 'fortran_order': False, 'shape': " + shape + "}");
  };
  EXPECT_THAT(refusal("6"), HasSubstr("where '(' belongs"));
  EXPECT_THAT(refusal("[6]"), HasSubstr("where '(' belongs"));
  EXPECT_THAT(refusal("(6)"), HasSubstr("has ')}\n' (at byte 62) where a comma belongs"));
  EXPECT_THAT(refusal("(,)"), HasSubstr("an integer from 0 up"));
  EXPECT_THAT(refusal("(6,,)"), HasSubstr("an integer from 0 up"));
  EXPECT_THAT(refusal("(3, 2"), HasSubstr("a comma or ')'"));
  EXPECT_THAT(refusal("(3 2)"), HasSubstr("where a comma belongs"));
  EXPECT_THAT(refusal("(3, 2 1)"), HasSubstr("a comma or ')'"));
  EXPECT_THAT(refusal("(-6,)"), HasSubstr("an integer from 0 up"));
  EXPECT_THAT(refusal("(+6,)"), HasSubstr("an integer from 0 up"));
  EXPECT_THAT(refusal("(6L,)"), HasSubstr("where a comma belongs"));
  EXPECT_THAT(refusal("(6.0,)"), HasSubstr("where a comma belongs"));
  EXPECT_THAT(refusal("(06,)"), HasSubstr("without leading zeros"));
  EXPECT_THAT(refusal("(0x6,)"), HasSubstr("where a comma belongs"));
  EXPECT_THAT(refusal("(9223372036854775808,)"), HasSubstr("an integer below 2^63"));
  EXPECT_THAT(refusal("("), HasSubstr("an integer from 0 up"));
  EXPECT_THAT(refusal_of_header("{'descr': '<i2', 'fortran_order': 0, 'shape': (6,)}"),
              HasSubstr("True or False"));
}

TEST(NpyArray, sizes_other_than_the_shape_says_are_refused) {
  EXPECT_EQ(refusal_of(npy_text(npy_dict("<i2", 6), six_numbers + "x")).message,
            "has 13 bytes after its header; shape (6,) of int16 needs 12");
  EXPECT_EQ(refusal_of(npy_text(npy_dict("<i4", 6), six_numbers)).message,
            "has 12 bytes after its header; shape (6,) of int32 needs 24");
  const auto refusal = [](const std::string& shape) {
    return refusal_of_header("{'descr': '<i2', 'fortran_order': False, 'shape': " + shape + "}");
  };
  EXPECT_THAT(refusal("()"), HasSubstr("shape () of int16 needs 2"));
  EXPECT_THAT(refusal("(4611686018427387904,)"), HasSubstr("has 2^63 bytes or more"));
  EXPECT_THAT(refusal("(4611686018427387903,)"), HasSubstr("needs 9223372036854775806"));
  EXPECT_THAT(refusal("(4294967296, 4294967296)"), HasSubstr("has 2^63 bytes or more"));
  EXPECT_THAT(refusal("(0, 4294967296, 4294967296)"), HasSubstr("has 2^63 bytes or more"));
  EXPECT_THAT(refusal("(9223372036854775807, 9223372036854775807, 0)"), HasSubstr("has 2^63 bytes or more"));
}

TEST(NpyArray, fortran_order_is_refused_where_it_matters) {
  const ErrorReport report =
      refusal_of(npy_text("{'descr': '<i2', 'fortran_order': True, 'shape': (3, 2)}\n", six_numbers));
  EXPECT_EQ(report.message, "holds an array of shape (3, 2) in Fortran order");
  EXPECT_EQ(report.hint, "Save numpy.ascontiguousarray(array)");
}

TEST(NpyArray, a_missing_file_is_an_io_error) {
  EXPECT_EQ(report_of<IoError>([] { NpyArray{"/no/such/x.npy"}; }).where, "/no/such/x.npy");
}

RC_GTEST_PROP(NpyArray, a_damaged_file_is_refused_or_read_within_its_bounds, ()) {
  std::string text = npy_text(npy_dict("<i2", 6), six_numbers);
  const std::string characters = "\0\1\2\xff 09<>|biufTF'\",:(){}\\\n"s;
  for (int damage = *rc::gen::inRange(1, 5); damage > 0; --damage) {
    const auto place = *rc::gen::inRange<std::size_t>(6, text.size());
    if (*rc::gen::arbitrary<bool>()) {
      text[place] = *rc::gen::elementOf(characters);
    } else {
      text[place] = static_cast<char>(text[place] ^ (1 << *rc::gen::inRange(0, 8)));
    }
  }
  const TemporaryFile file(text, ".npy");
  try {
    const NpyArray array(file.path());
    const DType column = column_dtype(array.dtype());
    std::vector<std::byte> bytes(static_cast<std::size_t>(array.num_rows() * array.row_elements()) *
                                 size_of(column));
    RC_ASSERT(bytes.size() <= 48U);
    array.read_rows({0, array.num_rows()}, column, bytes);
  } catch (const InputError& error) {
    RC_ASSERT(error.report().where == file.path().string());
  }
}

}  // namespace
}  // namespace evenkeel
