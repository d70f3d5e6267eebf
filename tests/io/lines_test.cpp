#include "io/files/lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::report_of;
using testing_support::scan_whole;
using testing_support::TemporaryFile;

constexpr std::int64_t mebibyte = 1 << 20;

/// Combines the scans of these ranges as ranks do: line numbers are shifted by the number of preceding lines.
LineScan scan_ranges(const std::filesystem::path& path, const std::vector<ByteRange>& ranges) {
  LineScan all;
  for (const ByteRange& range : ranges) {
    const LineScan part = scan_lines(InputFile(path), range);
    for (LineRef line : part.lines) {
      line.number += all.num_lines;
      all.lines.push_back(line);
    }
    all.num_lines += part.num_lines;
  }
  return all;
}

TEST(ScanLines, gives_offsets_lengths_and_numbers) {
  const TemporaryFile file("ab\n\ncde\n", ".txt");
  const LineScan scan = scan_whole(file.path());
  EXPECT_THAT(scan.lines, ElementsAre(LineRef{0, 2, 0}, LineRef{4, 3, 2}));
  EXPECT_EQ(scan.num_lines, 3);
}

TEST(ScanLines, needs_no_final_newline) {
  const TemporaryFile file("ab\ncd", ".txt");
  const LineScan scan = scan_whole(file.path());
  EXPECT_THAT(scan.lines, ElementsAre(LineRef{0, 2, 0}, LineRef{3, 2, 1}));
  EXPECT_EQ(scan.num_lines, 2);
}

TEST(ScanLines, excludes_carriage_returns) {
  const TemporaryFile file("ab\r\n\r\nc\rd\r\n", ".txt");
  EXPECT_THAT(scan_whole(file.path()).lines, ElementsAre(LineRef{0, 2, 0}, LineRef{6, 3, 2}));
}

TEST(ScanLines, lines_of_white_space_are_counted_but_not_returned) {
  const TemporaryFile file("\n \t\nx\n  ", ".txt");
  const LineScan scan = scan_whole(file.path());
  EXPECT_THAT(scan.lines, ElementsAre(LineRef{4, 1, 2}));
  EXPECT_EQ(scan.num_lines, 4);
}

TEST(ScanLines, an_empty_file_has_no_lines) {
  const TemporaryFile file("", ".txt");
  const LineScan scan = scan_whole(file.path());
  EXPECT_THAT(scan.lines, IsEmpty());
  EXPECT_EQ(scan.num_lines, 0);
}

TEST(ScanLines, a_byte_order_mark_belongs_to_no_line) {
  const TemporaryFile file("\xef\xbb\xbf{}\n[]\n", ".txt");
  EXPECT_THAT(scan_whole(file.path()).lines, ElementsAre(LineRef{3, 2, 0}, LineRef{6, 2, 1}));
  EXPECT_THAT(scan_lines(InputFile(file.path()), {0, 1}).lines, ElementsAre(LineRef{3, 2, 0}));
  const TemporaryFile only_mark("\xef\xbb\xbf\nx", ".txt");
  EXPECT_THAT(scan_whole(only_mark.path()).lines, ElementsAre(LineRef{4, 1, 1}));
}

TEST(ScanLines, a_line_belongs_to_the_range_of_its_first_byte) {
  const TemporaryFile file("abc\ndef\n", ".txt");
  EXPECT_THAT(scan_lines(InputFile(file.path()), {0, 1}).lines, ElementsAre(LineRef{0, 3, 0}));
  EXPECT_THAT(scan_lines(InputFile(file.path()), {1, 4}).lines, IsEmpty());
  EXPECT_THAT(scan_lines(InputFile(file.path()), {4, 5}).lines, ElementsAre(LineRef{4, 3, 0}));
  EXPECT_THAT(scan_lines(InputFile(file.path()), {3, 8}).lines, ElementsAre(LineRef{4, 3, 0}));
  EXPECT_THAT(scan_lines(InputFile(file.path()), {5, 8}).lines, IsEmpty());
}

TEST(ScanLines, a_range_is_cut_to_the_file) {
  const TemporaryFile file("a\nb\n", ".txt");
  EXPECT_EQ(scan_lines(InputFile(file.path()), {0, 1000}).num_lines, 2);
  EXPECT_EQ(scan_lines(InputFile(file.path()), {1000, 2000}).num_lines, 0);
  EXPECT_EQ(scan_lines(InputFile(file.path()), {2, 2}).num_lines, 0);
}

TEST(ScanLines, a_line_end_may_be_split_between_blocks) {
  std::string text(static_cast<std::size_t>(mebibyte - 1), 'x');
  text += "\r\n" + std::string(static_cast<std::size_t>(2 * mebibyte - 4), 'y') + "\r\nz";
  const TemporaryFile file(text, ".txt");
  EXPECT_THAT(scan_whole(file.path()).lines,
              ElementsAre(LineRef{0, mebibyte - 1, 0}, LineRef{mebibyte + 1, 2 * mebibyte - 4, 1},
                          LineRef{3 * mebibyte - 1, 1, 2}));
}

