#include "io/numpy/npz.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "io/numpy/npy_text.hpp"
#include "io/numpy/numpy_python.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::string_literals;
using namespace testing_support;

constexpr std::int64_t enough = 1 << 20;

template <typename T>
std::string number(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string short_number(std::size_t value) {
  return number(static_cast<std::uint16_t>(value));
}

std::string long_number(std::size_t value) {
  return number(static_cast<std::uint32_t>(value));
}

/// The checksum of zip files, bit by bit.
std::uint32_t crc_32(const std::string& text) {
  std::uint32_t sum = ~std::uint32_t{0};
  for (const char c : text) {
    sum ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ ((sum & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return ~sum;
}

/// One member as its headers tell it and as it is packed.
struct Member {
  std::string name;
  std::string packed;
  std::size_t size = 0;
  std::uint32_t checksum = 0;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
};

Member stored(const std::string& name, const std::string& content) {
  return {name, content, content.size(), crc_32(content)};
}

/// As one block of deflate that is not compressed.
Member deflated(const std::string& name, const std::string& content) {
  const std::string packed =
      "\1" + short_number(content.size()) + short_number(~content.size() & 0xffff) + content;
  return {name, packed, content.size(), crc_32(content), 8};
}

/// A zip file spelled out: members, directory, end.
std::string zip_text(const std::vector<Member>& members) {
  std::string text;
  std::string directory;
  for (const Member& member : members) {
    const std::string what = short_number(20) + short_number(member.flags) + short_number(member.method) +
                             long_number(0) + number(member.checksum) + long_number(member.packed.size()) +
                             long_number(member.size) + short_number(member.name.size()) + short_number(0);
    directory +=
        "PK\1\2" + short_number(20) + what + std::string(10, '\0') + long_number(text.size()) + member.name;
    text += "PK\3\4" + what + member.name + member.packed;
  }
  const std::string count = short_number(members.size());
  return text + directory + "PK\5\6" + long_number(0) + count + count + long_number(directory.size()) +
         long_number(text.size()) + short_number(0);
}

/// A .npy file of uint8.
std::string array_text(const std::string& data) {
  return npy_text(npy_dict("|u1", data.size()), data);
}

std::string elements(const NpyArray& array) {
  std::string values(static_cast<std::size_t>(array.num_rows()), '\0');
  array.read_rows({0, array.num_rows()}, DType::uint8, std::as_writable_bytes(std::span(values)));
  return values;
}

/// What reading the only member is refused with.
template <typename E = InputError>
ErrorReport refusal_of(const Member& member, std::int64_t max_bytes = enough) {
  const TemporaryFile file(zip_text({member}), ".npz");
  NpzFile arrays(file.path());
  const ErrorReport report = report_of<E>([&] { (void)arrays.read("x", max_bytes); });
  EXPECT_EQ(report.where, file.path().string() + ":x.npy");
  return report;
}

TEST(NpzFile, reads_stored_and_deflated_members_by_name) {
  const TemporaryFile file(zip_text({stored("ids.npy", array_text("abc")), stored("notes.txt", "hello"),
                                     deflated("deep/mask.npy", array_text("de"))}),
                           ".npz");
  NpzFile arrays(file.path());
  EXPECT_THAT(arrays.names(), ElementsAre("ids", "deep/mask"));
  EXPECT_EQ(elements(arrays.read("ids", enough)), "abc");
  const NpyArray mask = arrays.read("deep/mask", enough);
  EXPECT_EQ(mask.dtype(), NpyDType::uint8);
  EXPECT_EQ(elements(mask), "de");
  EXPECT_EQ(elements(arrays.read("ids", enough)), "abc") << "again";
}

TEST(NpzFile, an_array_outlives_its_file) {
  const TemporaryFile file(zip_text({deflated("x.npy", array_text("abc"))}), ".npz");
  const NpyArray array = NpzFile(file.path()).read("x", enough);
  EXPECT_EQ(elements(array), "abc");
}

TEST(NpzFile, may_have_no_arrays) {
  const TemporaryFile file(zip_text({}), ".npz");
  EXPECT_THAT(NpzFile(file.path()).names(), IsEmpty());
}

TEST(NpzFile, an_unknown_array_is_an_error_that_lists_the_known_ones) {
  const TemporaryFile file(zip_text({stored("a.npy", ""), stored("b.npy", ""), stored("c", "")}), ".npz");
  NpzFile arrays(file.path());
  EXPECT_EQ(report_of<InputError>([&] { (void)arrays.read("c", enough); }).message,
            "has no array 'c'; its arrays are: a, b");
}

TEST(NpzFile, two_members_of_one_name_are_refused) {
  const TemporaryFile file(zip_text({stored("a.npy", ""), stored("a.npy", "")}), ".npz");
  EXPECT_EQ(report_of<InputError>([&] { NpzFile{file.path()}; }).message, "has two members 'a.npy'");
}

TEST(NpzFile, other_files_are_refused) {
  const auto refusal = [](const std::string& text) {
    const TemporaryFile file(text, ".npz");
    return report_of<InputError>([&] { NpzFile{file.path()}; }).message;
  };
  EXPECT_EQ(refusal(""), "has 0 bytes; a zip file has 22 at least");
  EXPECT_THAT(refusal(array_text("some array, but not in a zip file")),
              HasSubstr("cannot be opened as a zip file: "));
  EXPECT_EQ(report_of<IoError>([] { NpzFile{"/no/such/x.npz"}; }).where, "/no/such/x.npz");
}

TEST(NpzFile, a_file_cut_anywhere_is_refused) {
  const std::string whole = zip_text({stored("x.npy", array_text("abc"))});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const TemporaryFile file(whole.substr(0, size), ".npz");
    EXPECT_THROW(NpzFile{file.path()}, InputError) << size;
  }
}

TEST(NpzFile, an_array_above_the_limit_is_refused_before_it_is_unpacked) {
  const Member member = deflated("x.npy", array_text("abc"));
  const auto size = static_cast<std::int64_t>(member.size);
  const ErrorReport report = refusal_of<LimitError>(member, size - 1);
  EXPECT_EQ(report.message, "has " + std::to_string(size) + " bytes; at most " + std::to_string(size - 1) +
                                " are decompressed into memory");
  const TemporaryFile file(zip_text({member}), ".npz");
  EXPECT_EQ(elements(NpzFile(file.path()).read("x", size)), "abc");
}

TEST(NpzFile, a_size_that_the_packed_bytes_cannot_hold_is_refused_before_memory_is_taken) {
  Member member = deflated("x.npy", array_text("abc"));
  member.size = 0xfffffffe;
  EXPECT_THAT(refusal_of(member, std::numeric_limits<std::int64_t>::max()).message,
              HasSubstr("has 4294967294 bytes, says the directory; its " +
                        std::to_string(member.packed.size()) + " packed bytes cannot hold them"));
  member = stored("x.npy", array_text("abc"));
  ++member.size;
  EXPECT_THAT(refusal_of(member).message, HasSubstr("cannot hold them"));
}

TEST(NpzFile, a_member_of_another_size_than_the_directory_says_is_refused) {
  Member member = deflated("x.npy", array_text("abc"));
  const std::size_t size = member.size;
  member.size = size + 1;
  EXPECT_FALSE(refusal_of(member).message.empty());
  member.size = size - 1;
  EXPECT_FALSE(refusal_of(member).message.empty());
  member.size = 0;
  EXPECT_FALSE(refusal_of(member).message.empty());
}

TEST(NpzFile, damaged_members_are_refused) {
  Member member = stored("x.npy", array_text("abc"));
  member.checksum ^= 1;
  EXPECT_THAT(refusal_of(member).message, HasSubstr("cannot be decompressed: "));
  member = deflated("x.npy", array_text("abc"));
  member.packed[0] = '\7';  // no kind of block
  EXPECT_THAT(refusal_of(member).message, HasSubstr("cannot be decompressed: "));
  EXPECT_THAT(refusal_of(stored("x.npy", "no array")).message, HasSubstr("does not start with \\x93NUMPY"));
}

TEST(NpzFile, encrypted_members_and_other_methods_are_refused) {
  Member member = stored("x.npy", array_text("abc"));
  member.flags = 1;
  EXPECT_EQ(refusal_of(member).message, "is encrypted");
  member = stored("x.npy", array_text("abc"));
  member.method = 14;
  EXPECT_EQ(refusal_of(member).message,
            "is compressed with method 14; supported are stored (0) and deflated (8)");
}

RC_GTEST_PROP(NpzFile, a_damaged_file_is_refused_or_read_within_its_bounds, ()) {
  std::string text = zip_text({stored("x.npy", array_text("abc")), deflated("y.npy", array_text("defg"))});
  for (int damage = *rc::gen::inRange(1, 4); damage > 0; --damage) {
    const auto place = *rc::gen::inRange<std::size_t>(0, text.size());
    text[place] = *rc::gen::oneOf(rc::gen::elementOf("\0\1\x7f\x80\xff"s), rc::gen::arbitrary<char>());
  }
  const TemporaryFile file(text, ".npz");
  try {
    NpzFile arrays(file.path());
    for (const std::string& name : arrays.names()) {
      const NpyArray array = arrays.read(name, enough);
      std::vector<std::byte> rows(static_cast<std::size_t>(array.num_rows() * array.row_elements()) *
                                  size_of(column_dtype(array.dtype())));
      array.read_rows({0, array.num_rows()}, column_dtype(array.dtype()), rows);
    }
  } catch (const Error& error) {
    RC_ASSERT(error.report().where.starts_with(file.path().string()));
  }
}

TEST(NumPy, archives_are_read_stored_and_compressed) {
  const std::optional<std::string> python = numpy_python();
  ASSERT_TRUE(python) << "no Python with NumPy: launch/install-packages.sh --tests installs it";
  const ScratchFolder folder;
  write_text(folder / "make.py",
             "import numpy, pathlib\n"
             "folder = pathlib.Path(__file__).parent\n"
             "arrays = dict(zeros=numpy.zeros((1000, 1000), numpy.uint8), ids=numpy.arange(5))\n"
             "numpy.savez(folder / 'stored.npz', **arrays)\n"
             "numpy.savez_compressed(folder / 'deflated.npz', **arrays)\n");
  const ProgramResult result = run_command(*python + " " + (folder / "make.py").string());
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* const name : {"stored.npz", "deflated.npz"}) {
    NpzFile arrays(folder / name);
    EXPECT_THAT(arrays.names(), ElementsAre("zeros", "ids"));
    EXPECT_EQ(arrays.read("zeros", enough).shape(), (std::vector<std::int64_t>{1000, 1000}));
    std::array<std::int64_t, 5> ids{};
    arrays.read("ids", enough).read_rows({0, 5}, DType::int64, std::as_writable_bytes(std::span(ids)));
    EXPECT_THAT(ids, ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THROW((void)arrays.read("zeros", 1'000'000), LimitError);
  }
}

TEST(NpzFile, that_was_cut_short_or_written_to_after_it_was_opened_is_said_to_have_changed) {
  const std::string whole = zip_text({stored("x.npy", array_text(std::string(1 << 16, 'x')))});
  for (const std::size_t size : {std::size_t{50}, std::size_t{0}, whole.size() + 1}) {
    const TemporaryFile file(whole, ".npz");
    NpzFile npz(file.path());
    const NpyArray array = npz.open("x", enough);
    std::filesystem::resize_file(file.path(), size);
    EXPECT_THAT(report_of<IoError>([&] { (void)elements(array); }).message,
                HasSubstr("has changed while in use"));
  }
}

}  // namespace
}  // namespace evenkeel
