#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "io/numpy/npy.hpp"
#include "io/numpy/numpy_python.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;
using namespace testing_support;

constexpr std::array<DType, 11> numpy_dtypes{DType::boolean, DType::uint8,   DType::int8,   DType::int16,
                                             DType::uint16,  DType::int32,   DType::uint32, DType::int64,
                                             DType::float16, DType::float32, DType::float64};

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

/// Bytes for an array: bits that any element may have.
std::vector<std::byte> content_of(DType dtype, const std::vector<std::int64_t>& shape) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements_of(shape)) * size_of(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(dtype == DType::boolean ? i % 2 : i * 37 + 11);
  }
  return bytes;
}

TEST(WriteNpy, follows_numpy_to_the_byte) {
  const TemporaryFile file(".npy");
  const std::vector<std::int64_t> values{1, 2, 3};
  write_npy(file.path(), DType::int64, std::array{std::int64_t{3}}, std::as_bytes(std::span(values)));
  EXPECT_EQ(file.content(),
            "\x93NUMPY\1\0\x76\0"s
            "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }" +
                std::string(60, ' ') + "\n\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"s);
}

TEST(WriteNpy, a_scalar_has_room_for_no_growth) {
  const TemporaryFile file(".npy");
  write_npy(file.path(), DType::uint8, {}, content_of(DType::uint8, {}));
  EXPECT_EQ(file.content(),
            "\x93NUMPY\1\0\x76\0"s
            "{'descr': '|u1', 'fortran_order': False, 'shape': (), }" +
                std::string(62, ' ') + "\n\x0b");
}

TEST(WriteNpy, what_numpy_cannot_hold_is_refused) {
  const TemporaryFile file(".npy");
  const auto refusal = [&](DType dtype, const std::vector<std::int64_t>& shape, std::size_t bytes) {
    const std::vector<std::byte> content(bytes);
    const ErrorReport report = report_of<InputError>([&] { write_npy(file.path(), dtype, shape, content); });
    EXPECT_EQ(report.where, file.path().string());
    return report.message;
  };
  EXPECT_EQ(refusal(DType::bfloat16, {2}, 4), "cannot hold bfloat16, which NumPy does not have");
  EXPECT_EQ(refusal(DType::int32, {2, 2}, 12), "is to hold 12 bytes; shape (2, 2) of int32 needs 16");
  EXPECT_THAT(refusal(DType::int32, {-1}, 0), HasSubstr("shape (-1,) of int32 has a negative dimension"));
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THAT(refusal(DType::int32, {huge, huge}, 0), HasSubstr("2^63 bytes or more"));
  EXPECT_EQ(refusal(DType::int32, std::vector<std::int64_t>(33, 1), 4),
            "cannot hold 33 dimensions; NumPy has at most 32");
  EXPECT_EQ(files_named_like(file.path()), 0);
}

TEST(WriteNpy, replaces_an_older_file_and_leaves_no_other) {
  const TemporaryFile file("old", ".npy");
  write_npy(file.path(), DType::uint8, std::array{std::int64_t{0}}, {});
  EXPECT_EQ(NpyArray(file.path()).num_rows(), 0);
  EXPECT_EQ(files_named_like(file.path()), 1);
  EXPECT_EQ(report_of<IoError>([] {
              write_npy("/no/such/x.npy", DType::uint8, {}, std::array{std::byte{1}});
            }).where,
            "/no/such/x.npy");
}

RC_GTEST_PROP(WriteNpy, any_array_comes_back_in_any_rows, ()) {
  const DType dtype = *rc::gen::elementOf(numpy_dtypes);
  const auto shape = *rc::gen::container<std::vector<std::int64_t>>(*rc::gen::inRange<std::size_t>(0, 4),
                                                                    rc::gen::inRange<std::int64_t>(0, 6));
  const std::vector<std::byte> content = content_of(dtype, shape);
  const TemporaryFile file(".npy");
  write_npy(file.path(), dtype, shape, content);
  const NpyArray array(file.path());
  RC_ASSERT(array.shape() == shape);
  RC_ASSERT(column_dtype(array.dtype()) == dtype);
  RC_ASSERT((std::filesystem::file_size(file.path()) - content.size()) % 64 == 0U);
  const auto first = *rc::gen::inRange<std::int64_t>(0, array.num_rows() + 1);
  const auto last = *rc::gen::inRange<std::int64_t>(first, array.num_rows() + 1);
  const std::size_t row_bytes = static_cast<std::size_t>(array.row_elements()) * size_of(dtype);
  std::vector<std::byte> rows(static_cast<std::size_t>(last - first) * row_bytes);
  array.read_rows({first, last}, dtype, rows);
  RC_ASSERT(std::ranges::equal(
      rows, std::span(content).subspan(static_cast<std::size_t>(first) * row_bytes, rows.size())));
}