TEST(ScanLines, the_last_line_may_run_far_past_the_range) {
  const TemporaryFile file("a\n" + std::string(300000, 'b') + "\nc\n", ".txt");
  EXPECT_THAT(scan_lines(InputFile(file.path()), {0, 3}).lines,
              ElementsAre(LineRef{0, 1, 0}, LineRef{2, 300000, 1}));
  EXPECT_THAT(scan_lines(InputFile(file.path()), {3, 200000}).lines, IsEmpty());
}

RC_GTEST_PROP(ScanLines, ranges_together_equal_the_whole, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::weightedElement<char>(
      {{4, 'a'}, {1, ' '}, {3, '\n'}, {1, '\r'}, {1, '\xef'}, {1, '\xbb'}, {1, '\xbf'}}));
  auto cuts = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::inRange<std::int64_t>(0, static_cast<std::int64_t>(text.size()) + 1));
  cuts.push_back(0);
  cuts.push_back(static_cast<std::int64_t>(text.size()));
  std::sort(cuts.begin(), cuts.end());
  std::vector<ByteRange> ranges;
  for (std::size_t i = 1; i < cuts.size(); ++i) ranges.push_back({cuts[i - 1], cuts[i]});

  const TemporaryFile file(text, ".txt");
  const LineScan whole = scan_whole(file.path());
  const LineScan parts = scan_ranges(file.path(), ranges);
  RC_ASSERT(parts.lines == whole.lines);
  RC_ASSERT(parts.num_lines == whole.num_lines);
}

RC_GTEST_PROP(ScanLines, matches_getline, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab \n\n\r")));
  const TemporaryFile file(text, ".txt");
  std::vector<LineRef> expected;
  std::istringstream in(text);
  std::string line;
  std::int64_t number = 0;
  for (std::int64_t offset = 0; std::getline(in, line); ++number) {
    const auto bytes = static_cast<std::int64_t>(line.size());
    if (line.find_first_not_of(" \r") != std::string::npos) {
      expected.push_back({offset, bytes - (line.back() == '\r' ? 1 : 0), number});
    }
    offset += bytes + 1;
  }
  RC_ASSERT(scan_whole(file.path()).lines == expected);
  RC_ASSERT(scan_whole(file.path()).num_lines == number);
}

TEST(ScanLines, ranges_of_a_large_file_together_equal_the_whole) {
  std::string text;
  for (std::size_t i = 0; text.size() < 5 * mebibyte; ++i) {
    text += std::string(i * i * 7919 % 300007, 'x') + (i % 3 == 0 ? "\r\n" : "\n");
  }
  const TemporaryFile file(text, ".txt");
  const LineScan whole = scan_whole(file.path());
  for (const int parts : {2, 3, 7, 64}) {
    const LineScan cut = scan_ranges(file.path(), split_bytes(InputFile(file.path()).size(), parts));
    EXPECT_EQ(cut.lines, whole.lines) << parts << " parts";
    EXPECT_EQ(cut.num_lines, whole.num_lines) << parts << " parts";
  }
}

TEST(SplitBytes, longer_ranges_come_first) {
  EXPECT_THAT(split_bytes(10, 4),
              ElementsAre(ByteRange{0, 3}, ByteRange{3, 6}, ByteRange{6, 8}, ByteRange{8, 10}));
  EXPECT_THAT(split_bytes(1, 3), ElementsAre(ByteRange{0, 1}, ByteRange{1, 1}, ByteRange{1, 1}));
}

TEST(SplitBytes, impossible_arguments_are_errors) {
  EXPECT_THROW((void)split_bytes(10, 0), InputError);
  EXPECT_THROW((void)split_bytes(-1, 2), InputError);
}

RC_GTEST_PROP(SplitBytes, covers_everything_evenly, ()) {
  const auto bytes = *rc::gen::inRange<std::int64_t>(0, std::numeric_limits<std::int64_t>::max());
  const auto parts = *rc::gen::inRange(1, 200);
  const std::vector<ByteRange> ranges = split_bytes(bytes, parts);
  RC_ASSERT(ranges.size() == static_cast<std::size_t>(parts));
  RC_ASSERT(ranges.front().begin == 0);
  RC_ASSERT(ranges.back().end == bytes);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    RC_ASSERT(ranges[i].begin == ranges[i - 1].end);
    RC_ASSERT(ranges[i - 1].size() - ranges[i].size() <= 1);
    RC_ASSERT(ranges[i - 1].size() >= ranges[i].size());
  }
}

}  // namespace
}  // namespace evenkeel
