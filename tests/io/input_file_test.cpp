#include "io/files/input_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "io/jsonl/jsonl.hpp"
#include "io/samples/lengths_file.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::report_of;
using testing_support::TemporaryFile;

std::string read_all(const InputFile& file) {
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text, 0);
  return text;
}

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

void set_time(const std::filesystem::path& path, std::int64_t seconds) {
  const std::array<timespec, 2> times{timespec{seconds, 0}, timespec{seconds, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
}

/// Overwrites the file with as many other bytes, like an editor that writes in place.
void overwrite(const std::filesystem::path& path, std::int64_t offset, char byte, std::int64_t time) {
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file.put(byte);
  }
  set_time(path, time);
}

TEST(InputFile, has_a_size_and_returns_its_bytes) {
  EXPECT_EQ(InputFile(TemporaryFile("", ".txt").path()).size(), 0);
  const TemporaryFile file("abc\n", ".txt");
  EXPECT_EQ(read_all(InputFile(file.path())), "abc\n");
}

TEST(InputFile, reads_pieces_of_any_size_in_any_order) {
  const TemporaryFile file("0123456789", ".txt");
  std::string text(7, '\0');
  const std::span<char> out = text;
  const std::vector<InputFile::Piece> pieces{{out.first(3), 6}, {out.subspan(3, 0), 10}, {out.subspan(3), 0}};
  InputFile(file.path()).read(pieces);
  EXPECT_EQ(text, "6780123");
}

TEST(InputFile, a_file_that_changed_before_pieces_of_it_are_read_or_ends_in_one_is_an_error) {
  const TemporaryFile file("0123456789", ".txt");
  const InputFile open(file.path());
  std::string text(4, '\0');
  const std::span<char> out = text;
  const std::vector<InputFile::Piece> beyond{{out.first(2), 0}, {out.last(2), 9}};
  EXPECT_THAT(report_of<IoError>([&] { open.read(beyond); }).message, HasSubstr("ends at byte 10"));
  const std::vector<InputFile::Piece> within{{out.first(2), 0}, {out.last(2), 8}};
  append(file.path(), "more");
  EXPECT_THAT(report_of<IoError>([&] { open.read(within); }).message, HasSubstr("had 10 bytes"));
}

TEST(InputFile, a_missing_file_is_an_error_with_its_path_and_the_reason) {
  const TemporaryFile file;
  const ErrorReport report = report_of<IoError>([&] { (void)InputFile(file.path()); });
  EXPECT_EQ(report.where, file.path().string());
  EXPECT_THAT(report.message, HasSubstr("No such file"));
}

TEST(InputFile, a_folder_is_an_error) {
  const ErrorReport report = report_of<IoError>([] { (void)InputFile(testing::TempDir()); });
  EXPECT_THAT(report.message, HasSubstr("folder"));
}

TEST(InputFile, a_pipe_is_an_error_and_does_not_block) {
  const TemporaryFile file;
  ASSERT_EQ(::mkfifo(file.path().c_str(), 0600), 0);
  const ErrorReport report = report_of<IoError>([&] { (void)InputFile(file.path()); });
  EXPECT_THAT(report.message, HasSubstr("regular file"));
}

TEST(InputFile, an_unreadable_file_is_an_error) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFile file("secret", ".txt");
  std::filesystem::permissions(file.path(), std::filesystem::perms::none);
  EXPECT_THROW((void)InputFile(file.path()), IoError);
}

TEST(InputFile, a_file_that_grows_is_an_error_at_the_next_read_with_both_sizes) {
  const TemporaryFile file("0123456789", ".txt");
  const InputFile open(file.path());
  EXPECT_EQ(read_all(open), "0123456789");
  append(file.path(), "x");
  const ErrorReport report = report_of<IoError>([&] { (void)read_all(open); });
  EXPECT_EQ(report.where, file.path().string());
  EXPECT_THAT(report.message, AllOf(HasSubstr("10 bytes"), HasSubstr("11 now")));
}

TEST(InputFile, a_file_that_shrinks_is_an_error_with_both_sizes) {
  const TemporaryFile file("0123456789", ".txt");
  const InputFile open(file.path());
  std::filesystem::resize_file(file.path(), 4);
  EXPECT_THAT(report_of<IoError>([&] { (void)read_all(open); }).message,
              AllOf(HasSubstr("10 bytes"), HasSubstr("4 now")));
}

TEST(InputFile, a_file_that_is_written_over_in_place_is_an_error) {
  const TemporaryFile file("0123456789", ".txt");
  set_time(file.path(), 1000);
  const InputFile open(file.path());
  overwrite(file.path(), 3, 'x', 2000);
  EXPECT_THAT(report_of<IoError>([&] { (void)read_all(open); }).message, HasSubstr("written to"));
}