TEST(NumPy, writes_the_same_bytes) {
  const std::optional<std::string> python = numpy_python();
  ASSERT_TRUE(python) << "no Python with NumPy: launch/install-packages.sh --tests installs it";
  const ScratchFolder ours;
  const ScratchFolder theirs;
  std::vector<std::string> names;
  for (const DType dtype : numpy_dtypes) {
    // the last shapes fill a header of 128 bytes up to its end, and past it
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{},
                                                {0},
                                                {3},
                                                {12345},
                                                {3, 4},
                                                {2, 0, 5},
                                                {1, 1, 1, 2, 3},
                                                std::vector<std::int64_t>(13, 1),
                                                std::vector<std::int64_t>(14, 1),
                                                std::vector<std::int64_t>(15, 1),
                                                std::vector<std::int64_t>(16, 1),
                                                std::vector<std::int64_t>(32, 1)}) {
      names.push_back(std::to_string(names.size()) + ".npy");
      write_npy(ours / names.back(), dtype, shape, content_of(dtype, shape));
    }
  }
  const std::string script =
      "import numpy, pathlib\n"
      "for path in pathlib.Path('" +
      ours.path().string() +
      "').iterdir():\n"
      "    array = numpy.load(path)\n"
      "    assert array.flags.c_contiguous\n"
      "    numpy.save('" +
      theirs.path().string() + "/' + path.name, array)\n";
  write_text(theirs / "copy.py", script);
  const ProgramResult result = run_command(*python + " " + (theirs / "copy.py").string());
  ASSERT_EQ(result.status, 0) << result.err;
  for (const std::string& name : names) EXPECT_EQ(read_text(ours / name), read_text(theirs / name)) << name;
}

TEST(NumPy, arrays_of_every_dtype_and_version_are_read) {
  const std::optional<std::string> python = numpy_python();
  ASSERT_TRUE(python) << "no Python with NumPy: launch/install-packages.sh --tests installs it";
  const ScratchFolder folder;
  write_text(folder / "make.py",
             "import numpy, pathlib, warnings\n"
             "warnings.simplefilter('ignore')\n"
             "folder = pathlib.Path(__file__).parent\n"
             "names = 'bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64'\n"
             "for name in names.split():\n"
             "    array = numpy.array([[0, 1, 1], [1, 0, 1]]).astype(name)\n"
             "    numpy.save(folder / f'{name}-1.npy', array)\n"
             "    for major in (2, 3):\n"
             "        with open(folder / f'{name}-{major}.npy', 'wb') as file:\n"
             "            numpy.lib.format.write_array(file, array, version=(major, 0))\n"
             "numpy.save(folder / 'fortran.npy', numpy.asfortranarray(numpy.ones((2, 3))))\n"
             "numpy.save(folder / 'big.npy', numpy.ones(2, '>i4'))\n");
  const ProgramResult result = run_command(*python + " " + (folder / "make.py").string());
  ASSERT_EQ(result.status, 0) << result.err;
  for (int code = 0; code <= static_cast<int>(NpyDType::float64); ++code) {
    const auto dtype = static_cast<NpyDType>(code);
    for (const std::string& version : {"-1"s, "-2"s, "-3"s}) {
      const NpyArray array(folder / (std::string(name_of(dtype)) + version + ".npy"));
      EXPECT_EQ(array.dtype(), dtype);
      EXPECT_EQ(array.shape(), (std::vector<std::int64_t>{2, 3}));
      const DType column = column_dtype(dtype);
      std::vector<std::byte> rows(3 * size_of(column));
      array.read_rows({1, 2}, column, rows);
      const std::vector<std::byte> zero(size_of(column));
      const auto element = [&](std::size_t i) {
        return std::span(rows).subspan(i * zero.size(), zero.size());
      };
      EXPECT_TRUE(std::ranges::equal(element(1), zero)) << name_of(dtype);
      EXPECT_FALSE(std::ranges::equal(element(0), zero)) << name_of(dtype);
      EXPECT_TRUE(std::ranges::equal(element(0), element(2))) << name_of(dtype);
    }
  }
  EXPECT_THAT(report_of<InputError>([&] { NpyArray{folder / "fortran.npy"}; }).message,
              HasSubstr("Fortran order"));
  EXPECT_THAT(report_of<InputError>([&] { NpyArray{folder / "big.npy"}; }).message, HasSubstr("'>i4'"));
}

}  // namespace
}  // namespace evenkeel
