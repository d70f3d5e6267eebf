#include "io/files/line_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "io/jsonl/jsonl.hpp"
#include "io/jsonl/schema.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing_support::report_of;
using testing_support::scan_whole;
using testing_support::TemporaryFile;

TEST(LineNames, number_lines_from_1_in_each_file) {
  const LineNames names({"a", "empty", "b"}, {0, 3, 3});
  EXPECT_EQ(names.where(0), "a:1");
  EXPECT_EQ(names.where(2), "a:3");
  EXPECT_EQ(names.where(3), "b:1");
  EXPECT_EQ(names.describe(4), "line 2 of b");
  EXPECT_EQ(LineNames(std::string("a")).describe(4), "line 5");
}

RC_GTEST_PROP(PartsOf, any_ranges_cut_all_files_into_each_byte_once_in_order, ()) {
  const auto small = *rc::gen::container<std::vector<std::uint8_t>>(rc::gen::inRange<std::uint8_t>(0, 6));
  const std::vector<std::int64_t> sizes(small.begin(), small.end());
  const auto bytes = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::vector<std::vector<int>> seen;
  for (const std::int64_t size : sizes) seen.emplace_back(static_cast<std::size_t>(size));
  for (const ByteRange range : split_bytes(bytes, *rc::gen::inRange(1, 9))) {
    for (const FilePart& part : split_by_file(sizes, range)) {
      RC_ASSERT(part.range.size() > 0);
      for (std::int64_t b = part.range.begin; b < part.range.end; ++b)
        ++seen[part.file][static_cast<std::size_t>(b)];
    }
  }
  for (const std::vector<int>& file : seen) RC_ASSERT(file == std::vector<int>(file.size(), 1));
}

TEST(LineFiles, are_read_in_any_order_with_consecutive_sample_numbers) {
  const TemporaryFile a(
      "{\"prompt_ids\":[1],\"response_ids\":[2]}\n\n{\"prompt_ids\":[3],\"response_ids\":[4]}\n", ".jsonl");
  const TemporaryFile b("{\"prompt_ids\":[5],\"response_ids\":[6]}\n", ".jsonl");
  const InputFile first(a.path());
  const InputFile second(b.path());
  const LineFiles files({&first, &second}, {0, 3});
  LineRef last = scan_whole(b.path()).lines[0];
  last.number += 3;
  const std::vector<LineRef> lines{last, scan_whole(a.path()).lines[1], scan_whole(a.path()).lines[0]};
  const RaggedBatch batch = read_samples(files, lines, infer_schema(files, lines));
  EXPECT_EQ(batch.samples()[0].id, SampleId{3});
  EXPECT_EQ(batch.samples()[1].id, SampleId{2});
  EXPECT_NE(batch.samples()[0].group, batch.samples()[2].group);
  EXPECT_THAT(batch.at("input_ids").values<std::int64_t>(), testing::ElementsAre(5, 6, 3, 4, 1, 2));
}

TEST(LineFiles, name_both_files_with_conflicting_fields) {
  const TemporaryFile a("{\"prompt_ids\":[1],\"response_ids\":[2],\"x\":1}\n", ".jsonl");
  const TemporaryFile b("\n{\"prompt_ids\":[5],\"response_ids\":[6],\"x\":true}\n", ".jsonl");
  const InputFile first(a.path());
  const InputFile second(b.path());
  const LineFiles files({&first, &second}, {0, 1});
  LineRef last = scan_whole(b.path()).lines[0];
  last.number += 1;
  const std::vector<LineRef> lines{scan_whole(a.path()).lines[0], last};
  const ErrorReport report = report_of<InputError>([&] { (void)infer_schema(files, lines); });
  EXPECT_EQ(report.where, b.line(2));
  EXPECT_THAT(report.message, HasSubstr("holds booleans in line 2 of " + b.path().string()));
  EXPECT_THAT(report.message, HasSubstr("holds numbers in line 1 of " + a.path().string()));
}

}  // namespace
}  // namespace evenkeel