TEST(InputFile, keeps_reading_the_opened_file_if_another_takes_its_name) {
  const TemporaryFile file("old", ".txt");
  const TemporaryFile successor("newer", ".txt");
  const InputFile open(file.path());
  std::filesystem::rename(successor.path(), file.path());
  EXPECT_EQ(read_all(open), "old");
  EXPECT_EQ(read_all(InputFile(file.path())), "newer");
}

TEST(InputFile, readers_detect_a_change_between_scanning_and_reading) {
  const std::string line = "{\"prompt_ids\": [1], \"response_ids\": [2]}\n";
  const TemporaryFile file(line + line, ".jsonl");
  const InputFile open(file.path());
  const std::vector<LineRef> lines = scan_lines(open).lines;
  const JsonlSchema schema = infer_schema(open, lines);
  append(file.path(), line);
  EXPECT_THROW((void)read_samples(open, lines, schema), IoError);
  EXPECT_THROW((void)infer_schema(open, lines), IoError);
  EXPECT_THROW((void)scan_lines(open), IoError);
  const TemporaryFile table("length\n1\n", ".csv");
  const InputFile open_table(table.path());
  append(table.path(), "2\n");
  EXPECT_THROW((void)read_length_table(open_table), IoError);
}

TEST(InputFile, its_version_distinguishes_a_copy_and_a_later_time) {
  const TemporaryFile file("abc", ".txt");
  const FileVersion version = InputFile(file.path()).version();
  EXPECT_EQ(InputFile(file.path()).version(), version);
  const TemporaryFile copy("abc", ".txt");
  EXPECT_NE(InputFile(copy.path()).version().inode, version.inode);
  set_time(file.path(), 1000);
  EXPECT_EQ(InputFile(file.path()).version().modified, 1'000'000'000'000);
}

/// Bytes without two equal blocks.
std::string many_bytes(std::int64_t size) {
  std::string text(static_cast<std::size_t>(size), '\0');
  std::uint32_t state = 1;
  for (char& byte : text) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

TEST(FileDigest, differs_if_any_byte_differs) {
  const std::string text = many_bytes(5000);
  const TemporaryFile file(text, ".txt");
  const std::uint64_t digest = InputFile(file.path()).digest({0, 5000});
  for (const std::size_t at : {0UL, 7UL, 8UL, 2500UL, 4999UL}) {
    std::string other = text;
    ++other[at];
    const TemporaryFile changed(other, ".txt");
    EXPECT_NE(InputFile(changed.path()).digest({0, 5000}), digest) << at;
    EXPECT_NE(InputFile(changed.path()).sampled_digest(), InputFile(file.path()).sampled_digest()) << at;
  }
  const TemporaryFile copy(text, ".txt");
  EXPECT_EQ(InputFile(copy.path()).digest({0, 5000}), digest);
}

TEST(FileDigest, differs_if_bytes_are_moved) {
  const std::string block(static_cast<std::size_t>(InputFile::digest_block), 'a');
  const std::string other(static_cast<std::size_t>(InputFile::digest_block), 'b');
  const TemporaryFile ab(block + other, ".txt");
  const TemporaryFile ba(other + block, ".txt");
  const ByteRange all{0, 2 * InputFile::digest_block};
  EXPECT_NE(InputFile(ab.path()).digest(all), InputFile(ba.path()).digest(all));
  const TemporaryFile zeros(std::string(9, '\0'), ".txt");
  const TemporaryFile more_zeros(std::string(10, '\0'), ".txt");
  EXPECT_NE(InputFile(zeros.path()).digest({0, 10}), InputFile(more_zeros.path()).digest({0, 10}));
}

TEST(FileDigest, is_the_sum_of_digests_of_ranges) {
  const std::int64_t size = 3 * InputFile::digest_block + 12345;
  const TemporaryFile file(many_bytes(size), ".txt");
  const InputFile open(file.path());
  std::uint64_t sum = 0;
  for (std::int64_t begin = 0; begin < size; begin += InputFile::digest_block)
    sum += open.digest({begin, begin + InputFile::digest_block});
  EXPECT_EQ(sum, open.digest({0, size}));
  EXPECT_EQ(open.digest({size, size + 5}), 0U) << "nothing is there";
}

TEST(FileDigest, of_sampled_places_covers_both_ends_and_the_middle) {
  std::string text = many_bytes(64 << 20);
  const TemporaryFile file(text, ".txt");
  const std::uint64_t digest = InputFile(file.path()).sampled_digest();
  const auto changed_at = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) ++text[static_cast<std::size_t>(at)];
    const TemporaryFile changed(text, ".txt");
    for (std::int64_t at = begin; at < end; ++at) --text[static_cast<std::size_t>(at)];
    return InputFile(changed.path()).sampled_digest() != digest;
  };
  EXPECT_TRUE(changed_at(0, 1));
  EXPECT_TRUE(changed_at((64 << 20) - 1, 64 << 20));
  EXPECT_TRUE(changed_at(20 << 20, 22 << 20));
}

}  // namespace
}  // namespace evenkeel
